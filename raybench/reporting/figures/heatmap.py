"""Heat maps of the metric by batch size and weight decay.

Each device has a map of its own.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean, stdev
from typing import TYPE_CHECKING, Any

from raybench.analysis.comparison import PlannedCell
from raybench.analysis.grid_results import GridResults, axis_label
from raybench.core.text import format_value
from raybench.reporting.figures.theme import NoDataError, fitted, new_figure
from raybench.reporting.sentences import render_phrase

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

BATCH, DECAY = "batch_size", "weight_decay"
PANELS = 12
COLUMNS, ROWS = 8, 24
"""Maximum numbers of columns and rows with readable numbers."""

DARKEST = 0.4
"""Darkest level of matplotlib's greys; black numbers remain readable on it."""

TROUBLE = "////"
"""The hatch of a cell without a number."""


@dataclass(frozen=True)
class _Side:
    """An axis of the grid along a side of the map."""

    axis: str
    values: Sequence[Any]
    label: str

    def place(self, cell: PlannedCell) -> int:
        return self.values.index(cell.axes.get(self.axis))

    @property
    def ticks(self) -> tuple[list[float], list[str]]:
        words = [format_value(value) if value is not None else "" for value in self.values]
        return [place + 0.5 for place in range(len(words))], words


def accuracy_map(results: GridResults) -> Figure:
    """Draw the final metric by batch size and weight decay, per device.

    Each number has ± its standard deviation. Cells that ran out of memory, diverged, were skipped or have not run are
    hatched and labelled; cells that are not in the grid are empty.

    Raises:
        NoDataError: neither varies, no run has completed, or there are too many cells.
    """
    batches, decays = results.axes.get(BATCH), results.axes.get(DECAY)
    if not batches and not decays:
        raise NoDataError("neither batch size nor weight decay varies")
    values = {cell.cell_id: results.values(cell) for cell in results.cells}
    means = [fmean(numbers) for numbers in values.values() if numbers]
    if not means:
        raise NoDataError(f"no completed run recorded {results.metric}")
    panel_axes = [axis for axis in results.axes if axis not in (BATCH, DECAY)]
    panels: dict[str, list[PlannedCell]] = {}
    for cell in results.cells:
        if not cell.aa_of and cell.axes:
            title = " ".join(axis_label(axis, cell.axes[axis]) for axis in panel_axes if axis in cell.axes)
            panels.setdefault(title, []).append(cell)
    rows, columns = _side(results, BATCH, "batch size"), _side(results, DECAY, "weight decay λ")
    if len(columns.values) > COLUMNS:
        rows, columns = columns, rows
    if len(panels) > PANELS or len(columns.values) > COLUMNS or len(rows.values) > ROWS:
        raise NoDataError("there are more cells than a heatmap can show")
    across = 2 if len(columns.values) <= 2 and len(panels) > 1 else 1
    down = -(-len(panels) // across)
    figure, axes = new_figure(down * (0.36 * len(rows.values) + 0.75) + 0.2, down, across)
    scale = (min(means), max(means) if max(means) > min(means) else min(means) + 1e-9)
    for panel, (title, cells) in zip(axes, panels.items(), strict=False):
        _map(panel, results, cells, values, rows, columns, scale)
        panel.set_title(fitted(title, 26 if across > 1 else 56), loc="left")
    for panel in axes[len(panels) :]:
        panel.set_visible(False)
    figure.supxlabel(columns.label, fontsize=9.5)
    figure.supylabel(rows.label, fontsize=9.5)
    return figure


def _map(
    panel: Axes,
    results: GridResults,
    cells: Sequence[PlannedCell],
    values: dict[str, list[float]],
    rows: _Side,
    columns: _Side,
    scale: tuple[float, float],
) -> None:
    from matplotlib import colormaps
    from matplotlib.patches import Rectangle

    greys = colormaps["Greys"]
    for cell in cells:
        place = columns.place(cell), rows.place(cell)
        numbers = values[cell.cell_id]
        share = (fmean(numbers) - scale[0]) / (scale[1] - scale[0]) if numbers else 0.0
        box: dict[str, Any] = {
            "facecolor": greys(0.05 + DARKEST * share) if numbers else "white",
            "edgecolor": "black",
            "linewidth": 0.6,
        }
        panel.add_patch(Rectangle(place, 1, 1, hatch="" if numbers else TROUBLE, **box))
        words = _words(numbers) if numbers else render_phrase("run_troubles", results.counts(cell)) or "–"
        suffix = f"\n{trouble}" if numbers and (trouble := render_phrase("run_troubles", results.counts(cell))) else ""
        panel.text(
            place[0] + 0.5,
            place[1] + 0.5,
            words + suffix,
            ha="center",
            va="center",
            fontsize=8.5 if not suffix else 7,
            linespacing=1.05,
            bbox=None if numbers else {"facecolor": "white", "edgecolor": "none", "pad": 1.2},
        )
    panel.set_xlim(0, len(columns.values))
    panel.set_ylim(len(rows.values), 0)
    panel.set_xticks(*columns.ticks)
    panel.set_yticks(*rows.ticks)
    panel.tick_params(length=0)
    panel.spines[:].set_visible(False)


def _side(results: GridResults, axis: str, label: str) -> _Side:
    """Return a side of a map, sorted if its values are numbers.

    It has no label if the axis does not vary.
    """
    values: list[Any] = list(dict.fromkeys(cell.axes.get(axis) for cell in results.cells if cell.axes))
    ordered = sorted(values) if all(isinstance(value, (int, float)) for value in values) else values
    return _Side(axis, ordered, label if axis in results.axes else "")


def _words(numbers: Sequence[float]) -> str:
    deviation = f" ±{stdev(numbers):.3f}".replace("±0.", "±.") if len(numbers) > 1 else ""
    return f"{fmean(numbers):.3f}{deviation}"
