"""Registry of the built-in workloads: the folders of this package.

A folder declares a `WORKLOAD`, or names a training function: `FUNCTION` is `file.py:name`, and `DATASET` its data set.
"""

from __future__ import annotations

import pkgutil
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import NamedTuple

from raybench.errors import WorkloadError, nearest
from raybench.workloads.base import Workload


class BuiltinFunction(NamedTuple):
    """A training function that comes with raybench.

    Attributes:
        reference: `file.py:name`, with the file's whole path.
        dataset: the name of its data set.
    """

    reference: str
    dataset: str


@cache
def names() -> tuple[str, ...]:
    """The names of all built-in workloads."""
    return tuple(sorted(module.name for module in pkgutil.iter_modules([str(Path(__file__).parent)]) if module.ispkg))


@cache
def functions() -> dict[str, BuiltinFunction]:
    """The built-in workloads that are training functions, by name."""
    modules = {name: import_module(f"raybench.workloads.{name}") for name in names()}
    return {
        name: BuiltinFunction(str(Path(str(module.__file__)).parent / module.FUNCTION), module.DATASET)
        for name, module in modules.items()
        if hasattr(module, "FUNCTION")
    }


def declared() -> tuple[str, ...]:
    """The names of the built-in workloads that are declared, and run by raybench's own loops."""
    return tuple(name for name in names() if name not in functions())


def get(name: str) -> Workload:
    """Look up a declared built-in workload by name; its framework is not imported.

    Raises:
        WorkloadError: there is none; the message has the nearest name.
    """
    if name not in names():
        hint = f"{nearest(name, names())} (your own: file.py:name)"
        raise WorkloadError(f"unknown workload {name[:100]!r}; {hint}")
    if name in functions():
        raise WorkloadError(f"{name} is a training function and has no declaration")
    workload: Workload = import_module(f"raybench.workloads.{name}").WORKLOAD
    return workload
