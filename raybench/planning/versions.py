"""Versions of a grid as one with the axis `version`: its values are `base` and `new`, or commands."""

from __future__ import annotations

from collections.abc import Sequence

from raybench.config import GridSpec, Repeats
from raybench.core.cell import BASE, NEW, VERSION_AXIS
from raybench.core.identity import COMPARE
from raybench.core.repeats import LOOKS
from raybench.core.text import format_value
from raybench.devices import KINDS
from raybench.errors import UsageError

_MAY_DIFFER = {"name", "description", "workload", "inputs", "environment", "tracking_uri", "baseline"}


_READING = ("epoch", "begin", "time", "metrics")
"""What a grid file says about the output of a command: a version that is read otherwise shows other numbers."""


def with_more_looks(spec: GridSpec) -> GridSpec:
    """Return a grid whose comparisons have as many repeats as noisy versions need (`raybench.core.repeats.LOOKS`)."""
    if not isinstance(spec.repeats, Repeats):
        return spec
    return spec.model_copy(update={"repeats": spec.repeats.model_copy(update={"at_most": LOOKS[-1]})})


def compared(
    specs: Sequence[GridSpec], names: Sequence[str] = (BASE, NEW), has_metrics_of_first: bool | None = None
) -> GridSpec:
    """Return the grid that runs each cell with the code, the command and the environments of every version.

    What concerns the whole grid, such as the MLflow store, is that of the last; the others are compared with the first.

    Args:
        has_metrics_of_first: whether the output of all commands is read by the patterns of the first; otherwise they
            must have the same. None: each is read by its own, as are commands of different programs.
    """
    if has_metrics_of_first is not None:
        specs = [specs[0], *(_read_as(spec, specs[0], has_metrics_of_first) for spec in specs[1:])]
    devices = sorted({device for spec in specs for device in spec.devices})
    trees = [spec.model_dump(exclude=_MAY_DIFFER) for spec in specs]
    for spec, tree in zip(specs, trees, strict=True):
        names_here = [name for name in devices if name in spec.devices or name in KINDS]
        tree["devices"] = {name: spec.profile(name).model_dump(exclude={"environment"}) for name in names_here}
    places = [str(spec.source_path or name) for spec, name in zip(specs, names, strict=True)]
    for name, value in trees[0].items():
        if any(tree[name] != value for tree in trees):
            texts = [f"{format_value(tree[name])} in {place}" for tree, place in zip(trees, places, strict=True)]
            raise UsageError(f"{name} is {' and '.join(texts)}; to compare them, give both the same")
    versions = dict(zip(names, specs, strict=True))
    spec = specs[-1].model_copy(update={"name": f"{specs[-1].name}{COMPARE}", "baseline": {VERSION_AXIS: names[0]}})
    spec._versions = versions
    return spec


def _read_as(spec: GridSpec, first: GridSpec, has_metrics_of_first: bool) -> GridSpec:
    """Return a grid whose command is read by the patterns of the first."""
    command, first_command = spec.workload, first.workload
    if isinstance(command, str) or isinstance(first_command, str):
        return spec
    if has_metrics_of_first:
        reading = {name: getattr(first_command, name) for name in _READING}
        return spec.model_copy(update={"workload": command.model_copy(update=reading)})
    for name in _READING:
        if getattr(command, name) != getattr(first_command, name):
            place = first.place(name) or "the first file"
            remedy = "a pattern such as `(?:acc|accuracy)=([\\d.]+)` reads both; --metrics-of-base uses those of BASE"
            raise spec.error(name, f"not the same as in {place}, so that the numbers are not comparable; {remedy}")
    return spec
