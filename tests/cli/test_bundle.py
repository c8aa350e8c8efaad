"""A bundle that runs again: what an export holds, the imported grid by its name, and own runs against the export."""

import re
import zipfile
from importlib import metadata
from pathlib import Path

import numpy as np
import pytest
from support.executors import DrawnTimes
from support.repositories import commit

from raybench.config import load_grid
from raybench.core.options import GridOptions
from raybench.planning.grid_options import requested_grid
from raybench.run import run_grid

GRID = """
name: mine
workload: train.py:train
epochs: 2
repeats: 3
axes: {device: [cpu], batch_size: [32, 64, 128]}
"""
TRAIN = "def train(trial, *, batch_size: int):\n    pass\n"


def run(source, results, seconds, **options):
    random = np.random.default_rng(len(str(results)))
    times = DrawnTimes(lambda job: float(seconds * np.exp(random.normal(0, 0.01))))
    chosen = GridOptions(results=results, checks=False, tracking=None, **options)
    return run_grid(requested_grid(source, chosen), times, None, chosen)


@pytest.fixture
def bundle(tmp_path, raybench, monkeypatch):
    """A bundle of a grid that ran in a repository with an edited file, and the commit."""
    code = tmp_path / "there"
    code.mkdir()
    (code / "train.py").write_text(TRAIN)
    (code / "grid.yaml").write_text(GRID)
    head = commit(code)
    (code / "grid.yaml").write_text(GRID.replace("repeats: 3", "repeats: 4"))
    run(code / "grid.yaml", code / "results", 1.0, set=["axes.batch_size=[32, 128]"])
    path = tmp_path / "mine.zip"
    said = raybench("export", "mine", "--results", str(code / "results"), "-o", str(path))
    assert said.status == 0, said.err
    here = tmp_path / "here"
    here.mkdir()
    monkeypatch.chdir(here)
    return path, here, head


def test_an_export_holds_the_grid_the_commit_and_the_packages(bundle):
    path, _, head = bundle
    with zipfile.ZipFile(path) as archive:
        grid, requirements = (archive.read(f"mine/{name}").decode() for name in ("grid.yaml", "requirements.txt"))
    (path.parent / "again.yaml").write_text(grid)
    spec = load_grid(path.parent / "again.yaml")
    assert (spec.axes["batch_size"], spec.repeats) == ([32, 128], 4), "as it ran, with the changes by options"
    commit = re.search(r"# commit of the code: ([0-9a-f]+) with uncommitted changes\n", requirements)[1]
    assert head.startswith(commit)
    assert f"\nnumpy=={metadata.version('numpy')}\n" in requirements


def test_an_imported_grid_runs_again_by_its_name(bundle, raybench):
    path, here, _ = bundle
    said = raybench("import", str(path))
    assert said.status == 0 and "in the folder of its code at commit" in said.out and "uncommitted" in said.out
    said = raybench("plan", "mine")
    assert said.status == 2 and "train.py" in said.err, "the code is not imported"
    (here / "train.py").write_text(TRAIN + "# edited\n")
    assert run(Path("mine"), Path("raybench-results"), 1.25).ran == 8, "of other files"


@pytest.mark.parametrize(("seconds", "status"), [(1.0, 0), (1.25, 4)])
def test_own_runs_are_compared_with_those_of_an_export(bundle, raybench, seconds, status):
    path, here, _ = bundle
    with zipfile.ZipFile(path) as archive:
        (here / "grid.yaml").write_bytes(archive.read("mine/grid.yaml"))
    (here / "train.py").write_text(TRAIN + "# edited\n")
    run(here / "grid.yaml", Path("raybench-results"), seconds)
    said = raybench("compare", str(path), "raybench-results/mine")
    assert said.status == status, said.out
    assert "train.py" in said.out or "the files of the training code" in said.out
