"""Which line is whose: a cell has one look in all figures of a report."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from raybench.analysis.comparison import PlannedCell
from raybench.analysis.grid_results import GridResults
from raybench.reporting.figures.theme import MARKERS, marks


def devices(results: GridResults) -> list[str]:
    """The devices of a grid, in order."""
    return list(dict.fromkeys(str(cell.axes.get("device")) for cell in results.cells))


def styles_by_label(results: GridResults, cells: Sequence[PlannedCell]) -> list[tuple[str, str, Any]]:
    """A colour, a marker and a dash for the line of each of some cells (`raybench.reporting.figures.theme.marks`).

    Where each has a device of its own it is the device's, else that of the cell's place in the grid; in a grid of more
    cells than there are markers, that of its place among these.
    """
    cell_devices = [str(cell.axes.get("device")) for cell in cells]
    grid_devices = devices(results)
    if len(set(cell_devices)) == len(cell_devices):
        places = [grid_devices.index(device) for device in cell_devices]
    elif len(results.cells) <= len(MARKERS):
        order = [cell.cell_id for cell in results.cells]
        places = [order.index(cell.cell_id) for cell in cells]
    else:
        places = list(range(len(cells)))
    styles = marks(max(places, default=0) + 1)
    return [styles[place] for place in places]
