"""Form of replication of a trial, and its number of devices."""

from __future__ import annotations

from dataclasses import dataclass

from raybench.core.job import DEVICES, GROUPED
from raybench.core.text import plural
from raybench.devices import KINDS, hosted
from raybench.engines import FRAMEWORKS


@dataclass(frozen=True)
class Replication:
    """A form of replication and the devices it computes on.

    `form` is empty for one replica on one device; else `grouped` (one computation with grouped batch statistics) or
    `devices` (a replica on each device).
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
    is_divided = hosted(kind) and count == 1
    each = KINDS[kind].devices_per_accelerator(model)
    total = count * each
    if replicas == 1:
        return (
            f"count: {count} with replicas: 1 leaves devices idle; set replicas: {total}"
            if count > 1
            else Replication()
        )
    if not FRAMEWORKS[framework].groups:
        return f"raybench's {framework} engine has no replicas; set replicas: 1"
    if requested == GROUPED or (requested is None and (total == 1 or is_divided)):
        return Replication(GROUPED)
    if not FRAMEWORKS[framework].spreads:
        return f"{framework} trains on one device only; use count: 1 and replication: {GROUPED}"
    if is_divided or replicas == total:
        return Replication(DEVICES, replicas)
    suggestions = [f"replicas: {total}"] if total > 1 else [f"replication: {GROUPED}"]
    suggestions += [f"count: {replicas // each}"] if replicas % each == 0 else []
    return f"{replicas} replicas do not fit {plural(total, 'device')}; set {' or '.join(suggestions)}"
