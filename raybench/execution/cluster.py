"""Nodes of a cluster while a grid runs: availability, unique names, and transfer of files to the driver."""

from __future__ import annotations

import hashlib
import shutil
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import ray
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from raybench.core.events import events_file
from raybench.core.job import Job
from raybench.datasets.paths import user_cache
from raybench.devices import KINDS, Hardware, hosted
from raybench.execution.base import Tell, TemporaryMessage
from raybench.execution.runtime_env import probe_with_runtime_envs
from raybench.execution.scheduler import Dispatcher
from raybench.planning.node import Node
from raybench.planning.plan import WorkItem
from raybench.workloads.own_files import FOLDER, write

LOOK_EVERY = 1.0
"""Seconds between two checks of the available nodes; each check is a call to Ray's head."""

RETURN_TIMEOUT = 600.0
"""Seconds to wait for a node that the remaining trials need; a machine restarts within some minutes."""

LARGEST_FILE = 16 << 20
"""Largest size in bytes of a trial's file that is sent to the driver; larger files stay on the node."""

LEFT = "left-on-its-node.txt"
"""Lists, in an attempt's folder on the driver, the files that were too large to send."""


UNLIKE = """Ray's node {name} has joined, but differs in hardware, packages or data from the nodes for which this \
grid was planned. To use it, stop the grid and run the same command again."""


def probe(entry: Mapping[str, Any], environments: Sequence[str], address: str | None = None) -> ray.ObjectRef:
    """Describe a node, from a task on it: `entry` is Ray's own description."""
    affinity = NodeAffinitySchedulingStrategy(node_id=entry["NodeID"], soft=False)
    task = ray.remote(num_cpus=0)(probe_with_runtime_envs).options(scheduling_strategy=affinity)
    return task.remote(entry["NodeManagerAddress"] if address is None else address, list(environments))


def disambiguate(nodes: Sequence[Node]) -> list[Node]:
    """Make node names unique by adding the address to repeated names."""
    called = Counter(node.name for node in nodes)
    return [
        replace(node, name=f"{node.name} ({node.address})") if node.address and called[node.name] > 1 else node
        for node in nodes
    ]


def limit_to_ray(node: Node, ray_resources: Mapping[str, float]) -> Node:
    """Restrict a cluster node to the resources that Ray offers: custom resources, cores and accelerators.

    Ray may be configured to hold some back; a trial that requested them would wait forever.
    """
    basic = ("CPU", "memory", "object_store_memory")
    resources = {
        name: amount for name, amount in ray_resources.items() if name not in basic and not name.startswith("node:")
    }
    hardware = [_cut(entry, ray_resources) for entry in node.hardware]
    return replace(node, resources=resources, hardware=tuple(entry for entry in hardware if entry.count))


def _cut(entry: Hardware, ray_resources: Mapping[str, float]) -> Hardware:
    resource = "CPU" if hosted(entry.kind) else KINDS[entry.kind].ray_resource
    if not resource:
        return entry
    limit = int(ray_resources.get(resource, 0.0))
    return replace(entry, count=min(entry.count, limit), ids=entry.ids[:limit])


class NodeMonitor:
    """Reports to a dispatcher which nodes are available.

    It is only used for clusters, as this machine is always available.

    Args:
        dispatcher: places trials on the nodes that are there.
        tell: receives a message for each node that goes away, comes back or joins.
        patience: seconds to wait for a node to come back when nothing else is left to do.
        environments: the keys of the environments that trials run in.
    """

    def __init__(
        self,
        dispatcher: Dispatcher,
        tell: Tell,
        patience: float = RETURN_TIMEOUT,
        environments: Sequence[str] = (),
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._dispatcher, self._tell, self._patience, self._clock = dispatcher, tell, patience, clock
        self._addresses = {node.name: node.address for node in dispatcher.nodes}
        self._environments = list(environments)
        self._looked, self._alone_since = -LOOK_EVERY, 0.0
        self._asked: dict[str, ray.ObjectRef] = {}
        self._probes: dict[str, ray.ObjectRef] = {}
        self._unlike: set[str] = set()
        self._gone: set[str] = set()
        self.absent: set[str] = set()

    @property
    def absent_addresses(self) -> set[str]:
        """Ray's addresses of the absent nodes."""
        return {self._addresses[name] for name in self.absent}

    def suspect(self, name: str) -> None:
        """Mark a node as absent until it answers, after losing a worker.

        Ray takes some ten seconds to notice that a machine is gone; trials placed there until then are lost.
        """
        if self._addresses[name]:
            self._asked.pop(name, None)
            self.absent.add(name)
            self._dispatcher.present(self._addresses.keys() - self.absent)
            self._ask(name, {node["NodeManagerAddress"]: node["NodeID"] for node in ray.nodes() if node["Alive"]})

    def _ask(self, name: str, alive: Mapping[str, str]) -> None:
        if self._addresses[name] in alive:
            affinity = NodeAffinitySchedulingStrategy(node_id=alive[self._addresses[name]], soft=False)
            self._asked[name] = ray.remote(num_cpus=0)(_answer).options(scheduling_strategy=affinity).remote()

    def _has_answered(self, name: str) -> bool:
        ready, _ = ray.wait([self._asked[name]], timeout=0)
        if ready:
            answer = self._asked.pop(name)
            with suppress(ray.exceptions.RayError):
                ray.get(answer)
                return True
        return False

    def look(self) -> None:
        """Update the set of available nodes."""
        now = self._clock()
        if now - self._looked < LOOK_EVERY or not any(self._addresses.values()):
            return
        self._looked = now
        entries = [node for node in ray.nodes() if node["Alive"]]
        alive = {node["NodeManagerAddress"]: node["NodeID"] for node in entries}
        for name in sorted(self.absent - self._asked.keys()):
            self._ask(name, alive)
        unanswered = {name for name in list(self._asked) if not self._has_answered(name)}
        departed = {name for name, address in self._addresses.items() if address and address not in alive}
        self.absent = departed | unanswered
        for entry in entries:
            if entry["NodeManagerAddress"] not in {*self._addresses.values(), *self._unlike}:
                self._take_in(entry)
        self._dispatcher.present(self._addresses.keys() - self.absent)
        self._say(departed)
        if not self._dispatcher.stranded:
            self._alone_since = now

    def _take_in(self, entry: Mapping[str, Any]) -> None:
        """Use a node that has joined since the plan was made, if it is like one of the plan."""
        address = entry["NodeManagerAddress"]
        if address not in self._probes:
            self._probes[address] = probe(entry, self._environments)
        if not ray.wait([self._probes[address]], timeout=0)[0]:
            return
        answer = self._probes.pop(address)
        try:
            node = limit_to_ray(ray.get(answer), entry["Resources"])
        except ray.exceptions.RayError:
            return  # if it stays, it is asked again
        name = f"{node.name} ({address})" if node.name in self._addresses else node.name
        like = next((known.name for known in self._dispatcher.nodes if node.is_like(known)), None)
        if like is None:
            self._unlike.add(address)
            self._tell(UNLIKE.format(name=name))
            return
        self._addresses[name] = address
        self._dispatcher.join(replace(node, name=name), like)
        self._tell(TemporaryMessage(f"Ray's node {name} has joined and gets trials."))

    def _say(self, departed: set[str]) -> None:
        """Report the nodes that have gone or come back."""
        for name in sorted(departed - self._gone):
            remaining = sorted(self._addresses.keys() - self.absent)
            where = f"Trials continue on {', '.join(remaining)}" if remaining else "No node is left"
            grace = f"trials that need {name} wait for it, at the end for at most {self._patience / 60:g} minutes"
            self._tell(f"Ray's node {name} ({self._addresses[name]}) was lost. {where}; {grace}.")
        for name in sorted(self._gone - departed):
            self._tell(f"Ray's node {name} ({self._addresses[name]}) is back.")
        self._gone = departed

    def given_up(self) -> list[WorkItem]:
        """Work that has waited too long for absent nodes while nothing ran."""
        if self._dispatcher.stranded and self._clock() - self._alone_since > self._patience:
            return self._dispatcher.give_up()
        return []


def _answer() -> None:
    """Task that a node runs to show that it is available."""


def own_folder(job: Job) -> Job:
    """The job with a folder that is shared with the driver, or local.

    The driver has created the job's folder: if it exists here, the disk is shared. Otherwise files go to a local cache.
    """
    shared = Path(job.folder)
    if shared.is_dir():
        return job
    group = hashlib.sha256(str(shared.parent).encode()).hexdigest()[:16]
    folder = user_cache() / "trials" / group / shared.name
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    return replace(job, folder=str(folder))


def own_code(job: Job, contents: Mapping[str, bytes]) -> Path:
    """The local snapshot of a user's workload files, created if missing."""
    folder = user_cache() / FOLDER / Path(job.code).name
    if not folder.is_dir():
        write(contents, job.workload["links"], folder)
    return folder


def take_files(folder: Path) -> dict[str, bytes]:
    """The files of a finished attempt by their relative paths.

    Its folder is removed, including other files.
    """
    files, oversized = {}, []
    events_file(folder).unlink(missing_ok=True)  # the driver has received its events
    for path in sorted(path for path in folder.rglob("*") if path.is_file()):
        if path.stat().st_size > LARGEST_FILE:
            oversized.append(f"{path}\n")
        else:
            files[path.relative_to(folder).as_posix()] = path.read_bytes()
            path.unlink()
    if oversized:
        return files | {LEFT: "".join(oversized).encode()}
    shutil.rmtree(folder, ignore_errors=True)
    with suppress(OSError):
        folder.parent.rmdir()  # a checkpoint may still be in the same folder
    return files


def put_files(folder: Path, files: Mapping[str, bytes]) -> None:
    """Write an attempt's files on the driver, only inside of its folder."""
    for name, data in files.items():
        path = folder / name
        if ".." in Path(name).parts or Path(name).is_absolute():
            continue
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
