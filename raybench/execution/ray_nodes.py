"""The nodes of a Ray cluster: their names, what Ray offers there, and further nodes that the cluster can start."""

from __future__ import annotations

import re
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import ray
from ray.util.placement_group import placement_group, placement_group_table, remove_placement_group
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from raybench.planning.node import Node, probe_node

PROBE_TIMEOUT_S = 120.0

STATUS_TIMEOUT_S = 30.0  # seconds in which `ray status` has to answer
NODE_ID = "ray.io/node-id"  # the label that Ray gives each node

NOT_REQUESTED = ("memory", "object_store_memory")

_WITHOUT_AUTOSCALER = re.compile(r"\d node_[0-9a-f]{56}")
"""How `ray status` lists the nodes of a cluster that nobody scales: their types are their ids."""


class RayNodes:
    """Names Ray's nodes by their addresses.

    A node that returns has a new id and its old name. Nodes that share an address, as on one machine, have the address
    and a part of the id.

    Args:
        is_local: whether there is one node, this machine, whose name is empty.
    """

    def __init__(self, is_local: bool) -> None:
        self._is_local = is_local
        self._names: dict[str, str] = {}

    def alive(self) -> dict[str, dict[str, Any]]:
        """Ray's descriptions of the nodes that are there, by name."""
        entries = {entry["NodeID"]: entry for entry in ray.nodes() if entry["Alive"]}
        if self._is_local:
            return {"": next(iter(entries.values()))}
        self._names = {node_id: name for node_id, name in self._names.items() if node_id in entries}
        for node_id, entry in entries.items():
            if node_id not in self._names:
                address = entry["NodeManagerAddress"]
                self._names[node_id] = f"{address}/{node_id[-8:]}" if address in self._names.values() else address
        return {name: entries[node_id] for node_id, name in self._names.items()}

    def options(self, name: str) -> dict[str, Any]:
        """The options of a task or an actor on a node that takes nothing of its resources.

        Raises:
            KeyError: the node is not there.
        """
        node_id = self.alive()[name]["NodeID"]
        return {"num_cpus": 0, "scheduling_strategy": NodeAffinitySchedulingStrategy(node_id=node_id, soft=False)}

    def probe(self, names: Sequence[str], environments: Sequence[str]) -> list[tuple[Node, Mapping[str, float]]]:
        """Some nodes, each described by a task on it, with the resources that Ray offers there; not one just lost."""
        entries = self.alive()
        tasks = {
            name: ray.remote(probe_node).options(**self.options(name)).remote(name, list(environments))
            for name in names
            if name in entries
        }
        deadline = time.monotonic() + PROBE_TIMEOUT_S
        nodes = []
        for name, task in tasks.items():
            with suppress(ray.exceptions.TaskUnschedulableError, ray.exceptions.NodeDiedError):
                node = ray.get(task, timeout=max(0.0, deadline - time.monotonic()))
                nodes.append((node, entries[name]["Resources"]))
        return nodes

    def bundle(self, name: str, requested: Mapping[str, float] | None) -> tuple[str, dict[str, float]]:
        """The id of a node and the resources of a trial there, as far as Ray counts them; all if none are requested.

        Raises:
            KeyError: the node is not there.
        """
        entry = self.alive()[name]
        offer = {
            resource: amount
            for resource, amount in entry["Resources"].items()
            if resource not in NOT_REQUESTED and not resource.startswith("node:")
        }
        amounts = offer if requested is None else {key: min(requested[key], offer.get(key, 0.0)) for key in requested}
        return entry["NodeID"], {resource: amount for resource, amount in amounts.items() if amount}

    def wait_for(self, bundles: Sequence[Mapping[str, float]], timeout_s: float) -> list[str]:
        """Ask the cluster for nodes; return their names when they are there, none if they have not come in time."""
        group = placement_group([dict(bundle) for bundle in bundles], strategy="STRICT_SPREAD")
        try:
            if not group.wait(timeout_s):
                return []
            ids = placement_group_table(group)["bundles_to_node_id"].values()
            return [name for name, entry in self.alive().items() if entry["NodeID"] in ids]
        finally:
            remove_placement_group(group)


def has_autoscaler() -> bool:
    """Return whether something starts nodes for what waits, according to `ray status`."""
    command = [str(Path(sys.executable).with_name("ray")), "status"]
    try:
        status = subprocess.run(
            [*command, "--address", ray.get_runtime_context().gcs_address],
            capture_output=True,
            text=True,
            timeout=STATUS_TIMEOUT_S,
        )
    except (OSError, subprocess.TimeoutExpired):
        return False
    return status.returncode == 0 and "Node status" in status.stdout and not _WITHOUT_AUTOSCALER.search(status.stdout)
