"""Interface of executors, which run the trials of a plan."""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any

from raybench.core.events import Event
from raybench.core.job import Job
from raybench.errors import UsageError
from raybench.execution.schedule import Schedule, ScheduledTrial
from raybench.monitoring.host import HostLoad
from raybench.planning.node import Node
from raybench.planning.plan import Check

MakeJob = Callable[[ScheduledTrial, Check | None], Job]
"""Makes the job of an assignment: that of a check before its trial, or of the trial itself."""

Sink = Callable[[Event], None]  # records an event

Tell = Callable[[str], None]


class Executor(ABC):
    """Runs trials and passes their events to a sink, in order per trial.

    A KeyboardInterrupt raised while it runs terminates the running trials and is re-raised.
    """

    def prepare(self) -> None:  # noqa: B027 — there may be nothing to start
        """Start what takes time, because trials will probably run."""

    @abstractmethod
    def nodes(self, environments: Sequence[str] = ()) -> list[Node]:
        """The available machines, each with the interpreters of these environments."""

    def host_load(self) -> HostLoad | None:
        """Other programs' use of this machine, measured for a second; None if no trial runs here or it is unknown."""
        return None

    def starts_nodes(self) -> bool:
        """Return whether nodes are started for trials that no node can run."""
        return False

    @abstractmethod
    def run(self, schedule: Schedule, make_job: MakeJob, sink: Sink, tell: Tell) -> None:
        """Run until the schedule has nothing left; `tell` gets messages about the machines, from any thread.

        Raises:
            ExecutionError: Ray or a machine cannot run the trials.
        """

    def close(self) -> None:  # noqa: B027 — as `prepare`
        """Terminate everything that was started."""


def make_executor(address: str | None = None, inline: bool = False, callbacks: Sequence[Any] = ()) -> Executor:
    """Return the executor: Ray on this machine or on a cluster, or this process.

    Args:
        address: of the cluster, as in RAY_ADDRESS, which is used without one; `local` for this machine.
        callbacks: of Ray Tune (`ray.tune.Callback`).
    """
    if inline and (address or callbacks):
        excluded = "address" if address else "callbacks"
        raise UsageError(f"inline runs trials in this process, without Ray; leave out one of inline and {excluded}")
    if inline:
        from raybench.execution.inline import InlineExecutor

        return InlineExecutor()
    from raybench.execution.ray_executor import RayExecutor

    address = address or os.environ.get("RAY_ADDRESS") or "local"
    if "://" in address:
        raise UsageError(
            f"{address}: run the command on a node of the cluster, with the address auto or HOST:6379; from elsewhere "
            "submit it: ray job submit --address http://HOST:8265 -- raybench grid FILE"
        )
    return RayExecutor(None if address == "local" else address, callbacks)
