"""Ray, when it is needed: importing and starting it takes seconds that a grid with nothing left to run does not owe."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from raybench.cell import PROCESS
from raybench.devices.node import Node, probe_node
from raybench.environments import runtime_env_of
from raybench.execution.base import MakeJob, Sink
from raybench.execution.dispatch import Dispatcher

if TYPE_CHECKING:
    from raybench.execution.ray_tune import RayTuneExecutor


class LazyRay:
    """`RayTuneExecutor`, made at the first call that cannot do without it."""

    isolation = PROCESS

    def __init__(self, address: str | None = None) -> None:
        self._address = address
        self._made: RayTuneExecutor | None = None

    def _ray(self) -> RayTuneExecutor:
        if self._made is None:
            from raybench.execution.ray_tune import RayTuneExecutor

            self._made = RayTuneExecutor(self._address)
        return self._made

    def nodes(self, environments: Sequence[str] = ()) -> list[Node]:
        """This machine, without Ray unless an environment is a `runtime_env` of Ray's; or the cluster's nodes."""
        if self._address is None and not any(map(runtime_env_of, environments)):
            return [probe_node(environments=environments)]
        return self._ray().nodes(environments)

    def run(self, dispatcher: Dispatcher, make_job: MakeJob, sink: Sink) -> None:
        """Run through Tune."""
        self._ray().run(dispatcher, make_job, sink)

    def close(self) -> None:
        """End Ray, where it was started."""
        if self._made is not None:
            self._made.close()
