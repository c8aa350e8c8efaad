"""An executor without Ray whose trials are real processes."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from raybench.core.job import Job
from raybench.core.status import TrialStatus
from raybench.execution.base import MakeJob, Sink, Tell
from raybench.execution.process import ForkServer
from raybench.execution.scheduler import Dispatcher
from raybench.monitoring.host_load import HostLoad
from raybench.planning.node import Node, probe_node


class ForkingExecutor:
    """Runs one trial after another, each in a process forked from the fork server of its framework and environment.

    Args:
        server: returns the fork server of a framework (the fixture `fork_server`).
        load: a made-up use of this machine by other programs.
    """

    uses_ray = False

    def __init__(self, server: Callable[[str], ForkServer], load: HostLoad | None = None) -> None:
        self._server, self._load = server, load
        self._environments: dict[tuple[str, str], ForkServer] = {}

    def nodes(self, environments: Sequence[str] = ()) -> list[Node]:
        """This machine."""
        return [probe_node(environments=environments)]

    def host_load(self) -> HostLoad | None:
        """The made-up one."""
        return self._load

    def run(self, dispatcher: Dispatcher, make_job: MakeJob, sink: Sink, tell: Tell) -> None:
        """Run each trial to its end, a lost one again."""
        while placement := dispatcher.next():
            job = make_job(placement)
            status = None
            for event in self._server_of(job).run(job):
                status = event.get("status", status)
                sink(event)
            dispatcher.release(placement.work.name, placement.work.attempt, lost=status == TrialStatus.LOST)

    def _server_of(self, job: Job) -> ForkServer:
        if not job.python:
            return self._server(job.preloaded)
        key = job.preloaded, job.python
        if key not in self._environments:
            self._environments[key] = ForkServer(*key)
        return self._environments[key]

    def close(self) -> None:
        """Keep the fork servers of raybench's own Python."""
        for server in self._environments.values():
            server.close()
