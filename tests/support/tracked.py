"""A writer of MLflow with results of its own, and what a store has of them."""

import platform

from raybench.core import events
from raybench.core.events import events_file
from raybench.results.executions import Execution
from raybench.results.folder import add_event, attempt_folder
from raybench.results.grid_request import GridRequest
from raybench.results.history import GridHistory
from raybench.tracking.mlflow import MlflowClient
from raybench.tracking.writer import MlflowWriter

HERE = platform.node()


class FileWriter(MlflowWriter):
    """A writer that writes each event to its file and the history first, as a grid does."""

    def __init__(self, store, folder, request=GridRequest("it"), **options):  # noqa: B008 — it is immutable
        self.history = GridHistory.read(folder)
        execution = Execution.begin("here", "name: it\n", request.to_json())
        execution.write(folder)
        self.history.executions.append(execution)
        super().__init__(store, self.history, **options)

    def put(self, event):
        run = f"{event['trial']}-{event['attempt']}"
        folder = attempt_folder(self.history.folder, event["trial"], run)
        add_event(folder, event)
        assert events_file(folder).is_file()
        self.history.take(event, run)
        super().put(event)


def started(trial, attempt=1, host=HERE):
    cell = {"device": {"kind": "cpu"}, "settings": {"batch_size": 8, "compile": False}}
    return events.trial_started(trial, attempt, host={"name": host}, cell=cell, label=trial, seed=3)


def epoch(trial, number, attempt=1, **fields):
    metrics = {"val/accuracy": number / 10}
    fields = {"epoch": number, "examples": 8, "ledger": {"train": 1.0}, "metrics": metrics} | fields
    return events.epoch_ended(trial, attempt, **fields)


def ended(trial, attempt=1, status="completed", **fields):
    return events.trial_ended(trial, attempt, status, wall=2.0, template_import=0.5, **fields)


def runs(store, grid):
    """The runs by their names."""
    client = MlflowClient(store.uri)
    experiment = client.get_experiment_by_name(grid)
    found = client.search_runs([experiment.experiment_id]) if experiment else []
    assert len({run.info.run_name for run in found}) == len(found), "no run is doubled"
    return {run.info.run_name: run for run in found}
