"""Interface of executors, which run the trials of a plan."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from raybench.core.events import Event
from raybench.core.job import Job
from raybench.errors import UsageError
from raybench.execution.scheduler import AssignedWork, Dispatcher
from raybench.monitoring.host import HostLoad
from raybench.planning.node import Node

MakeJob = Callable[[AssignedWork], Job]
Sink = Callable[[Event], Event | None]
"""Records an event. For an attempt that is given up as lost it returns the end that the attempt's own record has."""
Tell = Callable[[str], None]


class Executor(Protocol):
    """Runs trials and passes their events to a sink, in order per trial.

    A KeyboardInterrupt raised while it runs terminates the running trials and is re-raised.
    """

    def nodes(self, environments: Sequence[str] = ()) -> list[Node]:
        """The available machines, each with the interpreters of these environments."""

    def host_load(self) -> HostLoad | None:
        """Other programs' use of this machine, measured for a second; None if no trial runs here or it is unknown."""

    def run(self, dispatcher: Dispatcher, make_job: MakeJob, sink: Sink, tell: Tell) -> None:
        """Run until the dispatcher has nothing left; `tell` gets messages about the machines, from any thread.

        Raises:
            ExecutionError: Ray or a machine cannot run the trials.
        """

    def close(self) -> None:
        """Terminate everything that was started."""


def make_executor(address: str | None = None, inline: bool = False) -> Executor:
    """Return the executor: Ray on this machine or on the cluster at an address, or this process."""
    if inline and address:
        raise UsageError("inline runs trials in this process, not on a cluster; leave out one of inline and address")
    if inline:
        from raybench.execution.inline import InlineExecutor

        return InlineExecutor()
    from raybench.execution.ray_executor import RayExecutor

    return RayExecutor(address)
