"""Figures with one line or bar per cell: times, speed-ups, time breakdown."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import TYPE_CHECKING, Any

from raybench.analysis.comparison import PlannedCell
from raybench.analysis.grid_results import GridResults
from raybench.analysis.statistics import intervals
from raybench.reporting.figures.theme import GREY, NoDataError, fitted, legend, log_where_wide, marks, new_figure
from raybench.reporting.sentences import digits, render_phrase
from raybench.results import timing

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

MOST = 80
"""Maximum number of cells; a figure with more lines is unreadable."""

LINE = 0.23
"""Height of a line in inches."""

SECTIONS = (
    "train",
    "input_wait",
    "evaluate",
    "compile",
    "compile_evaluate",
    "data",
    "setup",
    "build",
    "checkpoint",
    "other",
)
"""Sections of the ledger, in stacking order."""

_LOOKS: tuple[tuple[str, str], ...] = (
    ("#4d4d4d", ""),
    ("#ffffff", "xxxx"),
    ("#bdbdbd", ""),
    ("#ffffff", "////"),
    ("#ffffff", "...."),
    ("#e8e8e8", "||||"),
    ("#969696", "\\\\\\\\"),
    ("#ffffff", "----"),
    ("#d9d9d9", "++++"),
    ("#ffffff", ""),
)
"""Grey level and hatch of each section."""


@dataclass(frozen=True)
class _Line:
    """A line of a figure: runs, estimate with interval, and failed runs.

    There is one number per run.
    """

    name: str
    runs: Sequence[float]
    value: float | None
    low: float | None
    high: float | None
    trouble: str


def times(results: GridResults) -> Figure:
    """Draw steady seconds per epoch of each cell.

    Every run is a ring, and the geometric mean has its 95% interval.

    Raises:
        NoDataError: no run has completed, or there are too many cells.
    """
    lines = []
    for cell in _few(results):
        run_seconds = [seconds for run in results.completed(cell) if (seconds := timing.steady(run))]
        troubles = render_phrase("run_troubles", results.counts(cell))
        lines.append(_Line(results.label(cell), run_seconds, *intervals.geometric_mean_ci(run_seconds), troubles))
    if not any(line.runs for line in lines):
        raise NoDataError("no run has completed")
    figure = _intervals(lines)
    figure.axes[0].set_xlabel("seconds per epoch (lower is faster)", loc="right")
    return figure


def speedups(results: GridResults) -> Figure:
    """Draw each cell's speed-up over its baseline, with its 95% interval.

    Raises:
        NoDataError: nothing is compared, or there are too many cells.
    """
    rows = {row.cell_id: row for row in results.rows}
    lines = []
    for cell in _few(results):
        row = rows[cell.cell_id]
        if row.is_baseline:
            continue
        speedup = row.speedup
        value, low, high = (speedup.ratio, speedup.low, speedup.high) if speedup else (None, None, None)
        lines.append(
            _Line(results.label(cell), [], value, low, high, render_phrase("run_troubles", results.counts(cell)))
        )
    if not any(line.value for line in lines):
        raise NoDataError("no cell has a baseline to be compared with")
    figure = _intervals(lines, around=1.0)
    panel = figure.axes[0]
    panel.axvline(1, color=GREY, linewidth=0.8, linestyle=(0, (4, 3)), zorder=0)
    panel.set_xlabel("speed-up over the baseline", loc="right")
    return figure


def ledger(results: GridResults) -> Figure:
    """Draw the fraction of wall time per section of each cell's processes.

    Fractions are means over runs.

    Raises:
        NoDataError: no run has recorded its sections, or there are too many cells.
    """
    cells = _few(results)
    ledgers = [[run.ledger for run in results.completed(cell) if run.ledger and run.wall] for cell in cells]
    if not any(ledgers):
        raise NoDataError("no run has completed")
    seconds = [
        [fmean([run_ledger.get(name, 0.0) for run_ledger in entry] or [0.0]) for name in SECTIONS] for entry in ledgers
    ]
    totals = [sum(entry) for entry in seconds]
    figure, (panel, *_) = new_figure(LINE * len(cells) + 1.25)
    offsets = [0.0] * len(cells)
    for name, (colour, hatch), times in zip(SECTIONS, _LOOKS, zip(*seconds, strict=True), strict=True):
        shares = [100 * entry / total if total else 0.0 for entry, total in zip(times, totals, strict=True)]
        if max(shares) < 0.05:
            continue
        style: dict[str, Any] = {
            "height": 0.72,
            "color": colour,
            "hatch": hatch,
            "edgecolor": "black",
            "linewidth": 0.5,
        }
        panel.barh(range(len(cells)), shares, left=offsets, label=name, **style)
        offsets = [offset + share for offset, share in zip(offsets, shares, strict=True)]
    for place, (cell, total) in enumerate(zip(cells, totals, strict=True)):
        if total:
            panel.text(101, place, f"{digits(total)} s", va="center", fontsize=8.5)
        else:
            panel.text(
                1,
                place,
                render_phrase("run_troubles", results.counts(cell)),
                va="center",
                fontsize=8.5,
                style="italic",
            )
    _names(panel, [results.label(cell) for cell in cells])
    panel.set_xlim(0, 100)
    panel.set_xlabel("share of a run's wall time, % (right: all of it)", loc="right")
    legend(figure, *panel.get_legend_handles_labels(), handlelength=1.6, columnspacing=1.2)
    return figure


def _few(results: GridResults) -> Sequence[PlannedCell]:
    if len(results.cells) > MOST:
        raise NoDataError(f"{len(results.cells)} cells are more than a figure can show ({MOST})")
    return results.cells


def _intervals(lines: Sequence[_Line], around: float | None = None) -> Figure:
    """Draw lines from top to bottom with runs, estimates and intervals.

    An arrow marks an interval that exceeds the axis.
    """
    figure, (panel, *_) = new_figure(LINE * len(lines) + 0.75)
    values = [value for line in lines for value in (*line.runs, line.value, around) if value]
    # With two very different runs the interval is uninformative: it may at most triple the range of the axis.
    spread = max(values) / min(values)
    margin = max(1.15, spread**0.5)
    limits = (min(values) / margin, max(values) * margin)
    ends = [end for line in lines for end in (line.low, line.high) if end and limits[0] < end < limits[1]]
    is_log = log_where_wide(panel, [*values, *ends], times=6.0)
    if not is_log:
        low, high = min([*values, *ends]), max([*values, *ends])
        span = (high - low) or high
        panel.set_xlim(max(0.0, low - 0.12 * span) if low > 0.35 * high else 0.0, high + 0.12 * span)
    low, high = panel.get_xlim()
    (_, marker, _), *_ = marks(1)
    for place, line in enumerate(lines):
        if line.low is not None and line.high is not None:
            panel.plot([max(line.low, low), min(line.high, high)], [place, place], color="black", linewidth=1.4)
            for end, beyond, mark in ((low, line.low < low, 4), (high, line.high > high, 5)):
                if beyond:
                    panel.plot([end], [place], marker=mark, color="black", markersize=6, clip_on=False)
        panel.plot(line.runs, [place] * len(line.runs), "o", color=GREY, markersize=5, mfc="none", markeredgewidth=0.8)
        if line.value is not None:
            panel.plot([line.value], [place], marker, color="black", markersize=4.5)
        if line.trouble:
            # Put the text into free space: at the left if the number lies in the right half.
            at_left = line.value is None or panel.transData.transform((line.value, 0))[0] > _middle(panel)
            x = 0.02 if at_left else 1.0
            panel.text(
                x,
                place,
                line.trouble,
                transform=panel.get_yaxis_transform(),
                va="center",
                ha="left" if at_left else "right",
                style="italic",
                fontsize=8.5,
                bbox={"facecolor": "white", "edgecolor": "none", "pad": 0.8, "alpha": 0.75},
            )
    _names(panel, [line.name for line in lines])
    return figure


def _middle(panel: Axes) -> float:
    return float(panel.transAxes.transform((0.5, 0))[0])


def _names(panel: Axes, names: Sequence[str]) -> None:
    """Draw names at the left, from top to bottom, with guide lines."""
    panel.set_yticks(range(len(names)), list(map(fitted, names)))
    panel.set_ylim(len(names) - 0.4, -0.6)
    panel.tick_params(axis="y", length=0)
    panel.grid(axis="y", linewidth=0.3, color="#cccccc")
    panel.set_axisbelow(True)
