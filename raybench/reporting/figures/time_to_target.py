"""Figure of the fraction of runs that reached the target over time."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from raybench.analysis.comparison import PlannedCell
from raybench.analysis.grid_results import GridResults
from raybench.analysis.statistics.time_to_target import NEVER, TargetAttempt, expected, kaplan_meier, target_attempt_of
from raybench.reporting.figures.line_styles import styles_by_label
from raybench.reporting.figures.theme import NoDataError, fitted, legend, log_where_wide, new_figure
from raybench.reporting.sentences import render_phrase

if TYPE_CHECKING:
    from matplotlib.figure import Figure

LINES = 6
"""Maximum number of curves that can be distinguished."""

TOLD = 3
"""Maximum number of cells without a success named above the panel."""

Tried = tuple[PlannedCell, list[TargetAttempt]]


def survival_curves(results: GridResults) -> Figure:
    """Draw Kaplan-Meier curves of reaching the target over training time.

    Each curve has a step per run; a tick is a run that ended without reaching the target. With many cells, the best of
    each device is shown.

    Raises:
        NoDataError: the grid has no target, or no run has reached it.
    """
    target = results.target
    if target is None:
        raise NoDataError("the grid has no target")
    cell_tries = [
        (cell, [run_try for run in results.runs(cell) if (run_try := target_attempt_of(run, target))])
        for cell in results.cells
        if not cell.aa_of
    ]
    shown_tries = [each for each in cell_tries if any(one.reached for one in each[1])]
    if not shown_tries:
        raise NoDataError(f"no run has reached {render_phrase('goal', target)}")
    shown_tries = shown_tries if len(shown_tries) <= LINES else _best(results, shown_tries)
    figure, (panel, *_) = new_figure(3.3)
    longest_s = max(one.seconds for _, tries in shown_tries for one in tries)
    for (cell, tries), (colour, marker, dash) in zip(
        shown_tries, styles_by_label(results, [cell for cell, _ in shown_tries]), strict=True
    ):
        steps = kaplan_meier(tries)
        end = max(one.seconds for one in tries)
        xs = [0.0, *(step.seconds for step in steps), end]
        ys = [0.0, *(100 * step.share for step in steps)]
        style: dict[str, Any] = {"color": colour, "linestyle": dash}
        label = results.label(cell) or results.workload
        marker_style: dict[str, Any] = {
            "marker": marker,
            "markersize": 3.5,
            "markevery": slice(1, len(ys)),
            "linewidth": 1.2,
        }
        panel.step(xs, [*ys, ys[-1]], where="post", label=label, **marker_style, **style)
        edges = [[0.0, *(100 * getattr(step, which) for step in steps)] for which in ("low", "high")]
        low, high = ([*edge, edge[-1]] for edge in edges)
        panel.fill_between(xs, low, high, step="post", color=colour, alpha=0.12, linewidth=0)
        miss_seconds = [one.seconds for one in tries if not one.reached]
        panel.plot(miss_seconds, [_at(xs, ys, seconds) for seconds in miss_seconds], "|", color=colour, markersize=8)
    first_s = min(step.seconds for _, tries in shown_tries for step in kaplan_meier(tries))
    if longest_s / first_s >= WIDE:
        log_where_wide(panel, [first_s, longest_s])
    else:
        panel.set_xlim(0, 1.05 * longest_s)
    panel.set_ylim(0, 103)
    panel.set_xlabel("training time, s", loc="right")
    panel.set_ylabel(f"share of runs at {render_phrase('goal', target)}, %")
    panel.set_title("\n".join(_never(results, cell_tries)), loc="left", fontsize=8)
    legend(figure, *panel.get_legend_handles_labels(), handlelength=3.2)
    return figure


WIDE = 6.0
"""Ratio of times from which on the scale is logarithmic."""


def _at(xs: Sequence[float], ys: Sequence[float], seconds: float) -> float:
    """Return the value of a step function at a time."""
    return max((y for x, y in zip(xs, ys, strict=False) if x <= seconds), default=0.0)


def _best(results: GridResults, shown_tries: Sequence[Tried]) -> list[Tried]:
    """Return each device's cell with the shortest expected time to target."""
    best: dict[str, tuple[float, Tried]] = {}
    for cell, tries in shown_tries:
        estimate = expected(tries)
        place = results.places[cell.cell_id]
        if estimate and estimate.seconds is not None and (place not in best or estimate.seconds < best[place][0]):
            best[place] = (estimate.seconds, (cell, tries))
    return [cell_tries for _, cell_tries in best.values()][:LINES]


def _never(results: GridResults, cell_tries: Sequence[Tried]) -> list[str]:
    """Return one line of text per cell that never reached the target."""
    lines = [
        f"{fitted(results.label(cell), 20)}: 0 of {len(tries)}"
        + (", which ran out of memory or diverged" if all(one.ending == NEVER for one in tries) else "")
        for cell, tries in cell_tries
        if tries and not any(one.reached for one in tries)
    ]
    return [*lines[:TOLD], *([f"and {len(lines) - TOLD} more without a success"] if len(lines) > TOLD else [])]
