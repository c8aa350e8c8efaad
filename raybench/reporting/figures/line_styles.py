"""Line styles of cells, consistent across all figures of a report."""

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
    """Return a colour, marker and dash pattern for each cell's line.

    They are chosen from `raybench.reporting.figures.theme.marks`: by device if each cell has a different one, else by
    the cell's index in the grid or, if the grid has more cells than there are markers, by its index among these cells.
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
