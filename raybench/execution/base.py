"""The seam between what is to be run and what runs it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from raybench.devices.node import Node
from raybench.execution.dispatch import Dispatcher, Placement
from raybench.trial.events import Event
from raybench.trial.job import Job

MakeJob = Callable[[Placement], Job]
Sink = Callable[[Event], None]


class Executor(Protocol):
    """Runs trials and hands every event to a sink, in the order in which they arrive from each trial.

    Whoever calls it may raise KeyboardInterrupt through it; it then ends what runs and passes the interrupt on.
    """

    isolation: str
    """How it keeps trials apart; part of every cell, for it can change a time."""

    def nodes(self, environments: Sequence[str] = ()) -> list[Node]:
        """The machines there are, each with what these environments (by their keys) come to on it."""

    def run(self, dispatcher: Dispatcher, make_job: MakeJob, sink: Sink) -> None:
        """Run until the dispatcher has nothing left.

        Raises:
            ExecutionError: the machines, or Ray, would not do what was asked.
        """

    def close(self) -> None:
        """End what was started."""
