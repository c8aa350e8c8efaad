"""Match trials to nodes, with a reason if none fits; Ray would wait forever for missing resources."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from raybench.core.cell import COMMAND
from raybench.core.text import join_words, plural
from raybench.devices import KINDS, Hardware, frameworks, hosted, loop_frameworks, missing_precision
from raybench.engines import ENGINES, FRAMEWORKS
from raybench.environments import NEEDED, environment_label, recipe_for
from raybench.planning.node import Node


@dataclass(frozen=True)
class ResourceRequest:
    """The resources that a trial needs on a node.

    Attributes:
        count: number of accelerators.
        cpus: 0 means all cores for a CPU trial, else the share of the node's cores of as many accelerators.
        environment: its key (`environments.interpreter`).
        resources: Ray's custom resources.
        data: the data set that a node of a cluster must have, by name and digest.
        form: of a workload whose loop is the user's: raybench's engine of the framework does not matter then.
    """

    kind: str
    framework: str
    precision: str
    replicas: int | None = None
    count: int = 1
    cpus: int = 0
    accelerator_type: str | None = None
    environment: str = ""
    resources: tuple[tuple[str, float], ...] = ()
    data: tuple[str, str | None] | None = None
    form: str = ""


@dataclass(frozen=True)
class Placement:
    """Where a trial can run: nodes of one hardware model, and the resources it takes there.

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


def find_placement(need: ResourceRequest, nodes: Sequence[Node]) -> Placement | str:
    """Find the nodes that fit a trial, or the reason against it.

    A cell has one hardware model, number of cores, framework version and environment. If nodes differ, the most common
    combination is taken; of equally common ones the last in the order of their names, since Ray lists nodes in no fixed
    order.
    """
    reason = unsupported_reason(need)
    if reason:
        return reason
    places: list[tuple[Node, Hardware]] = []
    reasons: list[str] = []
    for node in nodes:
        place = _place(need, node)
        if isinstance(place, str):
            reasons.append(place)
        else:
            places.append((node, place))
    if not places:
        return "; ".join(dict.fromkeys(reasons)) or "there is no machine to run it on"

    def kind_of_place(place: tuple[Node, Hardware]) -> tuple[str, int, str, str]:
        node, hardware = place
        interpreter = node.interpreter(need.environment)
        version = interpreter.packages[FRAMEWORKS[need.framework].package]
        return hardware.model, _cpus(need, node, hardware), version, interpreter.lock

    counts = Counter(map(kind_of_place, places))
    commonest = max(counts, key=lambda each: (counts[each], each))
    matching = [place for place in places if kind_of_place(place) == commonest]
    _, cpus, version, lock = commonest
    accelerators = 0 if hosted(need.kind) else need.count
    hardware = matching[0][1]
    devices, replicas = devices_and_replicas(need, hardware.model)
    if replicas % devices and not need.form:
        return f"replicas: {replicas} is not a multiple of the {devices} devices; use one, or remove replicas"
    names = tuple(node.name for node, _ in matching)
    return Placement(
        hardware, names, cpus, accelerators, version, devices, replicas, need.environment, lock, need.resources
    )


def devices_and_replicas(need: ResourceRequest, model: str) -> tuple[int, int]:
    """The number of devices on which a trial computes, and of parts of its batches with their own batch statistics."""
    if need.form:
        return need.count, 1
    is_spread = FRAMEWORKS[need.framework].spreads
    devices = need.count * (KINDS[need.kind].devices_per_accelerator(model) if is_spread else 1)
    return devices, need.replicas or devices


def _cpus(need: ResourceRequest, node: Node, hardware: Hardware) -> int:
    share = node.cores if hosted(need.kind) else max(1, node.cores * need.count // max(1, hardware.count))
    return need.cpus or share


def unsupported_reason(need: ResourceRequest) -> str | None:
    """The reason why no machine can run it in this release, or None."""
    if not need.form and need.framework not in ENGINES:
        return f"raybench has no engine for {need.framework}"
    kind = KINDS[need.kind]
    available = loop_frameworks(need.kind) if need.form else frameworks(need.kind)
    if need.framework not in available:
        return f"framework {need.framework} does not run on {need.kind}; use {join_words(available, 'or')}"
    is_alone = need.form != COMMAND and not FRAMEWORKS[need.framework].spreads
    if need.count > 1 and is_alone and (hosted(need.kind) or not need.form):
        return f"count {need.count} is not possible with framework {need.framework} on {need.kind}; use 1"
    if kind.counts and need.count not in kind.counts:
        return f"count {need.count} is not possible on {kind.label}; use {join_words([*map(str, kind.counts)], 'or')}"
    return missing_precision(need.kind, need.precision)


def _place(need: ResourceRequest, node: Node) -> Hardware | str:
    """The matching hardware of a node, or the reason why there is none."""
    entries = node.find(need.kind)
    name = KINDS[need.kind].label
    if not entries:
        return f"no {name}"
    if need.accelerator_type:
        entries = [entry for entry in entries if need.accelerator_type.lower() in entry.model.lower()]
    if not entries:
        models = ", ".join(entry.model for entry in node.find(need.kind))
        return f"needs {need.accelerator_type}; {node.name} has {models}"
    if need.count > 1:
        models = join_words([entry.model for entry in entries])
        entries = [entry for entry in entries if not KINDS[need.kind].one_per_trial(entry.model)]
        if not entries:
            return f"count {need.count} is not possible on {models}; use 1"
    largest = max(entries, key=lambda entry: entry.count)
    if not hosted(need.kind) and largest.count < need.count:
        return f"needs {need.count} x {name}; {node.name} has {largest.count}"
    if max(1, need.cpus) > node.cores:
        return f"needs {plural(max(1, need.cpus), 'core')}; {node.name} has {node.cores}"
    for resource, amount in need.resources:
        if node.resources.get(resource, 0.0) < amount:
            return f"needs {amount:g} x {resource}; {node.name} has {node.resources.get(resource, 0.0):g}"
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
        missing = next((package for package in needed if package not in interpreter.packages), None)
        return (
            f"{missing} is not installed in {environment_label(need.environment)} on {node.name}" if missing else None
        )
    if FRAMEWORKS[need.framework].package in interpreter.packages:
        return None
    reason = f"{need.framework} is not installed on {node.name}"
    recipe = recipe_for(need.framework, need.kind)
    if recipe is None:
        return reason
    command = f"`raybench env create {recipe.name}`"
    return (
        f"{reason}; run `pip install '{recipe.extra[0]}'` or {command}"
        if recipe.in_own_environment
        else f"{reason}; run {command}"
    )
