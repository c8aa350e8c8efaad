"""Registry of the built-in workloads, which the folders of this package declare."""

from __future__ import annotations

import pkgutil
from collections.abc import Mapping
from functools import cache
from importlib import import_module
from pathlib import Path

from raybench.errors import WorkloadError, nearest
from raybench.workloads.base import Workload


@cache
def _workloads() -> Mapping[str, Workload]:
    folders = (module.name for module in pkgutil.iter_modules([str(Path(__file__).parent)]) if module.ispkg)
    values = (value for name in folders for value in vars(import_module(f"raybench.workloads.{name}")).values())
    return {value.name: value for value in values if isinstance(value, Workload)}


def names() -> tuple[str, ...]:
    """The names of all built-in workloads."""
    return tuple(sorted(_workloads()))


def get(name: str) -> Workload:
    """Look up a built-in workload by name; its framework is not imported.

    Raises:
        WorkloadError: there is none; the message has the nearest name.
    """
    if name not in names():
        hint = f"{nearest(name, names())} (your own: file.py:name)"
        raise WorkloadError(f"unknown workload {name[:100]!r}; {hint}")
    return _workloads()[name]
