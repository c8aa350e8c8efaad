"""Device kinds: what a node has, and how a trial uses it. A new kind is one new file and one line here."""

from __future__ import annotations

from importlib import import_module

from raybench.devices.base import Assignment, Device, Hardware

_ADAPTERS = {"cpu": "cpu:Cpu", "cuda": "cuda:Cuda", "mps": "mps:Mps"}

KINDS = tuple(_ADAPTERS)
"""The kinds this release can run on."""


def open_device(kind: str, assignment: Assignment) -> Device:
    """The adapter of a kind, for one trial.

    Raises:
        LookupError: no adapter for that kind in this release.
    """
    if kind not in _ADAPTERS:
        raise LookupError(f"no adapter for device kind {kind}; this release has {', '.join(KINDS)}")
    module, name = _ADAPTERS[kind].split(":")
    device: Device = getattr(import_module(f"raybench.devices.{module}"), name)(assignment)
    return device


def probe() -> list[Hardware]:
    """Everything this node has, read without loading a framework."""
    found: list[Hardware] = []
    for adapter in _ADAPTERS.values():
        found += import_module(f"raybench.devices.{adapter.split(':')[0]}").probe()
    return found


__all__ = ["KINDS", "Assignment", "Device", "Hardware", "open_device", "probe"]
