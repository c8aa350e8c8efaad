"""Trackers: MLflow, none."""

import shutil

import pytest
from mlflow.tracking import MlflowClient
from support.grid_files import events_of

from raybench.config import load_grid
from raybench.core.options import GridOptions
from raybench.execution.inline import InlineExecutor
from raybench.run import run_grid
from raybench.tracking.store import resolve

GRID = """
name: digits
workload: digits_cnn
epochs: 2
steps_per_epoch: 3
examples: {train: 256, val: 64}
threads: 1
axes: {batch_size: [32, 64]}
"""


@pytest.fixture
def store(tmp_path, migrated_database):
    return resolve(tmp_path, f"sqlite:///{shutil.copy(migrated_database, tmp_path / 'runs.db')}")


@pytest.fixture
def run(tmp_path):
    """Run the grid without checks and report."""
    (tmp_path / "grid.yaml").write_text(GRID)

    def run(tracking, **options):
        own = GridOptions(
            results=tmp_path / "results", tracking=tracking, **{"checks": False, "report": False, **options}
        )
        return run_grid(load_grid(tmp_path / "grid.yaml"), InlineExecutor(), options=own)

    return run


def test_trials_alone_without_tracking_and_checks(run):
    outcome = run(None)
    told = {event["event"] for event in events_of(outcome.folder)}
    assert told == {"epoch_ended", "trial_ended", "trial_started"}
    assert not (outcome.folder / "report.html").exists()
    assert not (outcome.folder.parent / "mlflow.db").exists()
    assert outcome.store is None
    assert outcome.warnings == ()
    assert [attempt.status for attempt in outcome.latest.values()] == ["completed"] * 2


def test_what_was_not_tracked_can_be_tracked_later(run, store):
    run(None)
    run(store.uri, rerun=True)
    client = MlflowClient(store.uri)
    experiment = client.get_experiment_by_name("digits").experiment_id
    assert len(client.search_runs([experiment])) == 2 * 2 + 2, "both executions, each with its own run"
