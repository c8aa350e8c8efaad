"""Trials in this very process, one after another, without Ray: for tests and for a debugger.

Nothing isolates one trial from the next here, and a timeout cannot be enforced: numbers from it are no benchmark.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from raybench.devices.node import Node, probe_node
from raybench.environments import Interpreter, called
from raybench.execution.base import MakeJob, Sink
from raybench.execution.dispatch import Dispatcher
from raybench.trial.events import FAILED, Event
from raybench.trial.job import Job
from raybench.trial.ranks import ranks_of
from raybench.trial.record import end_for, record


def _events(job: Job) -> Iterator[Event]:
    count = ranks_of(job.cell)
    if count > 1:
        words = f"{count} replicas that are processes need a process of the trial's own; say replication: grouped"
        return iter([end_for(job, FAILED, {"type": "Inline", "message": words, "phase": "setup"})])
    return record(job)


class InlineExecutor:
    """The executor that needs nothing."""

    isolation = "inline"

    def nodes(self, environments: Sequence[str] = ()) -> list[Node]:
        """This machine, where no environment but raybench's own can be had."""
        refused = {
            key: Interpreter(problem=f"trials in this process cannot run in {called(key)}") for key in environments
        }
        return [replace(probe_node(), environments=refused)]

    def run(self, dispatcher: Dispatcher, make_job: MakeJob, sink: Sink) -> None:
        """Run each trial to its end."""
        while placement := dispatcher.next():
            for event in _events(make_job(placement)):
                sink(event)
            dispatcher.release(placement.work.name, placement.work.attempt)

    def close(self) -> None:
        """Nothing was started."""
