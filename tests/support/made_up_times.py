"""Trials whose epochs take as long as they say: comparisons of times that no busy machine changes."""

from __future__ import annotations

from typing import Any

from raybench.core.events import Event
from raybench.execution.base import Executor, MakeJob, Sink, Tell
from raybench.execution.schedule import Schedule

SECONDS = "train/seconds"
"""The metric that a training function logs: the made-up time of its epoch."""


class MadeUpTimes:
    """An executor that runs the trials of another one and replaces the times of epochs and whole runs.

    Args:
        executor: runs the trials, which log the metric `train/seconds` in each epoch.
    """

    def __init__(self, executor: Executor) -> None:
        self._executor = executor

    def __getattr__(self, name: str) -> Any:
        return getattr(self._executor, name)

    def run(self, schedule: Schedule, make_job: MakeJob, sink: Sink, tell: Tell) -> None:
        """Run all trials."""

        walls: dict[str, float] = {}

        def replace_time(event: Event) -> None:
            if event["event"] == "trial_ended":
                event = event | {"wall": walls.pop(event["trial"], None)}
            if event["event"] == "epoch_ended":
                walls[event["trial"]] = walls.get(event["trial"], 0.0) + event["metrics"][SECONDS]
                event = event | {"ledger": event["ledger"] | {"train": event["metrics"][SECONDS]}}
            sink(event | {"host": {}} if event["event"] == "trial_audited" else event)

        self._executor.run(schedule, make_job, replace_time, tell)
