"""Registry of the built-in workloads: the folders of this package, each of which declares a `WORKLOAD`."""

from __future__ import annotations

import pkgutil
from functools import cache
from importlib import import_module
from pathlib import Path

from raybench.errors import WorkloadError, nearest
from raybench.workloads.base import Workload


@cache
def names() -> tuple[str, ...]:
    """The names of all built-in workloads."""
    return tuple(sorted(module.name for module in pkgutil.iter_modules([str(Path(__file__).parent)]) if module.ispkg))


def get(name: str) -> Workload:
    """Look up a built-in workload by name; its framework is not imported.

    Raises:
        WorkloadError: there is none; the message has the nearest name.
    """
    if name not in names():
        hint = f"{nearest(name, names())} (your own: file.py:name)"
        raise WorkloadError(f"unknown workload {name[:100]!r}; {hint}")
    workload: Workload = import_module(f"raybench.workloads.{name}").WORKLOAD
    return workload
