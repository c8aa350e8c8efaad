"""Figures over the job length: time and cost, and the speed-up."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain
from statistics import fmean, median
from typing import TYPE_CHECKING, Any

from raybench.analysis.comparison import PlannedCell, baseline_indices
from raybench.analysis.grid_results import GridResults
from raybench.analysis.statistics.break_even import RunCost, run_costs_of
from raybench.analysis.statistics.speedup import speedup
from raybench.reporting.figures.line_styles import devices, styles_by_label
from raybench.reporting.figures.theme import (
    GREY,
    NoDataError,
    fitted,
    label_points,
    legend,
    log,
    log_where_wide,
    marks,
    new_figure,
)
from raybench.results import timing

if TYPE_CHECKING:
    from matplotlib.figure import Figure

LINES = 6
"""Maximum number of curves that can be distinguished."""


def time_and_cost(results: GridResults) -> Figure:
    """Draw time and cost of a whole run, one mark per cell.

    Lower left is better.

    Raises:
        NoDataError: no device has a price, or no run has completed.
    """
    rows = {row.cell_id: row for row in results.rows}
    points = []
    for cell in results.cells:
        totals = [seconds for run in results.completed(cell) if (seconds := timing.total(run)) is not None]
        price = rows[cell.cell_id].total_price
        if totals and price is not None:
            points.append((cell, median(totals), price))
    if not any(cell.price_per_hour is not None for cell in results.cells):
        raise NoDataError("no device of the grid has a price_per_hour")
    if not points:
        raise NoDataError("no run on a device with a price has completed")
    figure, (panel, *_) = new_figure(3.3)
    device_names = devices(results)
    for device, (colour, marker, _) in zip(device_names, marks(len(device_names)), strict=True):
        device_points = [(x, y) for cell, x, y in points if str(cell.axes.get("device")) == device]
        if device_points:
            panel.plot(
                *zip(*device_points, strict=True), marker, color=colour, label=device, markersize=6, mfc="none", mew=1.2
            )
    log_where_wide(panel, [x for _, x, _ in points])
    prices = [price for *_, price in points]
    if min(prices) > 0:
        log_where_wide(panel, prices, "y")
    else:
        # A linear scale, because a logarithmic one cannot show a price of 0.
        panel.set_ylim(0, 1.08 * max(prices) or 1.0)
    fastest_first = sorted(points, key=lambda point: point[1])
    panel.set_xlabel("a whole run, s (loading the framework included)", loc="right")
    panel.set_ylabel("price of a run (unit of price_per_hour)")
    if len(panel.lines) > 1:
        legend(figure, *panel.get_legend_handles_labels())
    label_points(figure, panel, [(fitted(results.label(cell), 24), x, y) for cell, x, y in fastest_first])
    return figure


@dataclass(frozen=True)
class _Side:
    """The completed runs of a cell, and optimizer steps per epoch."""

    processes: Sequence[RunCost]
    steps: int

    def seconds(self, epochs: float) -> list[float]:
        """Return the seconds of a job with this many epochs, per process."""
        return [process.seconds(epochs * self.steps) for process in self.processes]

    @property
    def steady(self) -> float:
        """Seconds per epoch in the long run."""
        return fmean(process.steady for process in self.processes) * self.steps

    @property
    def settled(self) -> float:
        """The one-time cost in units of epochs."""
        return fmean(process.once for process in self.processes) / self.steady


def crossover(results: GridResults) -> Figure:
    """Draw speed-ups by job length, with the 95% interval as a band.

    The one-time cost matters less in longer jobs. With many cells, the fastest of each device is shown.

    Raises:
        NoDataError: nothing is compared, or no run has completed.
    """
    pairs = _pairs(results)
    if not pairs:
        raise NoDataError("no cell has a baseline to be compared with")
    figure, (panel, *_) = new_figure(3.2)
    longest = max(100.0, 30 * max(side.settled for _, *sides in pairs for side in sides))
    lengths = [longest ** (place / 60) for place in range(61)]
    panel.axhline(1, color=GREY, linewidth=0.8, linestyle=(0, (4, 3)), zorder=0)
    heights = [1.0]
    curves = [[speedup(base.seconds(n), other.seconds(n)) for n in lengths] for _, base, other in pairs]
    ratios = [[each.ratio for each in speedups if each] for speedups in curves]
    ratio_values = [1.0, *chain(*ratios)]
    # Limit of the axis for intervals: with two very different runs they are uninformative.
    room = max(1.15, (max(ratio_values) / min(ratio_values)) ** 0.5)
    page = (min(ratio_values) / room, max(ratio_values) * room)
    heights = list(ratio_values)
    for (cell, *_), look, speedups, curve_ratios in zip(
        pairs, styles_by_label(results, [cell for cell, *_ in pairs]), curves, ratios, strict=True
    ):
        colour, marker, dash = look
        style: dict[str, Any] = {"color": colour, "linestyle": dash}
        marker_style: dict[str, Any] = {"marker": marker, "markevery": 15, "markersize": 4, "linewidth": 1.3}
        panel.plot(lengths, curve_ratios, label=results.label(cell), **style, **marker_style)
        ends = [(each.low, each.high) for each in speedups if each and each.low is not None and each.high is not None]
        if len(ends) == len(lengths) and (page[0] < ends[-1][0] or ends[-1][1] < page[1]):
            low, high = zip(*ends, strict=True)
            panel.fill_between(lengths, low, high, color=colour, alpha=0.1, linewidth=0)
            for edge in (low, high):
                panel.plot(lengths, edge, linewidth=0.5, **style)
            heights += [end for end in (*low, *high) if page[0] < end < page[1]]
    log(panel, 1, longest)
    if not log_where_wide(panel, heights, "y"):
        room = 0.1 * ((max(heights) - min(heights)) or 1.0)
        panel.set_ylim(max(0.0, min(heights) - room), max(heights) + room)
    panel.set_xlabel("length of the job, epochs", loc="right")
    panel.set_ylabel("speed-up")
    legend(figure, *panel.get_legend_handles_labels(), handlelength=3.2)
    return figure


def _pairs(results: GridResults) -> Sequence[tuple[PlannedCell, _Side, _Side]]:
    """Return cells with their baseline's runs and their own.

    These are all compared cells or, if many, the fastest of each device.
    """
    pairs: list[tuple[PlannedCell, _Side, _Side]] = []
    baselines: dict[int, _Side | None] = {}
    for number, origin in enumerate(baseline_indices(results.cells, results.compared_with)):
        cell = results.cells[number]
        if origin is None or origin == number or cell.aa_of:
            continue
        if origin not in baselines:
            baselines[origin] = _side(results, results.cells[origin])
        base = baselines[origin]
        if base and (own_side := _side(results, cell)):
            pairs.append((cell, base, own_side))
    if len(pairs) <= LINES:
        return pairs
    best: dict[str, tuple[PlannedCell, _Side, _Side]] = {}
    for pair in sorted(pairs, key=lambda pair: pair[2].steady):
        best.setdefault(str(pair[0].axes.get("device")), pair)
    return list(best.values())[:LINES]


def _side(results: GridResults, cell: PlannedCell) -> _Side | None:
    processes = run_costs_of(results.completed(cell))
    steps = results.steps(cell)
    return _Side(processes, steps) if processes and steps else None
