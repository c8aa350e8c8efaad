"""The seam between what is to be run and what runs it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from raybench.core.events import Event
from raybench.core.job import Job
from raybench.execution.scheduler import AssignedWork, Dispatcher
from raybench.monitoring.host_load import HostLoad
from raybench.planning.node import Node

MakeJob = Callable[[AssignedWork], Job]
Sink = Callable[[Event], None]
Tell = Callable[[str], None]


class Executor(Protocol):
    """Runs trials and hands every event to a sink, in the order in which they arrive from each trial.

    Whoever calls it may raise KeyboardInterrupt through it; it then ends what runs and passes the interrupt on.
    """

    isolation: str
    """How it keeps trials apart; part of every cell, for it can change a time."""

    def nodes(self, environments: Sequence[str] = ()) -> list[Node]:
        """The machines there are, each with what these environments (by their keys) come to on it."""

    def host_load(self) -> HostLoad | None:
        """Other programs' use of this machine, measured for a second; None if no trial runs here or it is unknown."""

    def run(self, dispatcher: Dispatcher, make_job: MakeJob, sink: Sink, tell: Tell) -> None:
        """Run until the dispatcher has nothing left.

        Args:
            dispatcher: what to run.
            make_job: makes the job of a placement.
            sink: receives every event.
            tell: receives, from any thread, what happens to the machines meanwhile, as a sentence for the user.

        Raises:
            ExecutionError: the machines, or Ray, would not do what was asked.
        """

    def close(self) -> None:
        """End what was started."""
