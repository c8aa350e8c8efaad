"""Reductions of a smoke run relative to its grid, as a fact."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from raybench.analysis.fact import Fact
from raybench.core.cell import Cell
from raybench.planning.plan import format_value

_PATHS: Mapping[str, tuple[str, ...]] = {
    "framework": ("framework",),
    "warmup_epochs": ("warmup_epochs",),
    "examples": ("data", "examples"),
    "kind": ("device", "kind"),
    "count": ("device", "count"),
    "replicas": ("device", "replicas"),
    "replication": ("device", "replication"),
    "cpus": ("device", "count"),
    "threads": ("device", "threads"),
}
"""Paths of the values that are not among a cell's settings."""

_ALL: Mapping[str, str] = {"threads": "all cores", "steps_per_epoch": "all"}
"""Texts for the absence of a limit."""


@dataclass(frozen=True)
class Cut:
    """A value of the full grid, and its replacements.

    These are the values in the smoke run.
    """

    full: str
    cut: tuple[str, ...]


@dataclass(frozen=True)
class SmokeCutsFact(Fact):
    """The reductions of a smoke run's cells, by setting."""

    settings: Mapping[str, tuple[Cut, ...]]


def smoke_cuts(cells: Iterable[Cell]) -> SmokeCutsFact | None:
    """Return how cells were reduced.

    None for the cells of a full grid.
    """
    by_setting: dict[str, dict[str, dict[str, None]]] = {"device": {}}
    for cell in cells:
        cut = dict(cell.role.smoke or {})
        device = cut.pop("device", None)
        if "kind" in cut:
            by_setting["device"].setdefault(str(device), {})[cell.device.kind] = None
            cut = {name: value for name, value in cut.items() if name not in ("kind", "count")}
        for name, full_value in cut.items():
            full = _ALL[name] if full_value is None and name in _ALL else format_value(full_value)
            by_setting.setdefault(name, {}).setdefault(full, {})[format_value(_now(cell, name))] = None
    cuts = {
        name: tuple(Cut(full, tuple(cut_values)) for full, cut_values in by_full.items())
        for name, by_full in by_setting.items()
        if by_full
    }
    return SmokeCutsFact(cuts) if cuts else None


def _now(cell: Cell, name: str) -> Any:
    """Return a cell's current value of a setting."""
    value: Any = cell.to_json()
    for step in _PATHS.get(name, ("settings", name)):
        value = value.get(step) if isinstance(value, Mapping) else None
    return value
