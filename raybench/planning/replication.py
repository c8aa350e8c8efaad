"""Form of replication of a trial, and its number of devices."""

from __future__ import annotations

from dataclasses import dataclass

from raybench.core.job import DEVICES, GROUPED, SPMD
from raybench.core.text import join_words
from raybench.devices import KINDS, hosted
from raybench.engines import FRAMEWORKS


@dataclass(frozen=True)
class Replication:
    """A form of replication and the devices it computes on.

    `form` is empty for one replica on one device; else `grouped` (one computation with grouped batch statistics),
    `devices` (a replica on each device) or `spmd` (one program that XLA partitions over the devices).
    """

    form: str = ""
    devices: int = 1


def resolve_replication(
    kind: str, framework: str, model: str, replicas: int, count: int, requested: str | None
) -> Replication | str:
    """The requested or suitable form of replication, or the reason against it.

    With a device for each replica, replicas are real; on a single device they are grouped. A kind that computes on the
    host can have any number of devices, all of them on the same cores.

    Args:
        kind, model: the hardware.
        count: accelerators per trial; on a host, the number of devices into which its cores are divided.
        requested: the form that the grid sets, if any.
    """
    host, engine = hosted(kind), FRAMEWORKS[framework]
    each = KINDS[kind].devices_per_accelerator(model)
    total = count * each
    if requested == SPMD:
        form, devices = SPMD, total
    elif replicas == 1:
        if count > 1:
            return f"count: {count} with replicas: 1 leaves devices idle; set replicas: {total} or replication: {SPMD}"
        return Replication()
    elif requested == GROUPED or (requested is None and (total == 1 or (host and count == 1))):
        form, devices = GROUPED, 1
    elif each > 1 and engine.has_ranks:  # a process takes whole accelerators, so one program must use all devices
        if requested == DEVICES:
            return (
                f"{framework} has one process per accelerator, but a {model} is {each} devices; set replication: {SPMD}"
            )
        form, devices = SPMD, total
    else:
        form, devices = DEVICES, replicas if host and count == 1 else total
        if devices != replicas:
            suggestions = [f"replicas: {devices}"] if devices > 1 else [f"replication: {GROUPED}"]
            suggestions += [f"count: {replicas // each}"] if replicas % each == 0 else []
            devices_text = f"{devices} device{'s' if devices > 1 else ''}"
            return f"{replicas} replicas do not fit {devices_text}; set {' or '.join(suggestions)}"
    if form not in engine.replications:
        choices = join_words(engine.replications, "or")
        return f"{framework} has no replication: {form}; " + (f"use {choices}" if choices else "remove the setting")
    if form == SPMD and devices == 1:
        return f"replication: {SPMD} needs several devices; set count in the device's profile"
    if host and devices > 1 and form not in engine.host_replications:
        return f"{framework} has no replication: {form} on {kind}; use {GROUPED} or {SPMD}"
    return Replication(form, devices)
