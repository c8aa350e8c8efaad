"""Two versions of one grid: which configurations have become slower, lost quality, or do not run any more."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from raybench.analysis.analyze import Grid
from raybench.analysis.answer import Caution
from raybench.analysis.changed_values import changed_values
from raybench.analysis.judge import Judge
from raybench.analysis.matching import Matching
from raybench.analysis.measured import Measured, Source, as_one_grid
from raybench.analysis.until import Certainty, Look
from raybench.analysis.versions import Change, Comparison, Limits, Verdict, direction_options, version_of
from raybench.core.cell import ANCHOR, BASE, NEW, VERSION_AXIS
from raybench.core.labels import configuration_label
from raybench.errors import UsageError, nearest
from raybench.results.grid_request import GridRequest
from raybench.results.run_table import Run


def as_versions(base: Source, new: Source, anchor: Source | None = None) -> Source:
    """Return results of two sessions, and of the first of a chain, as one grid with the axis `version`.

    What is asked of both, such as the target, is what was asked of base.
    """
    sources = [(BASE, base), *([(ANCHOR, anchor)] if anchor else []), (NEW, new)]
    runs, request = as_one_grid(VERSION_AXIS, sources)
    asked = {name: getattr(base[1], name) for name in ("target", "budget", "metric", "unit", "higher_is_better")}
    return runs, replace(request, baseline={VERSION_AXIS: BASE}, **asked)


def compare(
    grid: Grid, limits: Limits | None = None, is_complete: bool = False, warnings: Iterable[str] = ()
) -> Comparison:
    """Compare the versions of a grid with the axis `version`: new with base and, if there is one, with the anchor.

    A configuration is slower if the mean of log(new/base) is above the log of the limit and, by a one-sided test at 5%,
    above 0; with `strict` if the whole 95% interval is above the limit. Runs that alternated are compared in pairs.
    With more than 4 configurations the tests are stricter, so that the expected number of false alarms stays the same.
    With a target, times are those to the end of the epoch that reached it. Whole runs have the same test.
    A verdict on speed counts only if it is the same without the time that other programs are estimated to have taken
    from one version more than from the other.

    Args:
        grid: with the runs of all versions (`as_versions`).
        limits: what is accepted.
        is_complete: whether no more runs follow, so that a configuration without any has no result.
        warnings: what may be wrong with the results.

    Raises:
        UsageError: no run has a metric that must be kept, or it is not known whether more of it is better.
    """
    limits, request, measured = limits or Limits(), grid.request, grid.measured
    cells = request.cells
    if any(cell.completed for cell in measured):
        check_logged(limits, request, {name for cell in measured for name in cell.qualities})
    # Versions are matched by their axes alone: what a command's epochs contain is known only of completed runs.
    matching = Matching([replace(cell, job="") for cell in measured], {VERSION_AXIS: BASE})
    axes = [axis for axis in matching.axes if axis != VERSION_AXIS]
    labels = {cell.index: configuration_label(cell.axes, axes) or request.workload for cell in measured}
    judge = Judge(limits, request, measured, is_complete)
    changes: list[Change] = []
    sides: list[list[Run]] = []
    matched_indices: set[int] = set()
    for version in (BASE, ANCHOR):
        news = {base: measured[new] for new, base in matching.sets(VERSION_AXIS, NEW, version)}
        both = [(cell, news.get(cell.index)) for cell in measured if version_of(cell.axes) == version]
        # What neither version can run here decides nothing.
        decisive = [(b, n) for b, n in both if not cells[b.index].skip or b.completed or (n and n.completed)]
        for base, new in decisive or both:
            since = f"{labels[base.index]}, since the anchor" if version == ANCHOR else labels[base.index]
            changes.append(replace(judge.change(base, new, since), against=version))
        matched_indices |= {side.index for pair in both for side in pair if side}
        if version == BASE:
            matched = [(base, new) for base, new in both if new]
            sides = [[run for cell in side for run in cell.completed] for side in zip(*matched, strict=True)]
    return Comparison(
        limits=replace(limits, slowdown_total=judge.slowdown_total),
        unit=grid.unit,
        target=judge.target,
        metrics=judge.metrics,
        changes=tuple(changes),
        only_in_new=tuple(label for index, label in labels.items() if index not in matched_indices),
        differences=tuple(changed_values(*sides)) if sides and all(sides) else (),
        cautions=(*(Caution("warning", text) for text in warnings), *grid.answer().trust.cautions),
    )


def check_logged(limits: Limits, request: GridRequest, names: Iterable[str]) -> None:
    """Check that runs have logged the metrics that must be kept, and that it is known which of their values are better.

    Raises:
        UsageError: one is not, or that is not known.
    """
    logged = sorted(names)
    for metric in limits.quality:
        if metric not in logged:
            raise UsageError(f"--quality {metric}: no run has logged it; {nearest(metric, logged)}")
        if request.direction(metric).is_higher is None:
            raise UsageError(f"--quality {metric}: is less or more of it better? Say {direction_options(metric)}")


def is_decided(new: Measured, base: Measured, request: GridRequest) -> Look:
    """Return whether a comparison needs no more repeats, since it has a verdict within the limits of the request."""
    judge = Judge(Limits(**request.limits or {}), request, (base, new))
    verdict = judge.change(base, new).verdict
    certainty = Certainty.FINAL if verdict.fails else Certainty(verdict is not Verdict.UNDECIDED)
    return Look(certainty, judge.most_repeats(base, new))
