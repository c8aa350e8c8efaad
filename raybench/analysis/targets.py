"""Time, price and energy to a quality target, when some runs miss it, and whether the mean of runs reaches it."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from statistics import fmean, geometric_mean, stdev

from raybench.analysis import intervals
from raybench.analysis.answer import Ratio, Summary, TargetMean
from raybench.analysis.intervals import wilson
from raybench.analysis.machines import allowance
from raybench.analysis.measured import TIME_TO_TARGET, Measured, Try
from raybench.analysis.ratios import cost_ratio
from raybench.core.job import Target

MANY_RUNS = 10
"""Runs of a side from which a difference of times to the target needs no allowance for misses that were not seen."""

FEW_MISSES = 1.5
"""Factor of the probability that Wilson's interval misses: with few runs it covers 93% where 95% is claimed."""


@dataclass(frozen=True)
class Expected(Summary):
    """The expected cost to reach the target of the `runs` that tried, with a restart after each miss.

    The interval is missing with too few runs; without a miss it is that of the time of a success.

    Attributes:
        high_with_misses: the upper end with the misses that so few runs may not have shown.
        success: geometric mean of the costs of the runs that reached it, as ratios are of geometric means.
        miss: mean cost of a miss; that of all epochs if no run missed.
        reached: number of runs that reached it.
    """

    success: float = 0.0
    miss: float = 0.0
    reached: int = 0
    high_with_misses: float | None = None

    def with_probability(self, probability: float) -> float:
        """Return the expected cost for a probability of success."""
        return self.success + (1 / probability - 1) * self.miss


def expected(tries: Sequence[Try], quantity: str = TIME_TO_TARGET, comparisons: float = 1) -> Expected | None:
    """Return the expected time or energy; None if no run reached the target, or a cost is not known.

    With success probability p, a success costs its own time plus (1 − p)/p misses on average. The interval combines
    Wilson's of p and Student's of the time of a success by their distances on the log scale (MOVER).
    """
    costs = [(target_run.reached, *target_run.cost(quantity)) for target_run in tries]
    successes = [cost for reached, cost, _ in costs if reached and cost]
    misses = [cost for reached, cost, _ in costs if not reached and cost]
    if not successes or any(cost is None for _, cost, _ in costs):
        return None
    miss = fmean(misses) if misses else max(full_cost or 0.0 for _, _, full_cost in costs)
    reached, tried = len(successes), len(tries)
    result = Expected(0.0, None, None, tried, geometric_mean(successes), miss, reached)
    value = result.with_probability(reached / tried)
    result = replace(result, value=value)
    ends = intervals.mean(list(map(math.log, successes))).interval(1 / comparisons)
    if tried < 2 or (ends is None and reached == tried):
        return result
    rounding = max(target_run.rounding for target_run in tries) / reached
    end_error = intervals.quantile(math.inf, 1 - intervals.ALPHA / (2 * comparisons)) * math.sqrt(rounding)
    half = math.hypot((ends[1] - ends[0]) / 2 if ends else 0.0, end_error)
    least, most = wilson(reached, tried, comparisons * FEW_MISSES)
    below = math.hypot(math.log(value / result.with_probability(most)), half)
    above = math.hypot(math.log(result.with_probability(least) / value), half)
    high = value * math.exp(half if reached == tried else above)
    return replace(result, low=value * math.exp(-below), high=high, high_with_misses=value * math.exp(above))


def target_ratio(
    cell: Measured, reference: Measured, quantity: str = TIME_TO_TARGET, factor: float = 1.0
) -> Ratio | None:
    """Return the expected cost of the other to the target ÷ the own, times a factor; None if one never reached it.

    If all runs reached it, it is the ratio of times of successes, which stands if no run misses: it counts as a
    difference only if it also holds with the success probabilities at the ends of their intervals, or with many runs.
    """
    comparisons = cell.candidates[quantity].comparisons if cell.candidates else 1
    first, second = (expected(side.tries, quantity, comparisons) for side in (cell, reference))
    if first is None or second is None:
        return None
    ratio = cost_ratio(cell, reference, quantity, factor)  # None without a repeat that both have
    if ratio and first.reached == first.runs and second.reached == second.runs:
        return replace(ratio, holds_if_no_miss=not _holds_with_misses(ratio, first, second))
    value = second.value / first.value * factor
    ratio = Ratio(value, None, None, len(cell.tries), len(reference.tries))
    highs = first.high_with_misses, second.high_with_misses
    if first.low is None or second.low is None or highs[0] is None or highs[1] is None:
        return ratio
    below = math.hypot(math.log(highs[0] / first.value), math.log(second.value / second.low))
    above = math.hypot(math.log(first.value / first.low), math.log(highs[1] / second.value))
    extra = allowance(cell, reference, quantity), 0.0
    low, these_low = (value * math.exp(-math.hypot(below, extra_half)) for extra_half in extra)
    high, these_high = (value * math.exp(math.hypot(above, extra_half)) for extra_half in extra)
    ratio = replace(ratio, low=low, high=high)
    return replace(ratio, these_low=these_low, these_high=these_high) if extra[0] else ratio


def _holds_with_misses(ratio: Ratio, first: Expected, second: Expected) -> bool:
    """Return whether a difference holds with the probabilities of success at the ends of their intervals."""
    if ratio.low is None or ratio.high is None or min(first.runs, second.runs) >= MANY_RUNS:
        return True
    slower = [side.with_probability(wilson(side.reached, side.runs)[0]) / side.success for side in (first, second)]
    return ratio.low / slower[0] > 1 or ratio.high * slower[1] < 1


def means(configurations: Sequence[Measured], target: Target | None) -> Iterator[TargetMean]:
    """Yield the mean of the last values of each configuration with runs that have the metric.

    It is the rule of speedruns with a fixed length; nothing if each run tries alone. The p is that of a one-sided
    t-test of a mean at the bound; None with one run, or with runs that are all the same.
    """
    if target is None or target.mean_level is None:
        return
    for cell in configurations:
        values = [sample.value for sample in cell.qualities.get(target.metric, ())]
        if not values:
            continue
        sign, mean, p = 1 if target.at_most is None else -1, fmean(values), None
        if len(values) > 1 and (error := stdev(values) / math.sqrt(len(values))) > 0:
            from scipy.special import stdtr  # scipy.stats takes a second to load

            p = float(stdtr(len(values) - 1, -sign * (mean - (target.bound or 0.0)) / error))
        reached_alone = sum(map(target.is_reached_by, values))
        is_shown = p is not None and p < target.mean_level
        yield TargetMean(cell.index, mean, len(values), reached_alone, target.is_reached_by(mean), p, is_shown)
