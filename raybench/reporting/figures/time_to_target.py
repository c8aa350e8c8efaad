"""The share of runs that have reached the target by when."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from raybench.analysis.comparison import PlannedCell
from raybench.analysis.grid_results import GridResults
from raybench.analysis.statistics.time_to_target import NEVER, TargetAttempt, expected, kaplan_meier, target_attempt_of
from raybench.reporting.figures.line_styles import styles_by_label
from raybench.reporting.figures.style import NoDataError, fitted, legend, log_where_wide, new_figure
from raybench.reporting.text import render_phrase

if TYPE_CHECKING:
    from matplotlib.figure import Figure

LINES = 6
"""Curves that can be told apart."""

TOLD = 3
"""Cells without a success that are named above the panel."""

Tried = tuple[PlannedCell, list[TargetAttempt]]


def survival_curves(standing: GridResults) -> Figure:
    """The share of runs that have reached the target after so much training: Kaplan and Meier's estimate, a step a run.

    A tick on the line is a run that ended without it. Where there are many cells, the best of each device is shown.

    Raises:
        NothingToShowError: the grid has no target, or no run has reached it.
    """
    wanted = standing.target
    if wanted is None:
        raise NoDataError("the grid has no target")
    tried = [
        (cell, [found for run in standing.runs(cell) if (found := target_attempt_of(run, wanted))])
        for cell in standing.cells
        if not cell.aa_of
    ]
    shown = [each for each in tried if any(one.reached for one in each[1])]
    if not shown:
        raise NoDataError(f"no run has reached {render_phrase('goal', wanted)}")
    shown = shown if len(shown) <= LINES else _best(standing, shown)
    figure, (panel, *_) = new_figure(3.3)
    last = max(one.seconds for _, tries in shown for one in tries)
    for (cell, tries), (colour, marker, dash) in zip(
        shown, styles_by_label(standing, [cell for cell, _ in shown]), strict=True
    ):
        steps = kaplan_meier(tries)
        end = max(one.seconds for one in tries)
        xs = [0.0, *(step.seconds for step in steps), end]
        ys = [0.0, *(100 * step.share for step in steps)]
        style: dict[str, Any] = {"color": colour, "linestyle": dash}
        label = standing.label(cell) or standing.workload
        marked: dict[str, Any] = {"marker": marker, "markersize": 3.5, "markevery": slice(1, len(ys)), "linewidth": 1.2}
        panel.step(xs, [*ys, ys[-1]], where="post", label=label, **marked, **style)
        edges = [[0.0, *(100 * getattr(step, which) for step in steps)] for which in ("low", "high")]
        low, high = ([*edge, edge[-1]] for edge in edges)
        panel.fill_between(xs, low, high, step="post", color=colour, alpha=0.12, linewidth=0)
        ended = [one.seconds for one in tries if not one.reached]
        panel.plot(ended, [_at(xs, ys, seconds) for seconds in ended], "|", color=colour, markersize=8)
    first = min(step.seconds for _, tries in shown for step in kaplan_meier(tries))
    if last / first >= WIDE:
        log_where_wide(panel, [first, last])
    else:
        panel.set_xlim(0, 1.05 * last)
    panel.set_ylim(0, 103)
    panel.set_xlabel("training time, s", loc="right")
    panel.set_ylabel(f"share of runs at {render_phrase('goal', wanted)}, %")
    panel.set_title("\n".join(_never(standing, tried)), loc="left", fontsize=8)
    legend(figure, *panel.get_legend_handles_labels(), handlelength=3.2)
    return figure


WIDE = 6.0
"""Times this far apart stand on a logarithmic scale."""


def _at(xs: Sequence[float], ys: Sequence[float], seconds: float) -> float:
    """The height of the steps at a moment."""
    return max((y for x, y in zip(xs, ys, strict=False) if x <= seconds), default=0.0)


def _best(standing: GridResults, shown: Sequence[Tried]) -> list[Tried]:
    """The cell of each device that is expected there first."""
    best: dict[str, tuple[float, Tried]] = {}
    for cell, tries in shown:
        found = expected(tries)
        place = standing.places[cell.cell_id]
        if found and found.seconds is not None and (place not in best or found.seconds < best[place][0]):
            best[place] = (found.seconds, (cell, tries))
    return [tried for _, tried in best.values()][:LINES]


def _never(standing: GridResults, tried: Sequence[Tried]) -> list[str]:
    """Cells of which no run got there, a line each."""
    told = [
        f"{fitted(standing.label(cell), 20)}: 0 of {len(tries)}"
        + (", which ran out of memory or diverged" if all(one.ending == NEVER for one in tries) else "")
        for cell, tries in tried
        if tries and not any(one.reached for one in tries)
    ]
    return [*told[:TOLD], *([f"and {len(told) - TOLD} more without a success"] if len(told) > TOLD else [])]
