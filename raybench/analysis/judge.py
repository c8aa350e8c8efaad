"""The verdict on a configuration in two versions: slower, of lower quality, missing, or within the limits."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import replace
from statistics import fmean, variance

from raybench.analysis.answer import Ratio
from raybench.analysis.doubts import (
    are_same_runs,
    by_misses,
    different_training,
    different_work,
    doubt,
    ending_of,
    growth,
    uneven_load,
    whole_runs,
)
from raybench.analysis.intervals import ALPHA, LEAST_PAIRED, Estimate, Sample, difference, quantile
from raybench.analysis.machines import effect
from raybench.analysis.measured import TIME, TIME_TO_TARGET, Measured
from raybench.analysis.ratios import as_ratio, compared, cost_summary, quality_difference
from raybench.analysis.until import look_level
from raybench.analysis.versions import (
    BUSY_REASON,
    FEW_CONFIGURATIONS,
    Change,
    Limits,
    MetricLimit,
    Verdict,
    direction_options,
    version_of,
)
from raybench.core.cell import NEW
from raybench.core.job import is_accuracy
from raybench.core.repeats import FEW_REPEATS, percent
from raybench.core.text import join_words, plural
from raybench.results.grid_request import GridRequest
from raybench.results.metrics import main_metric, quality_metrics

QUALITY_LOSS = 0.01
"""Largest loss of quality that is accepted by default: one point of an accuracy, 1% of any other metric."""
CLEAR_MISSES = 3
"""Runs of each version from which it is no chance (5%) that all of base reached the target, and none of new."""
SAME_RUNS = "both name the same runs, so nothing was compared"
NOISY = 0.6  # noise of a run, in parts of the limit, from which more than the usual number of repeats is worth its time


class Judge:
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
        pairs = sum(not cell.skip and version_of(cell.axes) != NEW for cell in request.cells)
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
        if new and are_same_runs(base, new):
            return replace(change, reason=SAME_RUNS)
        if missing := self._missing(base, new):
            return replace(change, verdict=Verdict.MISSING, reason=missing)
        if new is None or not (base.completed and new.completed):
            return change
        if base.untimed or new.untimed:
            return replace(change, reason="its epochs are too short to be timed by when lines of output arrive")
        if reason := different_work(base, new, self._is_same_length):
            return replace(change, reason=reason)
        floor = max(side.rounding(TIME) for side in (base, new))
        if (slowdown_estimate := effect(self._quantity, [(new, base)], floor)) is None:
            return change
        slowdown = slowdown_estimate.mean
        self._level = look_level(min(map(len, times)), self.most_repeats(base, new)) if self._rule else None
        quality = {name: gap for name in self.metrics if (gap := quality_difference(new, base, name))}
        grown = growth(base, new, self.limits.slowdown, self.slowdown_total)
        change = replace(change, speed=self._ratio(slowdown, times), quality=quality, growth=grown, reason="")
        change = self._by_speed(change, slowdown, min(map(len, times)))
        whole = whole_runs(new, base)
        if total := difference(*whole):
            change = replace(change, speed_total=self._ratio(total, whole[::-1]))
        uneven = uneven_load(new, base)
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
        if change.verdict is Verdict.WITHIN and (reason := doubt(base, new)):
            return replace(change, verdict=Verdict.UNDECIDED, reason=reason)
        return by_misses(change, base, new) if change.verdict is Verdict.WITHIN else change

    def _missing(self, base: Measured, new: Measured | None) -> str:
        """Return why the new version has no result, although base has one; empty if it has."""
        if new is None or not new.completed:
            may_follow = new and not self._is_complete and not self._skips[new.index] and not new.ended
            return ending_of(new) if base.completed and not may_follow else ""
        if lost := [name for name in self.metrics if name in base.qualities and name not in new.qualities]:
            return f"no run of new has logged {join_words(lost)}"
        reached = [[target_run.reached for target_run in side.tries] for side in (base, new)]
        is_clear = all(reached[0]) and not any(reached[1]) and min(map(len, reached)) >= CLEAR_MISSES
        return f"none of {plural(len(reached[1]), 'run')} of new reached the target" if is_clear else ""

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
        if change.verdict is Verdict.WITHIN and (reason := different_training(base, new, name, self._is_same_length)):
            return replace(change, verdict=Verdict.UNDECIDED, reason=reason)
        if estimate is None or estimate.error is None:
            return unshown
        limit, is_main = metric.max_loss * _scale(name, base), name == next(iter(self.metrics))
        loss = abs(estimate.value) if metric.higher_is_better is None else estimate.value
        loss = -loss if metric.higher_is_better else loss
        kept = loss + self._margin(estimate, ALPHA) < limit
        change, unshown = (
            replace(outcome, quality_kept={**change.quality_kept, name: kept}) for outcome in (change, unshown)
        )
        # As many tests of further metrics as there are together raise one false alarm as often as one test.
        level = self.alpha if is_main else self.alpha / max(1, len(self.metrics) - 1)
        if loss > limit and loss > self._margin(estimate, level):
            verdict = Verdict.WORSE if metric.decides else Verdict.UNDECIDED
            if verdict.fails > change.verdict.fails or change.verdict is Verdict.WITHIN:
                is_lower = metric.higher_is_better if metric.decides or loss == estimate.value else estimate.value < 0
                reason = f"{name} is {_loss_text(name, loss, base)} {'lower' if is_lower else 'higher'}"
                if metric.higher_is_better is None:
                    reason += f"; if that is better or worse is not known: say {direction_options(name)}"
                return replace(change, verdict=verdict, reason=reason, more_repeats=None)
            return change
        if kept or (unshown.verdict is change.verdict and not (metric.decides and loss > limit)):
            return change
        if change.verdict is Verdict.WITHIN and loss > limit:
            text = f"{_loss_text(name, loss, base)} {'lower' if metric.higher_is_better else 'higher'} in these runs"
            unshown = replace(unshown, verdict=Verdict.UNDECIDED, reason=f"{name} is {text}, which may be chance")
        logged = min(len(side.qualities[name]) for side in (base, new))
        return replace(unshown, more_repeats=self._more(estimate, abs(limit - loss), logged))

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
            decides=is_higher is not None and (name == main or name in kept or is_accuracy(name)),
        )
        for name in dict.fromkeys([*([main] if main in logged else []), *kept, *quality_metrics(logged)])
    }


def _scale(metric: str, base: Measured) -> float:
    """Return by what a loss of a metric is multiplied: 1 for an accuracy, else its mean in base."""
    values = [sample.value for sample in base.qualities.get(metric, ())]
    return 1.0 if is_accuracy(metric) or not values else abs(fmean(values))


def _loss_text(metric: str, loss: float, base: Measured) -> str:
    if is_accuracy(metric):
        return f"{100 * loss:.2g} points"
    return percent(loss / scale) if (scale := _scale(metric, base)) else f"{loss:.2g}"


def _longer(start: str, slowdown: float, least: float) -> str:
    """Return by how much more time a version takes, in these runs and at least."""
    return f"{start} {percent(math.expm1(slowdown))} more time, at least {percent(max(0.0, math.expm1(least)))}"
