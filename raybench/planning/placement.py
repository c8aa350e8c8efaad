"""Match trials to nodes, with a reason if none fits; Ray would wait forever for missing resources."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from raybench.core.text import join_words, plural
from raybench.devices import KINDS, Hardware, frameworks, hosted, loop_frameworks, missing_precision
from raybench.engines import FRAMEWORKS
from raybench.environments import NEEDED, environment_label, recipe_for
from raybench.planning.node import Node
from raybench.workloads import WorkloadInfo
from raybench.workloads.info import DeclaredInfo


@dataclass(frozen=True)
class ResourceRequest:
    """The resources that a trial needs on a node.

    Attributes:
        count: number of accelerators on each node.
        cpus: 0 means all cores for a CPU trial, else the share of the node's cores of as many accelerators.
        environment: its key (`environments.interpreter`).
        resources: Ray's custom resources.
        data: the data set that a node of a cluster must have, by name and digest.
        form: the class of its workload.
    """

    kind: str
    framework: str
    precision: str
    replicas: int | None = None
    count: int = 1
    nodes: int = 1
    cpus: int = 0
    accelerator_type: str | None = None
    environment: str = ""
    resources: tuple[tuple[str, float], ...] = ()
    data: tuple[str, str | None] | None = None
    form: type[WorkloadInfo] = DeclaredInfo


class NeedsNode(str):
    """A reason that a further node could remove, with other hardware or resources."""


@dataclass(frozen=True)
class Placement:
    """Where a trial can run: nodes of one hardware model, and the resources it takes on each of `node_count` of them.

    `devices` share each batch, which has `replicas` parts with batch statistics of their own.
    """

    hardware: Hardware
    nodes: tuple[str, ...]
    cpus: int
    accelerators: int
    framework_version: str
    devices: int = 1
    replicas: int = 1
    environment: str = ""
    lock: str = ""
    resources: tuple[tuple[str, float], ...] = ()
    node_count: int = 1


def find_placements(need: ResourceRequest, nodes: Sequence[Node]) -> list[Placement] | str:
    """Find the nodes that fit a trial, or the reason against it.

    A configuration has one hardware model, number of cores, framework version and environment: nodes that differ in
    these are placements of different configurations, the most common first. Ray lists nodes in no fixed order.
    """
    reason = unsupported_reason(need)
    if reason:
        return reason
    groups: dict[tuple[str, int, str, str], list[tuple[Node, Hardware]]] = {}
    reasons: list[str] = []
    for node in nodes:
        hardware = _place(need, node)
        if isinstance(hardware, str):
            reasons.append(hardware)
            continue
        interpreter = node.interpreter(need.environment)
        version = interpreter.packages[FRAMEWORKS[need.framework].package]
        kind = hardware.model, _cpus(need, node, hardware), version, interpreter.lock
        groups.setdefault(kind, []).append((node, hardware))
    enough = {kind: places for kind, places in groups.items() if len(places) >= need.nodes}
    if groups and not enough:
        kind, places = max(groups.items(), key=lambda group: (len(group[1]), group[0]))
        return NeedsNode(f"needs {need.nodes} nodes of one model; the cluster has {len(places)} with {kind[0]}")
    if not enough:
        text = "; ".join(dict.fromkeys(reasons)) or "there is no machine to run it on"
        return NeedsNode(text) if all(isinstance(reason, NeedsNode) for reason in reasons) else text
    placements = []
    for kind in sorted(enough, key=lambda kind: (len(enough[kind]), kind), reverse=True):
        model, cpus, version, lock = kind
        accelerators = 0 if hosted(need.kind) else need.count
        devices, replicas = devices_and_replicas(need, model)
        if need.form.divides_batch and replicas % devices:
            return f"replicas: {replicas} is not a multiple of the {devices} devices; use one, or remove replicas"
        placements.append(
            Placement(
                hardware=enough[kind][0][1],
                nodes=tuple(node.name for node, _ in enough[kind]),
                cpus=cpus,
                accelerators=accelerators,
                framework_version=version,
                devices=devices,
                replicas=replicas,
                environment=need.environment,
                lock=lock,
                resources=need.resources,
                node_count=need.nodes,
            )
        )
    return placements


def devices_and_replicas(need: ResourceRequest, model: str) -> tuple[int, int]:
    """The number of devices on which a trial computes, and of parts of its batches with their own batch statistics."""
    if not need.form.divides_batch:
        return need.count * need.nodes, 1
    is_spread = FRAMEWORKS[need.framework].spreads
    devices = need.count * need.nodes * (KINDS[need.kind].devices_per_accelerator(model) if is_spread else 1)
    return devices, need.replicas or devices


def _cpus(need: ResourceRequest, node: Node, hardware: Hardware) -> int:
    share = node.cores if hosted(need.kind) else max(1, node.cores * need.count // max(1, hardware.count))
    return need.cpus or share


def unsupported_reason(need: ResourceRequest) -> str | None:
    """The reason why no machine can run it in this release, or None."""
    kind, framework = KINDS[need.kind], FRAMEWORKS[need.framework]
    available = need.form.runs_in(frameworks(need.kind), loop_frameworks(need.kind))
    if need.framework not in available:
        if need.framework in loop_frameworks(need.kind):
            return f"raybench has no engine for {need.framework}"
        return f"framework {need.framework} does not run on {need.kind}; use {join_words(available, 'or')}"
    if need.count > 1 and not need.form.shares_batch(framework.spreads, hosted(need.kind)):
        return f"count {need.count} is not possible with framework {need.framework} on {need.kind}; use 1"
    if need.nodes > 1 and not need.form.spans_nodes(framework.has_ranks):
        return f"nodes {need.nodes} is not possible with framework {need.framework}; use 1"
    if kind.counts and need.count not in kind.counts:
        return f"count {need.count} is not possible on {kind.label}; use {join_words([*map(str, kind.counts)], 'or')}"
    return missing_precision(need.kind, need.precision)


def _place(need: ResourceRequest, node: Node) -> Hardware | str:
    """The matching hardware of a node, or the reason why there is none."""
    entries = node.find(need.kind)
    name = KINDS[need.kind].label
    if not entries:
        return NeedsNode(f"no {name}")
    if need.accelerator_type:
        entries = [entry for entry in entries if need.accelerator_type.lower() in entry.model.lower()]
    if not entries:
        models = ", ".join(entry.model for entry in node.find(need.kind))
        return NeedsNode(f"needs {need.accelerator_type}; {node.name} has {models}")
    if need.count > 1:
        models = join_words([entry.model for entry in entries])
        entries = [entry for entry in entries if not KINDS[need.kind].one_per_trial(entry.model)]
        if not entries:
            return f"count {need.count} is not possible on {models}; use 1"
    largest = max(entries, key=lambda entry: entry.count)
    if not hosted(need.kind) and largest.count < need.count:
        return NeedsNode(f"needs {need.count} x {name}; {node.name} has {largest.count}")
    if max(1, need.cpus) > node.cores:
        return NeedsNode(f"needs {plural(max(1, need.cpus), 'core')}; {node.name} has {node.cores}")
    for resource, amount in need.resources:
        if node.resources.get(resource, 0.0) < amount:
            has = f"{node.resources.get(resource, 0.0):g}"
            return NeedsNode(f"needs {amount:g} x {resource}; {node.name} has {has}")
    return _lacking(need, node) or _without_data(need, node) or largest


def _without_data(need: ResourceRequest, node: Node) -> str | None:
    """The reason why a cluster node lacks the data, or None; this machine fetches missing data before it starts."""
    if need.data is None or not node.address:
        return None
    name, digest = need.data
    node_digest = node.data.get(name)
    if node_digest is None:
        return f"{node.name} has no {name} in {node.data_root}; run `raybench data fetch {name}` there"
    if digest and node_digest != digest:
        return (
            f"{name} in {node.data_root} on {node.name} has digest {node_digest}, and here {digest}; "
            "use the same data on all machines"
        )
    return None


def _lacking(need: ResourceRequest, node: Node) -> str | None:
    """The reason why an environment cannot run the trial, with a remedy if there is one; or None."""
    interpreter = node.interpreter(need.environment)
    if interpreter.problem:
        return interpreter.problem
    if need.environment:
        needed = (FRAMEWORKS[need.framework].package, *NEEDED)
        if missing := next((package for package in needed if package not in interpreter.packages), None):
            return f"{missing} is not installed in {environment_label(need.environment)} on {node.name}"
        return None
    if FRAMEWORKS[need.framework].package in interpreter.packages:
        return None
    reason = f"{need.framework} is not installed on {node.name}"
    recipe = recipe_for(need.framework, need.kind)
    if recipe is None:
        return reason
    pip = f"`pip install '{recipe.extra[0]}'` or " if recipe.in_own_environment else ""
    return f"{reason}; run {pip}`raybench env create {recipe.name}`"
