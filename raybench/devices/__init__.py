"""Device kinds: the hardware of a node, and how a framework uses it. A new kind is one new file in this package."""

from __future__ import annotations

import os
import pkgutil
from collections.abc import Sequence
from importlib import import_module

from raybench.devices.base import Assignment, Device, DeviceKind, Hardware

ACCELERATORS = "RAYBENCH_ACCELERATORS"
"""Environment variable: the kinds of accelerators to use on this node, such as `cuda,tpu`, or `none`; unset: all."""

_SHARED = frozenset({"base", "host", "tensorflow"})
"""Modules that serve several kinds and declare none. Importing the last one changes variables that Keras reads."""

KINDS: dict[str, DeviceKind] = {}
"""The kinds of this release by name, the CPU first."""


def register_kinds() -> None:
    """Fill `KINDS` with the `KIND` of each module of this package; no framework is loaded."""
    names = sorted({module.name for module in pkgutil.iter_modules(__path__)} - _SHARED)
    kinds: list[DeviceKind] = [import_module(f"{__name__}.{name}").KIND for name in names]
    KINDS.clear()
    KINDS.update((kind.name, kind) for kind in sorted(kinds, key=lambda kind: (kind.name != "cpu", kind.name)))


def frameworks(kind: str) -> tuple[str, ...]:
    """The frameworks that run on a kind, the default one first; none for a kind this release does not know."""
    return tuple(KINDS[kind].adapters) if kind in KINDS else ()


def hosted(kind: str) -> bool:
    """Whether a kind computes on the host's cores and takes no accelerator; false for one that is not known."""
    return kind in KINDS and KINDS[kind].on_host


def missing_precision(kind: str, precision: str) -> str | None:
    """The reason if a kind cannot compute in a precision; None if it can, or if the kind is not known."""
    if kind not in KINDS or precision in KINDS[kind].precisions:
        return None
    kinds = [entry.name for entry in KINDS.values() if precision in entry.precisions]
    return f"precision {precision} is not available on {kind}, only on {', '.join(kinds)}"


def neighbours(kind: str, free: Sequence[str], count: int) -> tuple[str, ...] | None:
    """Choose accelerators of one host for a trial; None if there are not enough.

    A TPU's chips are wired as a grid, so that a trial takes an aligned block of them: 0 and 1, or 4 to 7, never 1 and 2
    (https://docs.cloud.google.com/tpu/docs/system-architecture-tpu-vm).

    Args:
        kind: of device.
        free: identities of those that nobody has, in order.
        count: how many the trial takes.
    """
    if not KINDS[kind].counts or count < 2:
        return tuple(free[:count]) if len(free) >= count else None
    for first in range(0, max(map(int, free), default=0) + 1, count):
        block = tuple(str(number) for number in range(first, first + count))
        if set(block) <= set(free):
            return block
    return None


def open_device(kind: str, framework: str, assignment: Assignment) -> Device:
    """The adapter of a kind under a framework, for one trial.

    Raises:
        LookupError: no such adapter in this release.
    """
    if framework not in frameworks(kind):
        choices = ", ".join(f"{name} ({', '.join(frameworks(name))})" for name in KINDS)
        raise LookupError(f"no adapter for device kind {kind} under {framework}; this release has {choices}")
    module, name = KINDS[kind].adapters[framework].split(":")
    device: Device = getattr(import_module(module), name)(assignment)
    device.kind = kind
    return device


def probe() -> list[Hardware]:
    """The host and the accelerators of this node that `ACCELERATORS` admits, read without loading a framework."""
    setting = os.environ.get(ACCELERATORS)
    names = KINDS if setting is None else ("cpu", *(name.strip().lower() for name in setting.split(",")))
    return [entry for kind in KINDS.values() if kind.probe and kind.name in names for entry in kind.probe()]


register_kinds()

__all__ = [
    "ACCELERATORS",
    "KINDS",
    "Assignment",
    "Device",
    "DeviceKind",
    "Hardware",
    "frameworks",
    "hosted",
    "missing_precision",
    "neighbours",
    "open_device",
    "probe",
    "register_kinds",
]
