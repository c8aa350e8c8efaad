"""A bundle that runs again: what an export holds, the imported grid by its name, and the runs here against it."""

import re
import subprocess
import zipfile
from dataclasses import replace
from importlib import metadata
from pathlib import Path

import numpy as np
import pytest
from support.executors import DrawnTimes

from raybench.config import load_grid
from raybench.core.options import GridOptions
from raybench.planning.grid_options import requested_grid
from raybench.planning.plan import make_plan
from raybench.reporting.reproduction import before
from raybench.results.history import GridHistory
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


def git(folder, *words):
    own = ("-c", "user.name=a", "-c", "user.email=a@b", "-c", "commit.gpgsign=false")
    subprocess.run(["git", "-C", str(folder), *own, *words], check=True, capture_output=True)


@pytest.fixture
def bundle(tmp_path, raybench, monkeypatch):
    """A bundle of a grid that ran in a repository with an edited file, and the commit."""
    code = tmp_path / "there"
    code.mkdir()
    (code / "train.py").write_text(TRAIN)
    (code / "grid.yaml").write_text(GRID)
    git(code, "init", "-q")
    git(code, "add", ".")
    git(code, "commit", "-qm", "first")
    (code / "grid.yaml").write_text(GRID.replace("repeats: 3", "repeats: 4"))
    run(code / "grid.yaml", code / "results", 1.0, set=["axes.batch_size=[32, 128]"])
    path = tmp_path / "mine.zip"
    said = raybench("export", "mine", "--results", str(code / "results"), "-o", str(path))
    assert said.status == 0, said.err
    here = tmp_path / "here"
    here.mkdir()
    monkeypatch.chdir(here)
    head = subprocess.run(["git", "-C", str(code), "rev-parse", "HEAD"], capture_output=True, text=True).stdout
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
    outcome = run(Path("mine"), Path("raybench-results"), 1.25)
    assert outcome.ran == 8, "of other files"
    (sentence,) = outcome.report.reproduction
    assert sentence.startswith("8 runs here against the 8 imported runs") and "in 2 configurations" in sentence
    slower = re.search(r"takes ([\d.]+)x as long as these \(95% CI ([\d.]+)–([\d.]+)\)", sentence)
    assert float(slower[2]) < 1.25 < float(slower[3]) and float(slower[3]) - float(slower[2]) < 0.1
    assert sentence.endswith("Different here: the files of the training code, or its command.")
    shown = raybench("report", "mine")
    assert sentence in " ".join(shown.out.split())
    assert sentence in re.sub("<[^>]*>", "", (here / "raybench-results/mine/report.html").read_text())


def test_what_differs_is_said_before_a_run(bundle, tmp_path, raybench, monkeypatch):
    path, here, _ = bundle
    raybench("import", str(path))
    (here / "train.py").write_text(TRAIN)
    monkeypatch.setattr("raybench.core.code_state.packages", lambda: ["numpy==1.0"])
    chosen = GridOptions(checks=False, tracking=None)
    spec = requested_grid(Path("mine"), chosen)
    plan = make_plan(spec, DrawnTimes(lambda job: 1.0).nodes(), tmp_path)
    history = GridHistory.read(here / "raybench-results" / "mine")
    for each in history.attempts.values():
        each.cell = replace(each.cell, device=replace(each.cell.device, model="Intel Xeon"))
    (sentence,) = before(plan, history)
    assert sentence.startswith("Imported: 8 runs of drawn, commit ") and "with uncommitted changes" in sentence
    assert f"Different here: device.model: Intel Xeon → {plan.cells[0].content.device.model};" in sentence
    assert " more." in sentence, "all packages but numpy are missing"
