"""Device kinds: hardware types and their framework adapters. A new kind is a file here, and its name below."""

from __future__ import annotations

import os
import pkgutil
from collections.abc import Sequence

from raybench.core.cell import CellDevice
from raybench.core.settings import MISSING
from raybench.core.text import plural
from raybench.devices import cpu, cuda, mps, rocm, tpu, xla
from raybench.devices.base import Assignment as Assignment
from raybench.devices.base import Device as Device
from raybench.devices.base import DeviceKind
from raybench.devices.base import Hardware as Hardware

ACCELERATORS = "RAYBENCH_ACCELERATORS"
"""Environment variable that selects the accelerator kinds of this node: `cuda,tpu`, or `none`; unset: all."""

KINDS: dict[str, DeviceKind] = {
    module.KIND.name: module.KIND
    for module in (cpu, cuda, mps, rocm, tpu, xla)  # none of them loads a framework
}
"""Device kinds of this release by name, the CPU first."""

UNKNOWN = {
    "torch": "raybench.devices.cpu:OtherAccelerator",
    "torch_xla": "raybench.devices.xla:Xla",
    "tensorflow": "raybench.devices.tensorflow:Asynchronous",
    "jax": "raybench.devices.jax:JaxDevice",
}
"""The adapters of accelerators of other kinds, in programs of the user: each waits as its framework does for any."""


def frameworks(kind: str) -> tuple[str, ...]:
    """Frameworks that run on a kind, the default one first; empty for an unknown kind."""
    return tuple(KINDS[kind].adapters) if kind in KINDS else ()


def loop_frameworks(kind: str) -> tuple[str, ...]:
    """Frameworks in which a loop of the user runs on a kind, the default one first; empty for an unknown kind."""
    return (*frameworks(kind), *KINDS[kind].loop_adapters) if kind in KINDS else ()


def hosted(kind: str) -> bool:
    """Return whether a kind computes on the host's cores, without an accelerator; false for an unknown kind."""
    return kind in KINDS and KINDS[kind].on_host


def hardware_text(device: CellDevice) -> str:
    """The hardware in words: `AMD EPYC, 2 cores`; `4 x NVIDIA A100`; empty if its model is not known."""
    if device.model in (None, MISSING):
        return ""
    count = device.known_count
    if hosted(str(device.kind)) and device.count is not MISSING:
        return f"{device.model}, {plural(count, 'core')}"
    return f"{count:,} x {device.model}" if count > 1 else str(device.model)


def hardware_key(device: CellDevice) -> str:
    """The model of a device with its kind, the same for all kinds that compute on the host; empty if not known."""
    kind = "host" if hosted(str(device.kind)) else device.kind
    return "" if device.model in (None, MISSING) else f"{kind} {device.model}"


def missing_precision(kind: str, precision: str) -> str | None:
    """Reason why a kind cannot compute in a precision; None if it can, and for an unknown kind."""
    if kind not in KINDS or precision in KINDS[kind].precisions:
        return None
    kinds = [entry.name for entry in KINDS.values() if precision in entry.precisions]
    return f"precision {precision} is not available on {kind}, only on {', '.join(kinds)}"


def neighbors(kind: str, free: Sequence[str], count: int) -> tuple[str, ...] | None:
    """Choose adjacent accelerators of one host for a trial, among the unassigned ones; None if there are not enough.

    The chips of a TPU are wired as a grid, so a trial takes an aligned block of them: 0 and 1, or 4 to 7, never 1 and 2
    (https://docs.cloud.google.com/tpu/docs/system-architecture-tpu-vm).
    """
    if not KINDS[kind].counts or count < 2:
        return tuple(free[:count]) if len(free) >= count else None
    for first in range(0, max(map(int, free), default=0) + 1, count):
        block = tuple(str(number) for number in range(first, first + count))
        if set(block) <= set(free):
            return block
    return None


def open_device(kind: str, framework: str, assignment: Assignment) -> Device:
    """Create the adapter of a kind under a framework, for one trial."""
    return _open({**KINDS[kind].loop_adapters, **KINDS[kind].adapters}[framework], kind, assignment)


def open_found(kind: str, framework: str, assignment: Assignment) -> Device:
    """Create the adapter of a kind under a framework for a program of the user, also if raybench does not know them."""
    if framework in loop_frameworks(kind):
        return open_device(kind, framework, assignment)
    if framework in UNKNOWN and not hosted(kind):
        return _open(UNKNOWN[framework], "cpu", assignment)
    return open_device("cpu", framework if framework in loop_frameworks("cpu") else "none", assignment)


def _open(path: str, kind: str, assignment: Assignment) -> Device:
    device: Device = pkgutil.resolve_name(path)(assignment)
    device.kind = kind
    return device


def probe() -> list[Hardware]:
    """Detect the host and its accelerators, of the kinds in `ACCELERATORS`, without loading a framework."""
    setting = os.environ.get(ACCELERATORS)
    names = KINDS if setting is None else ("cpu", *(name.strip().lower() for name in setting.split(",")))
    return [entry for kind in KINDS.values() if kind.probe and kind.name in names for entry in kind.probe()]
