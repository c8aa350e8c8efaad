"""Figures over the length of a job: what it takes and costs, and from which length on a speed-up holds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median
from typing import TYPE_CHECKING

from raybench.analysis import rules
from raybench.analysis.comparison import PlannedCell
from raybench.analysis.figures.style import (
    GREY,
    NothingToShowError,
    label_points,
    legend,
    log,
    log_where_wide,
    marks,
    new,
)
from raybench.analysis.standing import Standing

if TYPE_CHECKING:
    from matplotlib.figure import Figure

LINES = 6
"""Curves that can be told apart."""


def time_and_cost(standing: Standing) -> Figure:
    """What a whole run takes and what it costs, a mark for each cell: left and down is better.

    Raises:
        NothingToShowError: no device has a price, or no run has completed.
    """
    rows = {row.cell_id: row for row in standing.rows}
    points = []
    for cell in standing.cells:
        totals = [seconds for run in standing.completed(cell) if (seconds := rules.total(run)) is not None]
        price = rows[cell.cell_id].total_price
        if totals and price is not None:
            points.append((cell, median(totals), price))
    if not any(cell.price_per_hour is not None for cell in standing.cells):
        raise NothingToShowError("no device of the grid has a price_per_hour")
    if not points:
        raise NothingToShowError("no run on a device with a price has completed")
    figure, (panel, *_) = new(3.3)
    devices = list(dict.fromkeys(str(cell.axes.get("device")) for cell, *_ in points))
    for device, (colour, marker, _) in zip(devices, marks(len(devices)), strict=True):
        mine = [(x, y) for cell, x, y in points if str(cell.axes.get("device")) == device]
        panel.plot(*zip(*mine, strict=True), marker, color=colour, label=device, markersize=6, mfc="none", mew=1.2)
    log_where_wide(panel, [x for _, x, _ in points])
    log_where_wide(panel, [y for *_, y in points], "y")
    fastest_first = sorted(points, key=lambda point: point[1])
    label_points(panel, [(standing.label(cell), x, y) for cell, x, y in fastest_first])
    panel.set_xlabel("a whole run, s (loading the framework included)")
    panel.set_ylabel("price of a run")
    if len(devices) > 1:
        legend(figure, *panel.get_legend_handles_labels())
    return figure


@dataclass(frozen=True)
class Length:
    """What a cell takes: seconds once, and for each further epoch."""

    once: float
    epoch: float

    def seconds(self, epochs: float) -> float:
        """A job of so many epochs."""
        return self.once + epochs * self.epoch


def length(standing: Standing, cell: PlannedCell) -> Length | None:
    """Medians over a cell's completed runs of what is paid once (all but training and evaluation) and each epoch."""
    once, each = [], []
    for run in standing.completed(cell):
        steady, total = rules.steady(run), rules.total(run)
        if steady and total is not None:
            often = sum(run.ledger.get(name, 0.0) for name in ("train", "input_wait", "evaluate", "checkpoint"))
            once.append(max(0.0, total - often))
            each.append(steady)
    return Length(median(once), median(each)) if each else None


def crossover(standing: Standing) -> Figure:
    """Times as fast as the baseline, by the length of the job: what is paid once weighs less in a longer one.

    Where there are many cells, the fastest of each device is shown.

    Raises:
        NothingToShowError: nothing is compared, or no run has completed.
    """
    pairs = _pairs(standing)
    if not pairs:
        raise NothingToShowError("no cell has a baseline to be compared with")
    figure, (panel, *_) = new(3.2)
    spans = [mine.once / mine.epoch for _, *both in pairs for mine in both]
    longest = max(100.0, 30 * max(spans))
    steps = [longest ** (place / 120) for place in range(121)]
    panel.axhline(1, color=GREY, linewidth=0.8, linestyle=(0, (4, 3)), zorder=0)
    every = [1.0]
    for (cell, base, other), (colour, marker, dash) in zip(pairs, marks(len(pairs)), strict=True):
        ratios = [base.seconds(n) / other.seconds(n) for n in steps]
        every += ratios
        panel.plot(
            steps, ratios, color=colour, linestyle=dash, marker=marker, markevery=30, markersize=4, linewidth=1.3,
            label=standing.label(cell),
        )  # fmt: skip
    log(panel, 1, longest)
    if not log_where_wide(panel, every, "y"):
        room = 0.1 * ((max(every) - min(every)) or 1.0)
        panel.set_ylim(max(0.0, min(every) - room), max(every) + room)
    panel.set_xlabel("length of the job, epochs")
    panel.set_ylabel("times as fast (×)")
    legend(figure, *panel.get_legend_handles_labels(), handlelength=3.2)
    return figure


def _pairs(standing: Standing) -> Sequence[tuple[PlannedCell, Length, Length]]:
    """Cells to compare, each with its baseline's length and its own: all, or the fastest of each device."""
    from raybench.analysis.comparison import origins

    lengths = [length(standing, cell) for cell in standing.cells]
    found: list[tuple[PlannedCell, Length, Length]] = []
    for number, origin in enumerate(origins(standing.cells, standing.baseline)):
        cell, mine = standing.cells[number], lengths[number]
        base = lengths[origin] if origin is not None and origin != number else None
        if mine and base and not cell.again:
            found.append((cell, base, mine))
    if len(found) <= LINES:
        return found
    best: dict[str, tuple[PlannedCell, Length, Length]] = {}
    for pair in sorted(found, key=lambda pair: pair[2].epoch):
        best.setdefault(str(pair[0].axes.get("device")), pair)
    return list(best.values())[:LINES]
