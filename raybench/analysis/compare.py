"""Two versions of one grid: which configurations have become slower, lost quality, or do not run any more."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from statistics import fmean

from raybench.analysis.analyze import Grid, error_text, is_higher_better
from raybench.analysis.answer import Caution, Difference, Ratio, Unit
from raybench.analysis.changed_values import ChangedValue, changed_values
from raybench.analysis.findings.conditions import others_load
from raybench.analysis.intervals import ALPHA, Estimate, Sample, difference, quantile
from raybench.analysis.machines import effect
from raybench.analysis.matching import Matching
from raybench.analysis.measured import (
    TIME,
    TIME_TO_TARGET,
    Measured,
    Source,
    as_one_grid,
)
from raybench.analysis.ratios import as_ratio, compared, cost_summary, quality_difference
from raybench.analysis.until import Certainty
from raybench.core.cell import BASE, NEW, VERSION_AXIS
from raybench.core.job import Target
from raybench.core.labels import configuration_label
from raybench.core.status import TrialStatus
from raybench.core.text import format_value, plural
from raybench.errors import UsageError, nearest
from raybench.results.grid_request import GridRequest
from raybench.results.run_table import main_metric

FEW_CONFIGURATIONS = 4
"""Up to so many configurations each is tested at 5%; of more, so that 5% of so many false alarms are expected."""

QUALITY_LOSS = 0.01
"""Largest loss of quality that is accepted by default: one point of an accuracy, 1% of any other metric."""

BUSY = ("busy_host", "steal")
"""Findings that other programs made a run take longer, which more repeats do not help against."""

CLEAR_MISSES = 3
"""Runs of each version from which it is no chance (5%) that all of base reached the target, and none of new."""

UNEVEN = 0.05
"""Least difference of the share of the cores that other programs took during the runs of each version."""

UNKNOWN_LOAD = 1.0
"""By how much a run is taken to be too long if other programs used so much that this cannot be estimated."""

BUSY_REASON = "other programs disturbed one version more, which could change the verdict"


class Decision(StrEnum):
    """What to do with the new version."""

    KEEP = "keep"
    DISCARD = "discard"
    UNDECIDED = "undecided"


class Verdict(StrEnum):
    """The conclusion for a configuration."""

    MISSING = "no result in new"
    SLOWER = "slower"
    WORSE = "lower quality"
    WITHIN = "within the limit"
    UNDECIDED = "undecided"

    @property
    def fails(self) -> bool:
        """Whether the new version must not pass."""
        return self in (Verdict.MISSING, Verdict.SLOWER, Verdict.WORSE)


@dataclass(frozen=True)
class Change:
    """A configuration in both versions.

    Attributes:
        base_s, new_s: steady seconds per unit of work or, with a target, seconds to it; None without such a run.
        speed: new relative to base, above 1 if new is faster, and the bounds of its tests; None without times of both.
        quality: the metric of new minus that of base; None if not logged.
        quality_kept: whether non-inferiority within the limit is shown; None if the metric has no limit.
        reason: why it is undecided or missing; empty otherwise.
        more_repeats: about how many further repeats would decide it; None if not known or too many.
        more_s: wall time of these.
    """

    label: str
    base_s: float | None
    new_s: float | None
    speed: Ratio | None
    verdict: Verdict
    quality: Difference | None = None
    quality_kept: bool | None = None
    reason: str = ""
    more_repeats: int | None = None
    more_s: float | None = None


@dataclass(frozen=True)
class Limits:
    """What is accepted of the new version.

    Attributes:
        slowdown: accepted increase of the time, as a fraction.
        metric: the metric that must be kept; empty if only the loss of an accuracy is looked for.
        quality_loss: accepted loss of the metric, a fraction of that of base (of an accuracy: points); by default 1%.
        strict: whether slower needs the whole 95% interval above the limit.
    """

    slowdown: float = 0.05
    metric: str = ""
    quality_loss: float | None = None
    strict: bool = False

    @property
    def needs_quality(self) -> bool:
        """Whether a version is only kept if its quality is shown to be."""
        return bool(self.metric) or self.quality_loss is not None

    def loss(self, metric: str) -> float | None:
        """Return the accepted loss of a metric, as `quality_loss`; None if it has no limit."""
        if not metric or not (self.needs_quality or metric.endswith("/accuracy")):
            return None
        return QUALITY_LOSS if self.quality_loss is None else self.quality_loss


@dataclass(frozen=True)
class Comparison:
    """A comparison of two versions of one grid.

    Attributes:
        unit: of the times, unless these are to the target.
        target: to which times are compared; None if the grid has none, or no run reached it.
        metric: of quality; empty if none was logged.
        higher_is_better: the metric's direction.
        changes: the configurations that base has, in its order.
        only_in_new: labels of configurations that base does not have.
        differences: what changed between the versions besides times and quality.
        same_runs: whether both versions have the same runs.
        cautions: those of the runs of both.
    """

    limits: Limits
    unit: Unit
    target: Target | None
    metric: str
    higher_is_better: bool
    changes: tuple[Change, ...]
    only_in_new: tuple[str, ...] = ()
    differences: tuple[ChangedValue, ...] = ()
    same_runs: bool = False
    cautions: tuple[Caution, ...] = ()

    @property
    def fails(self) -> bool:
        """Whether the new version must not pass: something is slower, of lower quality, missing, or nothing matched."""
        return not self.changes or any(each.verdict.fails for each in self.changes)

    @property
    def decision(self) -> Decision:
        """Whether to keep the new version: only if no configuration fails, and all are decided."""
        if self.same_runs:
            return Decision.KEEP
        undecided = any(each.verdict is Verdict.UNDECIDED for each in self.changes)
        return Decision.DISCARD if self.fails else Decision.UNDECIDED if undecided else Decision.KEEP

    @property
    def more_repeats(self) -> int | None:
        """About how many further repeats would decide it; None if it is decided, or that is not known."""
        if self.decision is not Decision.UNDECIDED:
            return None
        return max((each.more_repeats for each in self.changes if each.more_repeats), default=None)


def as_versions(base: Source, new: Source) -> Source:
    """Return results of two sessions as one grid with the axis `version`."""
    runs, request = as_one_grid(VERSION_AXIS, [(BASE, base), (NEW, new)])
    return runs, replace(request, baseline={VERSION_AXIS: BASE})


def compare(grid: Grid, limits: Limits | None = None) -> Comparison:
    """Compare the versions of a grid with the axis `version`.

    A configuration is slower if the mean of log(new/base) is above the log of the limit and, by a one-sided test at 5%,
    above 0; with `strict` if the whole 95% interval is above the limit. Runs that alternated are compared in pairs.
    With more than 4 configurations the tests are stricter, so that the expected number of false alarms stays the same.
    With a target, times are those to the end of the epoch that reached it.
    A verdict on speed counts only if it is the same without the time that other programs are estimated to have taken
    from one version more than from the other.

    Args:
        grid: with the runs of both versions (`as_versions`).
        limits: what is accepted.

    Raises:
        UsageError: no run has the metric that must be kept.
    """
    limits, request, measured = limits or Limits(), grid.request, grid.measured
    if any(each.completed for each in measured):
        check_logged(limits, {name for each in measured for name in each.qualities})
    # Versions are matched by their axes alone: what a command's epochs contain is known only of completed runs.
    matching = Matching([replace(each, job="") for each in measured], {VERSION_AXIS: BASE})
    news = {base: measured[new] for new, base in matching.sets(VERSION_AXIS, NEW, BASE)}
    both = [(each, news.get(each.index)) for each in measured if _is_base(each.axes)]
    # What neither version can run here decides nothing.
    decisive = [pair for pair in both if not request.cells[pair[0].index].skip or any(s and s.completed for s in pair)]
    axes = [axis for axis in matching.axes if axis != VERSION_AXIS]
    labels = {each.index: configuration_label(each.axes, axes) or request.workload for each in measured}
    judge = _Judge(limits, request, measured)
    changes = tuple(judge.change(*pair, labels[pair[0].index]) for pair in decisive or both)
    matched = [(base, new) for base, new in both if new]
    sides = [[run for each in side for run in each.completed] for side in zip(*matched, strict=True)]
    names = [{(run.trial.partition("-")[2], run.started, run.steady_s) for run in side} for side in sides]
    known = {each.index for pair in both for each in pair if each}
    return Comparison(
        limits=limits,
        unit=grid.unit,
        target=judge.target,
        metric=judge.metric,
        higher_is_better=judge.higher_is_better,
        changes=changes,
        only_in_new=tuple(label for index, label in labels.items() if index not in known),
        differences=tuple(changed_values(*sides)) if sides and all(sides) else (),
        same_runs=any(sides) and names[0] == names[1] and all(each.verdict is not Verdict.MISSING for each in changes),
        cautions=grid.answer().trust.cautions,
    )


def check_logged(limits: Limits, names: Iterable[str]) -> None:
    """Check that the metric that must be kept is among those that runs have logged.

    Raises:
        UsageError: it is not.
    """
    if limits.metric and limits.metric not in names:
        raise UsageError(f"--quality {limits.metric}: no run has logged it; {nearest(limits.metric, sorted(names))}")


def is_decided(new: Measured, base: Measured, request: GridRequest) -> Certainty:
    """Return whether a comparison needs no more repeats, since it has a verdict within the limits of the request."""
    verdict = _Judge(Limits(**request.limits or {}), request, (base, new)).change(base, new).verdict
    return Certainty.FINAL if verdict.fails else Certainty(verdict is not Verdict.UNDECIDED)


def _is_base(axes: Mapping[str, object]) -> bool:
    return format_value(axes.get(VERSION_AXIS)) == BASE


class _Judge:
    """What is tested, at which level."""

    def __init__(self, limits: Limits, request: GridRequest, measured: Iterable[Measured]) -> None:
        logged = dict.fromkeys(name for each in measured for name in each.qualities)
        self._skips = [cell.skip for cell in request.cells]
        self.limits, self.metric = limits, limits.metric or main_metric(logged, request.metric)
        self.higher_is_better = is_higher_better(self.metric, request.target)
        self.target = request.target if any(run.reached for each in measured for run in each.tries) else None
        bases = sum(not cell.skip and _is_base(cell.axes) for cell in request.cells)
        # The level of a one-sided test if the number of repeats is fixed.
        self.alpha = ALPHA * min(1.0, FEW_CONFIGURATIONS / max(1, bases))

    def change(self, base: Measured, new: Measured | None, label: str = "") -> Change:
        """Return a configuration in both versions, with its verdict."""
        # Each configuration has tests of its own: none is chosen.
        base, new = replace(base, candidates={}), replace(new, candidates={}) if new else None
        quantity = TIME_TO_TARGET if self.target else TIME
        times = [each.samples(quantity) if each else () for each in (base, new)]
        base_s, new_s = (summary.value if (summary := cost_summary(own)) else None for own in times)
        timed = "run that reached the target" if self.target else "completed run"
        untimed = f"no time of a {timed} of {'new' if times[0] else 'base'}"
        change = Change(label, base_s, new_s, None, Verdict.UNDECIDED, reason=untimed)
        if missing := self._missing(base, new):
            return replace(change, verdict=Verdict.MISSING, reason=missing)
        if base.untimed or (new and new.untimed):
            return replace(change, reason="its epochs are too short to be timed by when lines of output arrive")
        floor = max(each.rounding(TIME) for each in (base, new) if each)
        if new is None or (found := effect(quantity, [(new, base)], floor)) is None:
            return change
        slowdown = found.mean
        runs = min(map(len, times))
        speed = as_ratio(replace(slowdown, value=-slowdown.value), (len(times[1]), len(times[0])))
        if bounds := self._bounds(slowdown):
            speed = replace(speed, low=math.exp(-bounds[1]), high=math.exp(-bounds[0]))
        quality = quality_difference(new, base, self.metric)
        change = self._by_speed(replace(change, speed=speed, quality=quality, reason=""), slowdown, runs)
        quiet = replace(slowdown, value=slowdown.value - _uneven_load(new, base))
        if self._by_speed(change, quiet, runs).verdict is not change.verdict:
            change = replace(change, verdict=Verdict.UNDECIDED, reason=BUSY_REASON, more_repeats=None)
        change = self._by_quality(change, base, new)
        if change.more_repeats:
            wall = [run.wall or 0.0 for run in (*base.completed, *new.completed)]
            change = replace(change, more_s=change.more_repeats * 2 * sum(wall) / max(1, len(wall)))
        return _by_misses(change, base, new) if change.verdict is Verdict.WITHIN else change

    def _missing(self, base: Measured, new: Measured | None) -> str:
        """Return why the new version has no result, although base has one; empty if it has."""
        if new is None or not new.completed:
            may_follow = new and not self._skips[new.index] and not new.ended
            return _ending(new) if base.completed and not may_follow else ""
        if (metric := self.limits.metric) in base.qualities and metric not in new.qualities:
            return f"no run of new has logged {metric}"
        reached = [[each.reached for each in side.tries] for side in (base, new)]
        is_clear = all(reached[0]) and not any(reached[1]) and min(map(len, reached)) >= CLEAR_MISSES
        return f"none of {plural(len(reached[1]), 'run')} of new reached the target" if is_clear else ""

    def _by_speed(self, change: Change, slowdown: Estimate, runs: int) -> Change:
        """Return a change with the verdict on the mean of log(new/base)."""
        limit = math.log1p(self.limits.slowdown)
        if (bounds := self._bounds(slowdown)) is None:
            return replace(change, reason="one run of a version gives no interval")
        if slowdown.value > limit and bounds[0] > (limit if self.limits.strict else 0.0):
            return replace(change, verdict=Verdict.SLOWER)
        if bounds[1] <= limit:
            return replace(change, verdict=Verdict.WITHIN)
        repeats = slowdown.repeats_until(abs(limit - slowdown.value), runs, _probability(slowdown, self.alpha))
        more = repeats - runs if repeats else None
        return replace(change, reason=f"new may be up to {math.expm1(bounds[1]):.0%} slower", more_repeats=more)

    def _by_quality(self, change: Change, base: Measured, new: Measured) -> Change:
        """Return a change with the verdict on both speed and quality."""
        estimate, limit = compared(new, base, self.metric), self.limits.loss(self.metric)
        unshown = change
        if change.verdict is Verdict.WITHIN and self.limits.needs_quality:
            reason = f"{self.metric or 'the quality'} is not shown to stay within its limit"
            unshown = replace(change, verdict=Verdict.UNDECIDED, reason=reason)
        if estimate is None or estimate.error is None or limit is None:
            return unshown
        if not self.metric.endswith("/accuracy"):
            limit *= abs(fmean(each.value for each in base.qualities[self.metric]))
        loss = -estimate.value if self.higher_is_better else estimate.value
        kept = loss + _margin(estimate, ALPHA) < limit
        if loss > limit and loss > _margin(estimate, self.alpha) and change.verdict is not Verdict.SLOWER:
            return replace(change, verdict=Verdict.WORSE, reason="", more_repeats=None, quality_kept=kept)
        if kept or unshown is change:
            return replace(change, quality_kept=kept)
        logged = min(len(each.qualities[self.metric]) for each in (base, new))
        repeats = estimate.repeats_until(abs(limit - loss), logged, _probability(estimate, self.alpha))
        timed = min(change.speed.runs, change.speed.other_runs) if change.speed else logged
        return replace(unshown, quality_kept=kept, more_repeats=repeats - timed if repeats else None)

    def _bounds(self, slowdown: Estimate) -> tuple[float, float] | None:
        """Return the one-sided bounds by which a configuration is slower, or within the limit; None without any."""
        if (ends := slowdown.interval()) is None:
            return None
        lower = ends[0] if self.limits.strict else slowdown.value - _margin(slowdown, self.alpha)
        return lower, slowdown.value + _margin(slowdown, ALPHA)


def _probability(estimate: Estimate, alpha: float) -> float:
    """Return the level of a one-sided test, which also holds if the number of repeats followed from the runs."""
    return 1 - alpha * estimate.alpha / ALPHA


def _margin(estimate: Estimate, alpha: float) -> float:
    assert estimate.error is not None
    return quantile(estimate.df, _probability(estimate, alpha)) * estimate.error


def _uneven_load(new: Measured, base: Measured) -> float:
    """Return the log of how many times as long other programs made new than base; 0 if they disturbed both alike.

    Load that comes and goes is in the spread of the runs. What one version had more of could be the difference.
    """
    shares: list[list[Sample]] = []
    logs = []
    for side in (new, base):
        loads = [(run, others_load(run)) for run in side.completed]
        shares.append([Sample(run.repeat, sum(f.degree for f in own), run.machine_name) for run, own in loads])
        lost = (UNKNOWN_LOAD if f.too_long is None else f.too_long for _, own in loads for f in own)
        logs.append(sum(map(math.log1p, lost)) / max(1, len(loads)))
    uneven = difference(shares[0], shares[1])
    ends = uneven.interval() if uneven else None
    is_alike = uneven is None or abs(uneven.value) < UNEVEN or (ends is not None and ends[0] <= 0 <= ends[1])
    return 0.0 if is_alike else logs[0] - logs[1]


def _by_misses(change: Change, base: Measured, new: Measured) -> Change:
    """Return a change, undecided if runs of new end without a result more often."""
    (base_misses, base_runs), (misses, runs) = _misses(base), _misses(new)
    if misses * base_runs <= base_misses * runs:
        return change
    what = f"complete ({_ending(new)})" if len(new.completed) < runs else "reach the target"
    return replace(change, verdict=Verdict.UNDECIDED, reason=f"{misses} of {plural(runs, 'run')} of new did not {what}")


def _misses(measured: Measured) -> tuple[int, int]:
    """Return the number of runs that did not complete or reach the target, and that of all."""
    missed = {(each.sample.repeat, each.sample.host) for each in measured.tries if not each.reached}
    ended = measured.ended
    failed = (run.status != TrialStatus.COMPLETED or (run.repeat, run.machine_name) in missed for run in ended)
    return sum(failed), len(ended)


def _ending(new: Measured | None) -> str:
    """Return why a run of a configuration of the new version did not complete."""
    if new is None:
        return "new has no such configuration"
    if (ended := next((run for run in new.attempts if run.status != TrialStatus.COMPLETED), None)) is None:
        return "none of its runs was started"
    return ": ".join(filter(None, (str(ended.status or "unfinished"), error_text(ended))))
