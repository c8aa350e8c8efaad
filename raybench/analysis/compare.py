"""Two versions of one grid: which configurations have become slower, lost quality, or do not run any more."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, fields, replace
from enum import StrEnum
from itertools import chain
from statistics import fmean, median, variance
from typing import Any, Self

import msgspec

from raybench.analysis.analyze import Grid, error_text
from raybench.analysis.answer import Caution, Difference, Ratio, Unit
from raybench.analysis.changed_values import ChangedValue, changed_values
from raybench.analysis.findings.conditions import others_load, slow_runs
from raybench.analysis.intervals import ALPHA, LEAST_PAIRED, Estimate, Sample, difference, quantile
from raybench.analysis.machines import effect
from raybench.analysis.matching import Matching
from raybench.analysis.measured import (
    SAME_WORK,
    TIME,
    TIME_TO_TARGET,
    Measured,
    Source,
    as_one_grid,
    clock_of,
)
from raybench.analysis.ratios import as_ratio, compared, cost_summary, quality_difference
from raybench.analysis.until import Certainty, Look, look_level
from raybench.core.cell import ANCHOR, BASE, NEW, VERSION_AXIS
from raybench.core.job import Target
from raybench.core.labels import configuration_label
from raybench.core.ledger import training_s
from raybench.core.repeats import FEW_REPEATS, percent
from raybench.core.status import TrialStatus
from raybench.core.text import format_value, join_words, plural
from raybench.errors import UsageError, nearest
from raybench.results.grid_request import GridRequest
from raybench.results.run_table import DISTINCT, Run, main_metric, price_of, quality_metrics

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

SAME_RUNS = "both name the same runs, so nothing was compared"

_SAME_JOB = {
    "hardware": ("device.kind", "device.model", "device.count", "device.threads", "device.devices", "device.nodes"),
    "data set": ("data.name", "data.digest"),
}
"""Fields of a cell that are no change of a version; a faster device or easier data would hide a slower one."""

LEAST_GAP_S = 0.05
"""Seconds that may pass between the dates of a run beyond those of its own clock, which a system corrects in steps."""

MORE_CORES = 1.2
"""How many times as many cores as threads a version may keep busy; another thread may log or wait."""

NOISY = 0.6
"""Noise of a run, in parts of the limit, from which more than the usual number of repeats is worth its time."""


class Decision(StrEnum):
    """What to do with the new version."""

    KEEP = "keep"
    DISCARD = "discard"
    UNDECIDED = "undecided"


class Verdict(StrEnum):
    """The conclusion for a configuration."""

    MISSING = "no result in new"
    SLOWER = "slower"
    SLOWER_RUN = "slower as a whole run"
    WORSE = "lower quality"
    WITHIN = "within the limit"
    UNDECIDED = "undecided"

    @property
    def fails(self) -> bool:
        """Whether the new version must not pass."""
        return self not in (Verdict.WITHIN, Verdict.UNDECIDED)


@dataclass(frozen=True)
class Change:
    """A configuration in both versions.

    Attributes:
        against: the version with which new is compared, `base` or `anchor`; `base_s` is of that one.
        base_s, new_s: steady seconds per unit of work or, with a target, seconds to it; None without such a run.
        speed: new relative to base, above 1 if new is faster, and the bounds of its tests; None without times of both.
        speed_total: the same of whole runs, with start-up and evaluation; None if their times are not known.
        quality: of each metric that both logged: that of new minus that of base.
        quality_kept: whether non-inferiority within the limit of a metric is shown.
        growth: new relative to base, of what grew by more than the limit of the time: the means of peak memory, of the
            device's energy, and of the price of a run.
        reason: of the verdict; empty if it is within the limits.
        more_repeats: about how many further repeats would decide it; None if not known or too many.
        more_s: wall time of these.
    """

    label: str
    base_s: float | None
    new_s: float | None
    speed: Ratio | None
    verdict: Verdict
    speed_total: Ratio | None = None
    quality: Mapping[str, Difference] = field(default_factory=dict)
    quality_kept: Mapping[str, bool] = field(default_factory=dict)
    growth: Mapping[str, float] = field(default_factory=dict)
    reason: str = ""
    more_repeats: int | None = None
    more_s: float | None = None
    against: str = BASE


@dataclass(frozen=True)
class Limits:
    """What is accepted of the new version.

    Attributes:
        slowdown: accepted increase of the time, as a fraction.
        slowdown_total: the same of whole runs; None for that of `slowdown`.
        quality: metrics that must be kept, each with its accepted loss; None for `quality_loss`.
        quality_loss: accepted loss of a metric that must be kept, a fraction of that of base (of an accuracy: points);
            None for 1%. Without a metric in `quality`, it is that of the main metric.
        strict: whether slower needs the whole 95% interval above the limit.
    """

    slowdown: float = 0.05
    slowdown_total: float | None = None
    quality: Mapping[str, float | None] = field(default_factory=dict)
    quality_loss: float | None = None
    strict: bool = False

    @classmethod
    def from_json(cls, tree: Mapping[str, Any]) -> Self:
        """Read the limits in a request.

        Raises:
            UsageError: they are damaged, or those of a different version of raybench.
        """
        is_same = {*tree} == {entry.name for entry in fields(cls)}
        with suppress(msgspec.ValidationError):
            if is_same:
                return msgspec.convert(tree, cls)
        raise UsageError("The limits of this comparison cannot be read; run `raybench compare` again.")


@dataclass(frozen=True)
class MetricLimit:
    """How a metric of quality is judged.

    Attributes:
        max_loss: accepted loss, a fraction of that of base; of an accuracy, points.
        higher_is_better: its direction; None if it is not known, and every larger difference leaves new undecided.
        must_be_kept: whether new is kept only if its loss is shown to be smaller.
        decides: whether a larger loss discards new; otherwise it leaves it undecided, as metrics disagree.
    """

    max_loss: float
    higher_is_better: bool | None
    must_be_kept: bool
    decides: bool


@dataclass(frozen=True)
class Comparison:
    """A comparison of two versions of one grid.

    Attributes:
        limits: those asked for; `slowdown_total` is that used.
        unit: of the times, unless these are to the target.
        target: to which times are compared; None if the grid has none, or no run reached it.
        metrics: those of quality that were logged, the main one first.
        changes: the configurations that base has, in its order; then those of the anchor.
        only_in_new: labels of configurations that base does not have.
        differences: what changed between the versions besides times and quality.
        cautions: those of the runs of both.
    """

    limits: Limits
    unit: Unit
    target: Target | None
    metrics: Mapping[str, MetricLimit]
    changes: tuple[Change, ...]
    only_in_new: tuple[str, ...] = ()
    differences: tuple[ChangedValue, ...] = ()
    cautions: tuple[Caution, ...] = ()

    @property
    def fails(self) -> bool:
        """Whether the new version must not pass: something is slower, of lower quality, missing, or nothing matched."""
        return not self.changes or any(change.verdict.fails for change in self.changes)

    @property
    def decision(self) -> Decision:
        """Whether to keep the new version: only if no configuration fails, and all are decided."""
        undecided = any(change.verdict is Verdict.UNDECIDED for change in self.changes)
        return Decision.DISCARD if self.fails else Decision.UNDECIDED if undecided else Decision.KEEP

    @property
    def more_repeats(self) -> int | None:
        """About how many further repeats would decide it; None if it is decided, or that is not known."""
        if self.decision is not Decision.UNDECIDED:
            return None
        return max((change.more_repeats for change in self.changes if change.more_repeats), default=None)


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
    judge = _Judge(limits, request, measured, is_complete)
    changes: list[Change] = []
    sides: list[list[Run]] = []
    matched_indices: set[int] = set()
    for version in (BASE, ANCHOR):
        news = {base: measured[new] for new, base in matching.sets(VERSION_AXIS, NEW, version)}
        both = [(cell, news.get(cell.index)) for cell in measured if _version(cell.axes) == version]
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
            raise UsageError(f"--quality {metric}: is less or more of it better? Say {_direction_options(metric)}")


def _direction_options(metric: str) -> str:
    return f"--lower-is-better {metric} or --higher-is-better {metric}"


def is_decided(new: Measured, base: Measured, request: GridRequest) -> Look:
    """Return whether a comparison needs no more repeats, since it has a verdict within the limits of the request."""
    judge = _Judge(Limits(**request.limits or {}), request, (base, new))
    verdict = judge.change(base, new).verdict
    certainty = Certainty.FINAL if verdict.fails else Certainty(verdict is not Verdict.UNDECIDED)
    return Look(certainty, judge.most_repeats(base, new))


def _version(axes: Mapping[str, object]) -> str:
    return format_value(axes.get(VERSION_AXIS))


class _Judge:
    """What is tested, at which level."""

    def __init__(
        self, limits: Limits, request: GridRequest, measured: Iterable[Measured], is_complete: bool = False
    ) -> None:
        logged = list(dict.fromkeys(name for cell in measured for name in cell.qualities))
        self._skips = [cell.skip for cell in request.cells]
        self.limits, self._is_complete = limits, is_complete
        self.slowdown_total = limits.slowdown if limits.slowdown_total is None else limits.slowdown_total
        self.target = request.target if any(run.reached for cell in measured for run in cell.tries) else None
        self.metrics = _metric_limits(limits, request, logged)
        self._quantity = TIME_TO_TARGET if self.target else TIME
        self._is_same_length = not (self.target or request.budget)
        pairs = sum(not cell.skip and _version(cell.axes) != NEW for cell in request.cells)
        # The level of a one-sided test if the number of repeats is fixed.
        self.alpha = ALPHA * min(1.0, FEW_CONFIGURATIONS / max(1, pairs))
        self._rule = request.rule if request.rule and request.rule.until is None and not request.first_look else None
        self._most = self._rule.at_most if self._rule else 0
        self._level: float | None = None  # of the tests at this look; None: that of each estimate

    def most_repeats(self, base: Measured, new: Measured) -> int:
        """Return the most repeats of a comparison: more than the usual number only if its first ones are noisy."""
        limits = {
            name: metric.max_loss * _scale(name, base) for name, metric in self.metrics.items() if metric.must_be_kept
        }
        limits[self._quantity] = math.log1p(self.limits.slowdown)
        for quantity, limit in limits.items():
            values = [{sample.repeat: sample.value for sample in side.samples(quantity)} for side in (base, new)]
            common = sorted(values[0].keys() & values[1].keys())[:LEAST_PAIRED]
            gaps = [values[1][repeat] - values[0][repeat] for repeat in common]
            if len(gaps) == LEAST_PAIRED and variance(gaps) > 2 * (NOISY * limit) ** 2:
                return self._most
        return min(self._most, FEW_REPEATS)

    def change(self, base: Measured, new: Measured | None, label: str = "") -> Change:
        """Return a configuration in both versions, with its verdict."""
        # Each configuration has tests of its own: none is chosen.
        base, new = replace(base, candidates={}), replace(new, candidates={}) if new else None
        times = [side.samples(self._quantity) if side else () for side in (base, new)]
        base_s, new_s = (summary.value if (summary := cost_summary(samples)) else None for samples in times)
        timed = "run that reached the target" if self.target else "completed run"
        untimed = f"no time of a {timed} of {'new' if times[0] else 'base'}"
        change = Change(label, base_s, new_s, None, Verdict.UNDECIDED, reason=untimed)
        if new and _same_runs(base, new):
            return replace(change, reason=SAME_RUNS)
        if missing := self._missing(base, new):
            return replace(change, verdict=Verdict.MISSING, reason=missing)
        if new is None or not (base.completed and new.completed):
            return change
        if base.untimed or new.untimed:
            return replace(change, reason="its epochs are too short to be timed by when lines of output arrive")
        if reason := self._other_job(base, new):
            return replace(change, reason=reason)
        floor = max(side.rounding(TIME) for side in (base, new))
        if (slowdown_estimate := effect(self._quantity, [(new, base)], floor)) is None:
            return change
        slowdown = slowdown_estimate.mean
        self._level = look_level(min(map(len, times)), self.most_repeats(base, new)) if self._rule else None
        quality = {
            name: quality_change for name in self.metrics if (quality_change := quality_difference(new, base, name))
        }
        growth = self._growth(base, new)
        change = replace(change, speed=self._ratio(slowdown, times), quality=quality, growth=growth, reason="")
        change = self._by_speed(change, slowdown, min(map(len, times)))
        has_walls = _has_walls(base) and _has_walls(new)
        whole_runs = _whole_runs(new, has_walls), _whole_runs(base, has_walls)
        total = difference(*whole_runs)
        if total:
            change = replace(change, speed_total=self._ratio(total, whole_runs[::-1]))
        uneven = _uneven_load(new, base)
        quiet = self._by_speed(change, replace(slowdown, value=slowdown.value - uneven), min(map(len, times)))
        if quiet.verdict is not change.verdict:
            change = replace(change, verdict=Verdict.UNDECIDED, reason=BUSY_REASON, more_repeats=None)
        elif total and change.verdict is not Verdict.SLOWER and self._is_slower(total, self.slowdown_total):
            is_clear = self._is_slower(replace(total, value=total.value - uneven), self.slowdown_total)
            reason = _longer("the whole run takes", total.value, (self._bounds(total) or (0.0,))[0])
            verdict = Verdict.SLOWER_RUN if is_clear else Verdict.UNDECIDED
            change = replace(change, verdict=verdict, reason=reason if is_clear else BUSY_REASON, more_repeats=None)
        for metric in self.metrics:
            change = self._by_quality(change, base, new, metric)
        if change.more_repeats:
            wall = [run.wall or 0.0 for run in (*base.completed, *new.completed)]
            change = replace(change, more_s=change.more_repeats * 2 * sum(wall) / max(1, len(wall)))
        if change.verdict is Verdict.WITHIN and (reason := _doubt(base, new)):
            return replace(change, verdict=Verdict.UNDECIDED, reason=reason)
        return _by_misses(change, base, new) if change.verdict is Verdict.WITHIN else change

    def _growth(self, base: Measured, new: Measured) -> dict[str, float]:
        """Return how many times as much new takes of what decides nothing, where that is more than the limit."""
        most = {"peak memory": self.limits.slowdown, "energy": self.limits.slowdown, "price": self.slowdown_total}
        growth = {}
        for name, limit in most.items():
            amounts = [[_amount(run, name, side.price_per_hour) for run in side.completed] for side in (base, new)]
            if all(map(all, amounts)) and (ratio := fmean(amounts[1]) / fmean(amounts[0])) > 1 + limit:
                growth[name] = ratio
        return growth

    def _missing(self, base: Measured, new: Measured | None) -> str:
        """Return why the new version has no result, although base has one; empty if it has."""
        if new is None or not new.completed:
            may_follow = new and not self._is_complete and not self._skips[new.index] and not new.ended
            return _ending(new) if base.completed and not may_follow else ""
        if lost := [name for name in self.metrics if name in base.qualities and name not in new.qualities]:
            return f"no run of new has logged {join_words(lost)}"
        reached = [[target_run.reached for target_run in side.tries] for side in (base, new)]
        is_clear = all(reached[0]) and not any(reached[1]) and min(map(len, reached)) >= CLEAR_MISSES
        return f"none of {plural(len(reached[1]), 'run')} of new reached the target" if is_clear else ""

    def _other_job(self, base: Measured, new: Measured) -> str:
        """Return why epochs of both versions are not the same work; empty if they may be."""
        sides = base.completed, new.completed
        for what, leaves in _SAME_JOB.items():
            values = [{_values(run, leaves) for run in side} for side in sides]
            if values[0] != values[1]:
                texts = [join_words(sorted(text or "not known" for text in texts_of_side)) for texts_of_side in values]
                return f"{what} of base: {texts[0]}; of new: {texts[1]}"
        hosts = [{run.machine_name for run in side} - {""} for side in sides]
        if all(hosts) and not hosts[0] & hosts[1] and not any(run.cell.device.model for side in sides for run in side):
            texts = [join_words(sorted(names)) for names in hosts]
            return f"runs of base are from {texts[0]}, those of new from {texts[1]}, of which no hardware is known"
        for name in base.scales.keys() & new.scales.keys():
            if base.scales[name] != new.scales[name]:
                percent, fraction = ("base", "new") if base.scales[name] > new.scales[name] else ("new", "base")
                return f"{name} of {percent} is read as percent, and that of {fraction} as a fraction"
        if copied := next((side for side in (base, new) if _copies(side)), None):
            return f"runs of {_version(copied.axes)} have exactly the same times, so that they are copies of one"
        clocks = [{(run.clock, clock_of(run)) for run in side} for side in sides]
        if clocks[0] != clocks[1]:
            texts = [
                join_words(sorted(lines or clock or "an unknown clock" for clock, lines in side_clocks))
                for side_clocks in clocks
            ]
            return f"epochs of base are timed by {texts[0]}, those of new by {texts[1]}"
        if not self._is_same_length:
            return ""
        remedy = "versions of different length are compared only with a target or a budget"
        epochs = [{len(run.epochs) for run in side} for side in sides]
        if epochs[0] != epochs[1]:
            texts = [join_words([str(count) for count in sorted(counts)]) for counts in epochs]
            texts = [f"{text} epoch{'s' * (text != '1')}" for text in texts]
            return f"runs of base have {texts[0]}, those of new {texts[1]}; {remedy}"
        units = set.union(*({*run.epochs.counted} for side in sides for run in side)) or {"steps"}
        for unit in units:
            counts = [median(sum(_counts(run, unit)) for run in side) for side in sides]
            if max(counts) > SAME_WORK * min(counts):
                return f"runs of base count {counts[0]:g} {unit}, those of new {counts[1]:g}; {remedy}"
        return ""

    def _by_speed(self, change: Change, slowdown: Estimate, runs: int) -> Change:
        """Return a change with the verdict on the mean of log(new/base)."""
        limit = math.log1p(self.limits.slowdown)
        if (bounds := self._bounds(slowdown)) is None:
            return replace(change, reason="one run of a version gives no interval", more_repeats=LEAST_PAIRED - runs)
        if self._is_slower(slowdown, self.limits.slowdown):
            return replace(change, verdict=Verdict.SLOWER, reason=_longer("it takes", slowdown.value, bounds[0]))
        if bounds[1] <= limit:
            return replace(change, verdict=Verdict.WITHIN)
        more = self._more(slowdown, abs(limit - slowdown.value), runs)
        return replace(change, reason=f"new may be up to {math.expm1(bounds[1]):.0%} slower", more_repeats=more)

    def _by_quality(self, change: Change, base: Measured, new: Measured, name: str) -> Change:
        """Return a change with the verdict on a metric, too."""
        metric, estimate, unshown = self.metrics[name], compared(new, base, name), change
        if change.verdict is Verdict.WITHIN and metric.must_be_kept:
            unshown = replace(change, verdict=Verdict.UNDECIDED, reason=f"{name} is not shown to stay within its limit")
        if name not in base.qualities or name not in new.qualities:
            return unshown
        if change.verdict is Verdict.WITHIN and (reason := self._other_metric(base, new, name)):
            return replace(change, verdict=Verdict.UNDECIDED, reason=reason)
        if estimate is None or estimate.error is None:
            return unshown
        limit, is_main = metric.max_loss * _scale(name, base), name == next(iter(self.metrics))
        loss = abs(estimate.value) if metric.higher_is_better is None else estimate.value
        loss = -loss if metric.higher_is_better else loss
        kept = loss + self._margin(estimate, ALPHA) < limit
        change, unshown = (
            replace(version, quality_kept={**change.quality_kept, name: kept}) for version in (change, unshown)
        )
        # As many tests of further metrics as there are together raise one false alarm as often as one test.
        level = self.alpha if is_main else self.alpha / max(1, len(self.metrics) - 1)
        if loss > limit and loss > self._margin(estimate, level):
            verdict = Verdict.WORSE if metric.decides else Verdict.UNDECIDED
            if verdict.fails > change.verdict.fails or change.verdict is Verdict.WITHIN:
                is_lower = metric.higher_is_better if metric.decides or loss == estimate.value else estimate.value < 0
                reason = f"{name} is {_loss_text(name, loss, base)} {'lower' if is_lower else 'higher'}"
                if metric.higher_is_better is None:
                    reason += f"; if that is better or worse is not known: say {_direction_options(name)}"
                return replace(change, verdict=verdict, reason=reason, more_repeats=None)
            return change
        if kept or (unshown.verdict is change.verdict and not (metric.decides and loss > limit)):
            return change
        if change.verdict is Verdict.WITHIN and loss > limit:
            text = f"{_loss_text(name, loss, base)} {'lower' if metric.higher_is_better else 'higher'} in these runs"
            unshown = replace(unshown, verdict=Verdict.UNDECIDED, reason=f"{name} is {text}, which may be chance")
        logged = min(len(side.qualities[name]) for side in (base, new))
        return replace(unshown, more_repeats=self._more(estimate, abs(limit - loss), logged))

    def _other_metric(self, base: Measured, new: Measured, name: str) -> str:
        """Return why values of a metric of both versions are not of the same training; empty if they are."""
        logged, runs = (len(new.qualities[name]), len(base.qualities[name])), (len(new.completed), len(base.completed))
        if logged[0] * runs[1] < logged[1] * runs[0]:
            return f"{runs[0] - logged[0]} of {plural(runs[0], 'run')} of new did not log {name}"
        last = [{_last_epoch(run, name) for run in side.completed} for side in (base, new)]
        if self._is_same_length and last[0] != last[1]:
            texts = [join_words(sorted(str(number) for number in epochs)) for epochs in last]
            return f"{name} of new is that of epoch {texts[1]}, that of base of epoch {texts[0]}"
        return ""

    def _ratio(self, slowdown: Estimate, times: Sequence[Sequence[Sample]]) -> Ratio:
        """Return new relative to base, with the bounds that decide."""
        speed = as_ratio(replace(slowdown, value=-slowdown.value), (len(times[1]), len(times[0])))
        bounds = self._bounds(slowdown)
        return replace(speed, low=math.exp(-bounds[1]), high=math.exp(-bounds[0])) if bounds else speed

    def _is_slower(self, slowdown: Estimate, accepted: float) -> bool:
        bounds, limit = self._bounds(slowdown), math.log1p(accepted)
        return bounds is not None and slowdown.value > limit and bounds[0] > (limit if self.limits.strict else 0.0)

    def _bounds(self, slowdown: Estimate) -> tuple[float, float] | None:
        """Return the one-sided bounds by which a configuration is slower, or within the limit; None without any."""
        if (ends := slowdown.interval()) is None:
            return None
        lower = ends[0] if self.limits.strict else slowdown.value - self._margin(slowdown, self.alpha)
        return lower, slowdown.value + self._margin(slowdown, ALPHA)

    def _margin(self, estimate: Estimate, alpha: float) -> float:
        """Return by how much a mean must be away from a value for a one-sided test."""
        assert estimate.error is not None
        return quantile(estimate.df, self._probability(estimate, alpha)) * estimate.error

    def _probability(self, estimate: Estimate, alpha: float) -> float:
        """Return the level of a one-sided test, which also holds if the number of repeats followed from the runs."""
        return 1 - alpha / ALPHA * (estimate.alpha if self._level is None else self._level)

    def _more(self, estimate: Estimate, margin: float, repeats: int) -> int | None:
        """Return about how many more repeats would decide a test; None if too many."""
        needed = estimate.repeats_until(margin, repeats, self._probability(estimate, self.alpha))
        return needed - repeats if needed else None


def _metric_limits(limits: Limits, request: GridRequest, logged: Sequence[str]) -> dict[str, MetricLimit]:
    """Return how each metric of quality is judged, the main one first."""
    main = next(iter(limits.quality), "") or main_metric(logged, request.metric)
    kept = dict(limits.quality) or ({main: None} if limits.quality_loss is not None and main else {})
    loss = QUALITY_LOSS if limits.quality_loss is None else limits.quality_loss
    return {
        name: MetricLimit(
            max_loss=QUALITY_LOSS if name not in kept else loss if (limit := kept[name]) is None else limit,
            higher_is_better=(is_higher := request.direction(name).is_higher),
            must_be_kept=name in kept,
            decides=is_higher is not None and (name == main or name in kept or name.endswith("/accuracy")),
        )
        for name in dict.fromkeys([*([main] if main in logged else []), *kept, *quality_metrics(logged)])
    }


def _scale(metric: str, base: Measured) -> float:
    """Return by what a loss of a metric is multiplied: 1 for an accuracy, else its mean in base."""
    values = [sample.value for sample in base.qualities.get(metric, ())]
    return 1.0 if metric.endswith("/accuracy") or not values else abs(fmean(values))


def _loss_text(metric: str, loss: float, base: Measured) -> str:
    if metric.endswith("/accuracy"):
        return f"{100 * loss:.2g} points"
    return percent(loss / scale) if (scale := _scale(metric, base)) else f"{loss:.2g}"


def _longer(start: str, slowdown: float, least: float) -> str:
    """Return by how much more time a version takes, in these runs and at least."""
    return f"{start} {percent(math.expm1(slowdown))} more time, at least {percent(max(0.0, math.expm1(least)))}"


def _same_runs(base: Measured, new: Measured) -> bool:
    """Return whether both versions name one measurement; without a start, by all times of all runs."""
    starts = [
        {(run.started, run.repeat, run.steady_s) for run in side.completed if run.started} for side in (base, new)
    ]
    times = [[tuple(run.timed_s) for run in side.completed] for side in (base, new)]
    if all(starts):
        return bool(starts[0] & starts[1])
    return len({*chain(*times[0])}) >= DISTINCT and times[0] == times[1]


def _values(run: Run, leaves: Sequence[str]) -> str:
    values = ((leaf.rpartition(".")[2], run.cell.leaves.get(leaf)) for leaf in leaves)
    return ", ".join(f"{name} {value}" for name, value in values if value is not None)


def _counts(run: Run, unit: str) -> Sequence[float]:
    return run.epochs.column("steps", missing=0) if unit == "steps" else run.epochs.counts(unit)


def _amount(run: Run, name: str, price_per_hour: float | None) -> float:
    """Return the peak memory, the energy or the price of a run; 0 if it is not known."""
    amounts = {
        "peak memory": run.peak_bytes,
        "energy": run.energy_j,
        "price": price_of(run.total_s, price_per_hour or run.price_per_hour),
    }
    return float(amounts[name] or 0)


def _copies(measured: Measured) -> bool:
    """Return whether a run has the times of a different one, in epochs enough that it is no coincidence."""
    times = [tuple(training_s(epoch.ledger) for epoch in run.epochs) for run in measured.completed]
    return any(count > 1 and len({*times_of_run}) >= DISTINCT for times_of_run, count in Counter(times).items())


def _has_walls(measured: Measured) -> bool:
    return all(run.wall for run in measured.completed)


def _cores(measured: Measured) -> float:
    """Return the cores that the median run kept busy in its steady epochs; 0 if that is not known."""
    cpu_and_wall = [(run.steady_cpu_s, run.steady_s) for run in measured.completed]
    return median([cpu_s / seconds if cpu_s and seconds else 0.0 for cpu_s, seconds in cpu_and_wall] or [0.0])


def _is_cut(run: Run) -> bool:
    """Return whether a run's own clock counts less time than passed between the dates of its start and its end."""
    start, end = run.span
    return bool(run.wall and start and end and end - start > SAME_WORK * run.wall + LEAST_GAP_S)


def _epochs_s(run: Run) -> float:
    """Return the seconds of all epochs, with evaluation and compilation."""
    return sum(sum(ledger.values()) for epoch in run.epochs if (ledger := epoch.ledger))


def _whole_runs(measured: Measured, has_walls: bool) -> tuple[Sample, ...]:
    """Return logs of the seconds of whole processes, or of all their epochs, of the runs with a time."""
    samples = {(sample.repeat, sample.host): sample for sample in measured.times}
    walls = (
        (samples.get((run.repeat, run.machine_name)), run.wall if has_walls else _epochs_s(run))
        for run in measured.completed
    )
    return tuple(replace(sample, value=math.log(wall)) for sample, wall in walls if sample and wall)


def _last_epoch(run: Run, metric: str) -> int:
    """Return the last epoch after which a run logged a metric; 0 if there is none."""
    numbers, values = run.epochs.column("epoch"), run.epochs.column("metrics", metric)
    return max((number for number, value in zip(numbers, values, strict=True) if value is not None), default=0)


def _uneven_load(new: Measured, base: Measured) -> float:
    """Return the log of how many times as long other programs made new than base; 0 if they disturbed both alike.

    Load that comes and goes is in the spread of the runs. What one version had more of could be the difference.
    """
    shares: list[list[Sample]] = []
    logs = []
    for side in (new, base):
        loads = [(run, others_load(run)) for run in side.completed]
        shares.append(
            [Sample(run.repeat, sum(f.degree for f in findings), run.machine_name) for run, findings in loads]
        )
        lost = (UNKNOWN_LOAD if f.too_long is None else f.too_long for _, findings in loads for f in findings)
        logs.append(sum(map(math.log1p, lost)) / max(1, len(loads)))
    uneven = difference(shares[0], shares[1])
    ends = uneven.interval() if uneven else None
    is_alike = uneven is None or abs(uneven.value) < UNEVEN or (ends is not None and ends[0] <= 0 <= ends[1])
    return 0.0 if is_alike else logs[0] - logs[1]


def _doubt(base: Measured, new: Measured) -> str:
    """Return what is missing or impossible in the runs of new, so that they do not show all of it; empty if nothing."""
    if _has_walls(base) and not _has_walls(new):
        return "no time of the whole run of new is known, unlike those of base"
    if any(run.wall and _epochs_s(run) > SAME_WORK * run.wall for run in new.completed):
        return "a run of new took less time as a whole than its epochs"
    if any(map(_is_cut, new.completed)) and not any(map(_is_cut, base.completed)):
        return "the own clock of a run of new counts less time than passed between its start and its end"
    cores, threads = [_cores(side) for side in (base, new)], base.completed[0].cell.device.threads
    if isinstance(threads, int) and cores[0] <= threads * MORE_CORES < cores[1]:
        return f"new computed on {cores[1]:.1f} cores, with {plural(threads, 'thread')}"
    slow = [[run.repeat for runs, _ in slow_runs(side.completed, ()) for run in runs] for side in (base, new)]
    if slow[1] == [0] and slow[0] != [0]:
        return "the first run of new was slower than all others, which may have used what it left, such as a cache"
    repeats = [{run.repeat for run in side.attempts} for side in (base, new)]
    gaps = sorted(repeat + 1 for repeat in repeats[0] - repeats[1] if repeat < max(repeats[1]))
    return f"repeat {join_words(list(map(str, gaps)))} of new is missing, which base has" if gaps else ""


def _by_misses(change: Change, base: Measured, new: Measured) -> Change:
    """Return a change, undecided if runs of new end without a result more often."""
    (base_misses, base_runs), (misses, runs) = _misses(base), _misses(new)
    if misses * base_runs <= base_misses * runs:
        return change
    what = f"complete ({_ending(new)})" if len(new.completed) < runs else "reach the target"
    return replace(change, verdict=Verdict.UNDECIDED, reason=f"{misses} of {plural(runs, 'run')} of new did not {what}")


def _misses(measured: Measured) -> tuple[int, int]:
    """Return the number of runs that did not complete or reach the target, and that of all."""
    missed = {
        (target_run.sample.repeat, target_run.sample.host) for target_run in measured.tries if not target_run.reached
    }
    ended = [*measured.ended, *measured.killed]
    failed = (run.status != TrialStatus.COMPLETED or (run.repeat, run.machine_name) in missed for run in ended)
    return sum(failed), len(ended)


def _ending(new: Measured | None) -> str:
    """Return why a run of a configuration of the new version did not complete."""
    if new is None:
        return "new has no such configuration"
    runs = (run for run in (*new.attempts, *new.killed) if run.status != TrialStatus.COMPLETED)
    if (ended := next(runs, None)) is None:
        return "none of its runs was started"
    return ": ".join(filter(None, (str(ended.status or "unfinished"), error_text(ended))))
