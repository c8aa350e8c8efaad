"""Events of a small trial, and what a store has of them."""

import platform
import time

from raybench.tracking.mlflow import MlflowClient
from raybench.trial import events

HERE = platform.node()


def started(trial, attempt=1, host=HERE):
    return events.trial_started(trial, attempt, host={"name": host}, cell={"device": {"kind": "cpu"}}, label=trial)


def epoch(trial, number, attempt=1):
    metrics = {"val/accuracy": number / 10}
    return events.epoch_ended(trial, attempt, epoch=number, steps=1, examples=8, ledger={"train": 1.0}, metrics=metrics)


def ended(trial, attempt=1, status="completed"):
    return events.trial_ended(trial, attempt, status, wall=2.0, template_import=0.5)


def runs(store, grid, by="mlflow.runName", all_of_them=False):
    """The runs by their names, or by another tag, executions' by theirs; or all of them."""
    client = MlflowClient(store.uri)
    experiment = client.get_experiment_by_name(grid)
    found = client.search_runs([experiment.experiment_id]) if experiment else []
    if all_of_them:
        return list(found)
    return {run.data.tags.get(by) or run.data.tags.get("raybench.summary"): run for run in found}


def eventually(condition, seconds=30.0):
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it never came"
        time.sleep(0.05)
