"""Two versions of a grid as one: its axis `version` has the values `base` and `new`."""

from __future__ import annotations

from raybench.config import GridSpec
from raybench.core.cell import BASE, NEW, VERSION_AXIS
from raybench.core.text import format_value
from raybench.devices import KINDS
from raybench.errors import UsageError

_MAY_DIFFER = {"name", "description", "workload", "inputs", "environment", "tracking_uri", "baseline"}


def compared(base: GridSpec, new: GridSpec) -> GridSpec:
    """Return the grid that runs each cell with the code and the environments of both versions.

    Args:
        base, new: the same grid in two folders of code, or with two environments. What concerns the whole grid, such as
            the MLflow store, is that of the new version.

    Raises:
        UsageError: they differ in something else.
    """
    devices = sorted({*base.devices, *new.devices})
    values = [spec.model_dump(exclude=_MAY_DIFFER) for spec in (base, new)]
    for spec, tree in zip((base, new), values, strict=True):
        names = [name for name in devices if name in spec.devices or name in KINDS]
        tree["devices"] = {name: spec.profile(name).model_dump(exclude={"environment"}) for name in names}
    files = [str(spec.source_path or spec.name) for spec in (base, new)]
    for name, value in values[0].items():
        if value != values[1][name]:
            texts = [f"{format_value(tree[name])} in {file}" for tree, file in zip(values, files, strict=True)]
            raise UsageError(f"{name} is {' and '.join(texts)}; to compare them, give both the same")
    return new.with_versions({BASE: base, NEW: new}).model_copy(update={"baseline": {VERSION_AXIS: BASE}})
