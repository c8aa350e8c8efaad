"""Every shipped grid: whether it can be planned, and cut to see that it runs, from its file to its report."""

import shutil
import sqlite3
from importlib.util import find_spec

import pytest
from support import ROOT
from support.outcomes import run_counts

from raybench import datasets
from raybench.config import load_grid
from raybench.core.identity import is_smoke
from raybench.core.options import GridOptions
from raybench.devices import Hardware
from raybench.engines import FRAMEWORKS
from raybench.environments import Interpreter
from raybench.planning.node import Node
from raybench.planning.plan import make_plan
from raybench.planning.smoke import smoke_grid
from raybench.results.folder import REPORT
from raybench.run import run_grid
from raybench.workloads import read_workload

GRIDS = sorted((ROOT / "grids").glob("*.yaml"))
IN_EVERY_RUN = {"quickstart": ()}
"""Run also outside the exhaustive layer."""


ALL = {framework.package: "9.9" for framework in FRAMEWORKS.values()} | {"numpy": "2.3"}


def test_plan():
    """On a machine with every framework and environment."""
    assert GRIDS
    refused = []
    for path in GRIDS:
        full = load_grid(path)
        for spec in (full, smoke_grid(full)):
            environments = dict.fromkeys(spec.environments, Interpreter("python", "3.11", ALL))
            node = Node("box", (Hardware("cpu", "EPYC", 2, ids=("0", "1")),), ALL, environments=environments)
            plan = make_plan(spec, [node], datasets.data_root())
            if not plan.cells:
                refused.append(f"{spec.name}: no cells")
            refused += [f"{spec.name}: {cell.skip}" for cell in plan.cells if is_smoke(spec.name) and cell.skip]
    assert refused == []


@pytest.fixture(scope="module")
def results(tmp_path_factory, migrated_database):
    """One results folder for all."""
    folder = tmp_path_factory.mktemp("smoke")
    shutil.copy(migrated_database, folder / "mlflow.db")
    return folder


@pytest.mark.slow
@pytest.mark.mlflow
@pytest.mark.parametrize(
    "path",
    [pytest.param(path, marks=IN_EVERY_RUN.get(path.stem, pytest.mark.exhaustive), id=path.stem) for path in GRIDS],
)
def test_smoke_run(path, ray_executor, results):
    spec = smoke_grid(load_grid(path))
    name = read_workload(spec.workload, path.parent).dataset
    if name and datasets.get(name).status(datasets.data_root()).state != "ready":
        pytest.skip(f"RAYBENCH_DATA names no folder with {name}")
    plan = make_plan(spec, ray_executor.nodes(spec.environments), datasets.data_root())
    missing = {cell.skip for cell in plan.cells if cell.skip}
    if missing and not find_spec("tensorflow"):
        pytest.skip(f"{missing}")
    options = GridOptions(results=results, checks=path.stem == "quickstart")  # the checks take as long as the trials
    outcome = run_grid(spec, ray_executor, options=options)
    assert outcome.exit_status == 0
    assert set(run_counts(outcome)) == {(1, 1)}
    assert [warning for warning in outcome.warnings if "not proven" in warning or "no report" in warning] == []
    assert "Smoke run: " in (outcome.folder / REPORT).read_text()
    with sqlite3.connect(results / "mlflow.db") as store:
        query = "select r.status from runs r join experiments e using (experiment_id) where e.name = ?"
        statuses = store.execute(query, [spec.name]).fetchall()
    assert statuses == [("FINISHED",)] * (len(run_counts(outcome)) + 1), "its trials and the execution"
