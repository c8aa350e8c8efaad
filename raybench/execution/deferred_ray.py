"""Deferred start of Ray, which takes seconds and is not always needed."""

from __future__ import annotations

import logging
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

from raybench.environments import runtime_env_of
from raybench.execution.base import MakeJob, Sink, Tell
from raybench.execution.ray_requirements import check_settings
from raybench.execution.scheduler import Dispatcher
from raybench.monitoring.host_load import HostLoad, LoadMeter, measure_load
from raybench.planning.node import Node, probe_node

if TYPE_CHECKING:
    from raybench.execution.ray_tune import RayTuneExecutor


class DeferredRayExecutor:
    """`RayTuneExecutor` that is created at the first call that needs it."""

    uses_ray = True

    def __init__(self, address: str | None = None) -> None:
        self._address = address
        self._made: RayTuneExecutor | None = None
        self._meter = LoadMeter() if address is None else None  # measures while the grid is planned

    def _ray(self) -> RayTuneExecutor:
        if self._made is None:
            if "ray" not in sys.modules:
                check_settings()
            # In a notebook Ray advises to install packages, on import.
            logging.getLogger("ray.widgets").setLevel(logging.WARNING)
            from raybench.execution.ray_tune import RayTuneExecutor

            self._made = RayTuneExecutor(self._address)
        return self._made

    def nodes(self, environments: Sequence[str] = ()) -> list[Node]:
        """This machine, without Ray unless an environment is a Ray `runtime_env`; or the cluster's nodes.

        A Ray that the caller has started counts as a cluster.
        """
        if self._address is None and not any(map(runtime_env_of, environments)) and not _callers_is_up():
            return [probe_node(environments=environments)]
        return self._ray().nodes(environments)

    def host_load(self) -> HostLoad | None:
        """Other programs' use of this machine; not measured for a cluster, whose trials may run elsewhere."""
        return measure_load(meter=self._meter) if self._meter else None

    def run(self, dispatcher: Dispatcher, make_job: MakeJob, sink: Sink, tell: Tell) -> None:
        """Run through Tune."""
        self._ray().run(dispatcher, make_job, sink, tell)

    def close(self) -> None:
        """Shut Ray down if it was started here."""
        if self._made is not None:
            self._made.close()


def _callers_is_up() -> bool:
    """Return whether the caller has connected this process to Ray; imports nothing."""
    ray, own_module = sys.modules.get("ray"), sys.modules.get("raybench.execution.ray_tune")
    return ray is not None and bool(ray.is_initialized()) and not (own_module and own_module.RayTuneExecutor.own_is_up)
