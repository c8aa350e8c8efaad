"""Every shipped grid, cut to see that it runs: from its file to its report, through one Ray and into one MLflow."""

import sqlite3
from pathlib import Path

import pytest

from raybench import datasets, reports
from raybench.execution.lazy import LazyRay
from raybench.run import Options, run_grid
from raybench.spec import load_grid
from raybench.workloads import read_reference

GRIDS = sorted((Path(__file__).parent.parent / "grids").glob("*.yaml"))


class OneRay(LazyRay):
    """Ray for several grids: to start it takes longer than most of them do."""

    def close(self):
        """It goes on."""

    def end(self):
        super().close()


@pytest.fixture(scope="module")
def one(tmp_path_factory):
    """One Ray and one results folder."""
    executor = OneRay()
    yield executor, tmp_path_factory.mktemp("smoke")
    executor.end()


@pytest.mark.parametrize("path", GRIDS, ids=lambda path: path.stem)
def test_it_runs_from_its_file_to_its_report(path, one, monkeypatch):
    executor, results = one
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    spec = load_grid(path).as_smoke()
    name = read_reference(spec.workload, path.parent).dataset
    if name and datasets.get(name).status(datasets.data_root()).state != "ready":
        pytest.skip(f"RAYBENCH_DATA names no folder with {name}")
    outcome = run_grid(spec, executor, options=Options(results))
    assert outcome.exit_status == 0
    assert {row.status for row in outcome.rows} == {"1/1 completed"}
    assert [warning for warning in outcome.warnings if "not proven" in warning or "no report" in warning] == []
    assert "Smoke run: " in (outcome.folder / reports.HTML).read_text()
    with sqlite3.connect(results / "mlflow.db") as store:
        told = store.execute(
            "select r.status, t.value from runs r join experiments e using (experiment_id)"
            " left join tags t on t.run_uuid = r.run_uuid and t.key = 'raybench.smoke' where e.name = ?",
            [spec.name],
        ).fetchall()
    assert told == [("FINISHED", "true")] * (len(outcome.rows) + 1), "its trials and the execution, all marked"
