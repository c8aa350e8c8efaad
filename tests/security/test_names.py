"""Names from people's files are text: in a page they are escaped, and no file is made where they point."""

import json
import re
import shutil
from pathlib import Path

import pytest
from mlflow import MlflowClient
from support.project import run_trials

from raybench.config import load_grid

EVIL = {
    "markup": "<script>alert(1)</script>",
    "attribute": "\"onmouseover='alert(1)'x=\"",
    "climbing": "../../../escaped",
    "slash": "a/b\\c",
    "absolute": "/tmp/raybench-escaped",
    "template": "{{ 7 * 7 }}${x}%s{0}",
    "long": "n" * 900,
    "signs": "a\u202eb\u0000c\nd\te".replace("\u0000", ""),
}

WORKLOAD = """
import numpy as np
import torch

from raybench import Data, Split, Workload

NAMES = {names!r}


def data(root):
    random = np.random.default_rng(0)
    inputs = random.normal(size=(80, 1)).astype(np.float32)
    targets = (inputs[:, 0] > 0).astype(np.int64)
    return Data(Split(inputs[:64], targets[:64]), Split(inputs[64:], targets[64:]))


def metrics(outputs, targets):
    right = (outputs.argmax(-1) == targets).float()
    return {{"accuracy": right, **{{name: right for name in NAMES}}}}


def build(kind="plain"):
    return torch.nn.Linear(1, 2)


mine = Workload(model=build, data=data, metrics=metrics, options={{"kind": "plain"}})
"""


@pytest.fixture(scope="module")
def outcome(tmp_path_factory, migrated_database):
    """A grid with a device, a metric, a model's option and a description of every evil name."""
    outside = tmp_path_factory.mktemp("outside")
    folder = outside / "one" / "two" / "three"
    folder.mkdir(parents=True)
    names = list(EVIL.values())
    (folder / "mine.py").write_text(WORKLOAD.format(names=names))
    devices = {name: {"kind": "cpu"} for name in names}
    grid = {
        "name": "names",
        "description": " ".join(names),
        "workload": "mine.py:mine",
        "epochs": 1,
        "batch_size": 32,
        "threads": 1,
        "axes": {"device": names},
        # Cells that differ in nothing but the name of their device are one cell.
        "overrides": [{"when": {"device": name}, "set": {"model": {"kind": name}}} for name in names],
        "devices": devices,
    }
    before = set(Path("/tmp").glob("raybench-escaped*"))
    (folder / "results").mkdir()
    shutil.copy(migrated_database, folder / "results" / "mlflow.db")
    result = run_trials(folder, json.dumps(grid), tracking="", report=True)
    made = {path for path in outside.rglob("*") if path.is_file()}
    made |= set(Path("/tmp").glob("raybench-escaped*")) - before
    return result, folder, made


def test_every_cell_was_run_under_its_name(outcome):
    result, _, _ = outcome
    assert {attempt.status for attempt in result.latest.values()} == {"completed"}
    assert {each.axes["device"] for each in result.report.answer.configurations} == set(EVIL.values())


def test_no_file_is_outside_the_results_folder(outcome):
    _, folder, made = outcome
    strays = {path for path in made if not path.is_relative_to(folder / "results")}
    assert {path.relative_to(folder) for path in strays} == {Path("grid.yaml"), Path("mine.py")}


def test_the_page_runs_nothing_of_them(outcome):
    result, _, _ = outcome
    page = (result.folder / "report.html").read_text()
    assert "alert(1)" in page, "the name is told"
    assert not re.search(r"<script>\s*alert", page)
    assert not re.search(r"<[^<>]*\sonmouseover=", re.sub(r'"[^"]*"', '""', page))
    assert "{{ 7 * 7 }}" in page
    assert ">49<" not in page


def test_artifacts_have_plain_names(outcome):
    result, _, _ = outcome
    client = MlflowClient(result.store.uri)
    experiment = client.get_experiment_by_name("names")
    paths = []
    for run in client.search_runs([experiment.experiment_id]):
        folders = [""]
        while folders:
            for entry in client.list_artifacts(run.info.run_id, folders.pop() or None):
                (folders if entry.is_dir else paths).append(entry.path)
    assert paths
    assert all(re.fullmatch(r"[\w.-]+(/[\w.-]+)*", path) for path in paths), paths


@pytest.mark.parametrize("name", EVIL.values(), ids=EVIL)
def test_a_grids_own_name_is_no_path(name, tmp_path):
    from raybench.errors import GridFileError

    (tmp_path / "g.yaml").write_text(json.dumps({"name": name, "workload": "digits_cnn"}))
    with pytest.raises(GridFileError, match="a name of letters"):
        load_grid(tmp_path / "g.yaml")
