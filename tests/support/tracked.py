"""Events of a small trial, and what a store has of them."""

import platform
import time

from raybench.core import events
from raybench.results.history import GridHistory
from raybench.results.journal import JOURNAL
from raybench.tracking.mlflow import MlflowClient
from raybench.tracking.writer import MlflowWriter

HERE = platform.node()


class OwnHistoryWriter(MlflowWriter):
    """A writer with a history of its own, which gets each event first, as a grid's does.

    Args:
        folder: the grid's.
        told: events of earlier executions.
    """

    def __init__(self, store, grid, folder, execution, told=(), **options):
        self.history = GridHistory(folder / JOURNAL, told)
        super().__init__(store, grid, self.history, execution, **options)

    def put(self, event):
        self.history.take(event)
        super().put(event)


def started(trial, attempt=1, host=HERE):
    return events.trial_started(trial, attempt, host={"name": host}, cell={"device": {"kind": "cpu"}}, label=trial)


def epoch(trial, number, attempt=1):
    metrics = {"val/accuracy": number / 10}
    return events.epoch_ended(trial, attempt, epoch=number, steps=1, examples=8, ledger={"train": 1.0}, metrics=metrics)


def ended(trial, attempt=1, status="completed"):
    return events.trial_ended(trial, attempt, status, wall=2.0, template_import=0.5)


def runs(store, grid, all_of_them=False):
    """The runs by their names, or all of them in a list."""
    client = MlflowClient(store.uri)
    experiment = client.get_experiment_by_name(grid)
    found = client.search_runs([experiment.experiment_id]) if experiment else []
    if all_of_them:
        return list(found)
    return {run.info.run_name: run for run in found}


def eventually(condition, seconds=30.0):
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it never came"
        time.sleep(0.05)


def exactly_once(store, grid, names, epochs, executions=1):
    """Fails unless each trial has one finished run with each epoch's points once, and each execution one run."""
    client = MlflowClient(store.uri)
    found = runs(store, grid, all_of_them=True)
    assert sorted(run.info.run_name for run in found) == sorted([*names, *[f"grid {grid}"] * executions])
    assert {run.info.status for run in found} == {"FINISHED"}
    for run in found:
        if run.info.run_name in names:
            assert run.data.metrics
            for metric in run.data.metrics:
                steps = sorted(point.step for point in client.get_metric_history(run.info.run_id, metric))
                assert steps in ([0], list(range(1, epochs + 1))), (run.info.run_name, metric)
            assert len(client.get_metric_history(run.info.run_id, "time/epoch_s")) == epochs
