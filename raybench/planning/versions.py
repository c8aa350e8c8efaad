"""Versions of a grid as one with the axis `version`: its values are `base` and `new`, or commands."""

from __future__ import annotations

from collections.abc import Sequence

from raybench.config import GridSpec
from raybench.core.cell import BASE, NEW, VERSION_AXIS
from raybench.core.identity import COMPARE
from raybench.core.text import format_value
from raybench.devices import KINDS
from raybench.errors import UsageError

_MAY_DIFFER = {"name", "description", "workload", "inputs", "environment", "tracking_uri", "baseline"}


def compared(specs: Sequence[GridSpec], names: Sequence[str] = (BASE, NEW)) -> GridSpec:
    """Return the grid that runs each cell with the code, the command and the environments of every version.

    What concerns the whole grid, such as the MLflow store, is that of the last; the others are compared with the first.
    """
    devices = sorted({device for spec in specs for device in spec.devices})
    trees = [spec.model_dump(exclude=_MAY_DIFFER) for spec in specs]
    for spec, tree in zip(specs, trees, strict=True):
        known = [name for name in devices if name in spec.devices or name in KINDS]
        tree["devices"] = {name: spec.profile(name).model_dump(exclude={"environment"}) for name in known}
    places = [str(spec.source_path or name) for spec, name in zip(specs, names, strict=True)]
    for name, value in trees[0].items():
        if any(tree[name] != value for tree in trees):
            texts = [f"{format_value(tree[name])} in {place}" for tree, place in zip(trees, places, strict=True)]
            raise UsageError(f"{name} is {' and '.join(texts)}; to compare them, give both the same")
    versions = dict(zip(names, specs, strict=True))
    spec = specs[-1].model_copy(update={"name": f"{specs[-1].name}{COMPARE}", "baseline": {VERSION_AXIS: names[0]}})
    spec._versions = versions
    return spec
