"""Labels of axes, configurations and trials in text, such as `gpu, batch 512, decay 5e-4`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from raybench.core.settings import SETTINGS, short_name
from raybench.core.text import format_value

_BARE = ("device", "framework", "precision", "version", "workload", "data_set", "environment", "optimizer")
"""Axes whose values need no name."""

LOG = "params.log"  # the axis of the names of logs (`raybench.sources.logs`)


def axis_label(axis: str) -> str:
    """Return an axis in words, such as `batch`."""
    return SETTINGS[axis].label if axis in SETTINGS else short_name(axis).replace("_", " ")


def named_value(axis: str, value: Any) -> str:
    """Return an axis and its value in words: `batch 512`, `compile`, `no compile`."""
    label = axis_label(axis)
    if isinstance(value, bool):
        return label if value else f"no {label}"
    return f"{label} {format_value(value)}"


def configuration_label(axes: Mapping[str, Any], varied: Iterable[str]) -> str:
    """Return a configuration's values on the axes that vary."""
    varied = [*varied]
    # Logs that their names alone tell apart have these names: "log h100" reads like a logarithm.
    bare = (*varied, *_BARE) if varied == [LOG] and any(map(str.isalpha, str(axes.get(LOG)))) else _BARE
    values = ((axis, axes[axis]) for axis in varied if axis in axes)
    return ", ".join(format_value(value) if axis in bare else named_value(axis, value) for axis, value in values)
