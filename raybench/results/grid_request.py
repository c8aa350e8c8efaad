"""The request of a grid: its configurations, repeats, baseline and target, as saved with each execution."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from raybench.core.cell import UNKNOWN_CELL, Cell
from raybench.core.job import Target
from raybench.core.settings import PARAM
from raybench.core.status import TrialStatus
from raybench.results.attempt import Attempt


@dataclass(frozen=True)
class PlannedCell:
    """A requested configuration of a grid.

    Attributes:
        axes: its coordinates in the grid: each axis and its value.
        repeats: number of runs requested, at least 1.
        skip: the reason why it cannot run here; None if it can.
        price_per_hour: price of its device, in one currency for the whole grid.
        content: the fields that its identity is computed from; falsy if only its runs have them.
    """

    cell_id: str
    axes: Mapping[str, Any]
    repeats: int
    skip: str | None = None
    price_per_hour: float | None = None
    content: Cell = UNKNOWN_CELL


@dataclass(frozen=True)
class GridRequest:
    """The request of one grid execution, as far as it is known.

    Attributes:
        name: the grid's name.
        cells: in the order of the file.
        baseline: axes and the baseline's values on them; empty for the first value of every axis.
        target: the quality to reach.
        metric: the metric of quality; empty to choose it from what the runs logged.
        description: the purpose of the grid.
        part: a description of the selection if only some cells were requested; empty if all were.
        price_per_kwh, gco2_per_kwh: price and grams of CO2 of a kilowatt-hour; None if not given.
    """

    name: str
    cells: Sequence[PlannedCell]
    baseline: Mapping[str, Any] = field(default_factory=dict)
    workload: str = ""
    target: Target | None = None
    metric: str = ""
    description: str = ""
    part: str = ""
    price_per_kwh: float | None = None
    gco2_per_kwh: float | None = None


_AXES: Mapping[str, str] = {
    "workload.name": "workload",
    "data.name": "data_set",
    "device.model": "hardware",
    "device.count": "count",
    "device.replicas": "replicas",
    "device.threads": "threads",
    "framework": "framework",
    "engine.framework_version": "framework_version",
}
"""Names of axes other than settings, by their place in a cell."""


def request_of_runs(name: str, attempts: Iterable[Attempt], prices: Mapping[str, float] | None = None) -> GridRequest:
    """Return the request that attempts imply, if none was saved, as for a CSV file.

    Every cell is included, with the fields of cells that differ as axes. A value that follows from the device is no
    axis, because the device's name implies it.

    Args:
        name: the grid's name.
        attempts: its attempts.
        prices: price per hour by device.
    """
    by_cell: dict[str, list[Attempt]] = {}
    for attempt in attempts:
        by_cell.setdefault(attempt.cell_id, []).append(attempt)
    runs = {cell_id: next((each for each in group if each.cell), group[0]) for cell_id, group in by_cell.items()}
    axes = {cell_id: _axes(run) for cell_id, run in runs.items()}
    varied = [axis for axis in dict.fromkeys(axis for each in axes.values() for axis in each) if _varies(axis, axes)]
    cells = []
    for cell_id, run in runs.items():
        own = {axis: axes[cell_id][axis] for axis in varied if axis in axes[cell_id]}
        skip = str(run.error.get("message")) if run.status == TrialStatus.SKIPPED and run.error else None
        repeats = max(each.repeat for each in by_cell[cell_id]) + 1
        price = (prices or {}).get(str(axes[cell_id].get("device")))
        cells.append(PlannedCell(cell_id, own, repeats, skip, price, run.cell))
    target = next((run.target for run in runs.values() if run.target), None)
    workloads = dict.fromkeys(str(run.cell.workload.name) for run in runs.values() if run.cell.workload.name)
    return GridRequest(name, cells, workload=", ".join(workloads) or name, target=target)


def _varies(axis: str, axes: Mapping[str, Mapping[str, Any]]) -> bool:
    """Return whether an axis has several values; a value that the device's name implies does not count."""
    values: dict[str, set[str]] = {}
    for each in axes.values():
        values.setdefault("" if axis in ("device", "workload") else str(each.get("device")), set()).add(
            repr(each.get(axis))
        )
    return any(len(each) > 1 for each in values.values())


def _axes(attempt: Attempt) -> dict[str, Any]:
    """Return an attempt's values on all possible axes, by their names in a grid file."""
    leaves = attempt.cell.leaves()
    device = attempt.profile or leaves.get("device.kind")
    axes: dict[str, Any] = {} if device is None else {"device": device}
    axes |= {axis: leaves[leaf] for leaf, axis in _AXES.items() if leaf in leaves}
    for leaf, value in leaves.items():
        if leaf == "settings.optimizer.name":
            axes["optimizer"] = value
        elif leaf.startswith("settings.optimizer."):
            axes[leaf.rpartition(".")[2]] = value
        elif leaf.startswith("settings."):
            axes[leaf.removeprefix("settings.")] = value
        elif leaf.startswith(PARAM):
            axes[leaf] = value
    return axes
