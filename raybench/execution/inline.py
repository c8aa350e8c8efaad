"""Trials in this very process, one after another, without Ray: for tests and for a debugger.

Nothing isolates one trial from the next here, and a timeout cannot be enforced: numbers from it are no benchmark.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from raybench.devices.node import Node, probe_node
from raybench.environments import Interpreter, called
from raybench.execution.base import MakeJob, Sink
from raybench.execution.dispatch import Dispatcher
from raybench.trial.record import record


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
            for event in record(make_job(placement)):
                sink(event)
            dispatcher.release(placement.work.name)

    def close(self) -> None:
        """Nothing was started."""
