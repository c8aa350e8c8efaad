"""Device kinds: what a node has, and how a framework uses it. A new kind is one new file and a few lines here."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module

from raybench.devices.base import Assignment, Device, Hardware

_ADAPTERS: Mapping[str, Mapping[str, str]] = {
    "cpu": {"torch": "cpu:Cpu", "tensorflow": "tensorflow:Cpu"},
    "cuda": {"torch": "cuda:Cuda", "tensorflow": "tensorflow:Cuda"},
    "mps": {"torch": "mps:Mps"},
    "tpu": {"torch_xla": "tpu:Tpu", "tensorflow": "tensorflow:Tpu"},
    "xla_cpu": {"torch_xla": "xla:XlaCpu"},
}
"""For each kind and each framework that runs on it, the adapter: "module:Class"."""

_PROBES = ("cpu", "cuda", "mps", "tpu")
"""The modules that find hardware, each of its kind."""

KINDS = tuple(_ADAPTERS)
"""The kinds this release can run on."""

BORROWED: Mapping[str, str] = {"xla_cpu": "cpu"}
"""Kinds that are no hardware of their own, and whose hardware they compute on."""

RAY_RESOURCES: Mapping[str, str] = {"cuda": "GPU", "mps": "GPU", "tpu": "TPU"}
"""What Ray calls an accelerator of a kind: an Apple GPU is a "GPU" to it as any other."""

_LEGAL_COUNTS: Mapping[str, tuple[int, ...]] = {"tpu": (1, 2, 4, 8)}


def frameworks(kind: str) -> tuple[str, ...]:
    """The frameworks that run on a kind, the usual one first; none for a kind this release does not know."""
    return tuple(_ADAPTERS.get(kind, ()))


def hosted(kind: str) -> bool:
    """Whether a kind computes on the host's cores and takes no accelerator."""
    return BORROWED.get(kind, kind) == "cpu"


def cores_per_accelerator(kind: str, model: str) -> int:
    """How many devices a framework sees in one accelerator, as Ray counts those."""
    from raybench.devices import tpu

    return tpu.cores(model) if kind == "tpu" else 1


def legal_counts(kind: str) -> tuple[int, ...] | None:
    """How many accelerators of a kind a trial may take; None where any number will do."""
    return _LEGAL_COUNTS.get(kind)


def open_device(kind: str, framework: str, assignment: Assignment) -> Device:
    """The adapter of a kind under a framework, for one trial.

    Raises:
        LookupError: no such adapter in this release.
    """
    if framework not in frameworks(kind):
        there = ", ".join(f"{name} ({', '.join(of)})" for name, of in _ADAPTERS.items())
        raise LookupError(f"no adapter for device kind {kind} under {framework}; this release has {there}")
    module, name = _ADAPTERS[kind][framework].split(":")
    device: Device = getattr(import_module(f"raybench.devices.{module}"), name)(assignment)
    return device


def probe() -> list[Hardware]:
    """Everything this node has, read without loading a framework."""
    found: list[Hardware] = []
    for module in _PROBES:
        found += import_module(f"raybench.devices.{module}").probe()
    return found


__all__ = [
    "BORROWED",
    "KINDS",
    "RAY_RESOURCES",
    "Assignment",
    "Device",
    "Hardware",
    "cores_per_accelerator",
    "frameworks",
    "hosted",
    "legal_counts",
    "open_device",
    "probe",
]
