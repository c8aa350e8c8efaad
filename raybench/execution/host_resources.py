"""The cores and accelerators of a host, each of which at most one running trial has."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from raybench.core.job import Job
from raybench.devices import KINDS, neighbors
from raybench.planning.node import Node


class HostResources:
    """The unused cores and accelerators of a host."""

    def __init__(self, node: Node) -> None:
        self._cores = [int(core) for entry in node.find("cpu") for core in entry.ids]
        self._accelerators = {(entry.kind, entry.model): list(entry.ids) for entry in node.hardware}

    def take(self, job: Job, by_ray: Mapping[str, Sequence[str]] | None = None) -> Job:
        """Return a job with its cores and accelerators.

        Args:
            by_ray: the ids of the accelerators that Ray gave the trial, by the name of Ray's resource.
        """
        device = job.cell.device
        kind = KINDS[device.kind]
        unused = self._accelerators.get((kind.hardware or device.kind, str(device.model)), [])
        offered = (by_ray or {}).get(kind.ray_resource) or unused
        visible = list(neighbors(device.kind, offered, job.accelerators) or ())
        unused[:] = [name for name in unused if name not in visible]
        cores, self._cores = self._cores[: job.cpus], self._cores[job.cpus :]
        return replace(job, cores=cores, visible=visible)

    def give_back(self, job: Job) -> None:
        """Take back the cores and accelerators of an ended job."""
        self._cores = sorted([*self._cores, *job.cores])
        kind = KINDS[job.cell.device.kind]
        unused = self._accelerators.setdefault((kind.hardware or job.cell.device.kind, str(job.cell.device.model)), [])
        unused[:] = sorted({*unused, *job.visible}, key=lambda name: (len(name), name))
