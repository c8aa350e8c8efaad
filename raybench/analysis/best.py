"""The ranking of configurations, and the best by each criterion."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import fmean

from raybench.analysis.answer import LARGE_DIFFERENCE, Best, Criterion, Difference, Ratio, Summary
from raybench.analysis.intervals import Sample, residual
from raybench.analysis.matching import Matching
from raybench.analysis.measured import Measured
from raybench.analysis.ratios import cost_ratio, cost_summary, quality_difference, scaled
from raybench.analysis.targets import Cost, expected, joules_of, seconds_of, successes, target_ratio

LEAST_COMMON = 3
"""Fewest repeats that all configurations have by which these are ranked, if they have different numbers of them."""

Compare = Callable[[Measured, Measured, int], Ratio | Difference | None]
"""Compares two configurations, corrected for a number of comparisons; a ratio is above 1 if the first is better."""


@dataclass(frozen=True)
class Scale:
    """A criterion: its cost of each configuration, and the comparison of two.

    Attributes:
        costs: by index; less is better.
    """

    criterion: Criterion
    costs: Mapping[int, float]
    compare: Compare


def ranking(configurations: Sequence[Measured], metric: str = "", quality_sign: int = 0) -> list[int]:
    """Return the indices of configurations with a time, best first within each job.

    By quality at a budget, else by expected time to the target, then those that never reached it; else by time.
    """
    ranked: list[int] = []
    for job in dict.fromkeys(each.job for each in configurations):
        own = [each for each in configurations if each.job == job]
        costs = next((each.costs for each in scales(own, metric, quality_sign)), {})
        times = {each.index: fmean(sample.value for sample in each.times) for each in own if each.times}
        known = [each.index for each in own if each.index in {**costs, **times} or each.tries]
        ranked += sorted(known, key=lambda index: (costs.get(index, math.inf), times.get(index, math.inf)))
    return ranked


def best(
    configurations: Sequence[Measured],
    matching: Matching,
    metric: str,
    workloads: Mapping[str, str],
    quality_sign: int = 0,
) -> list[Best]:
    """Return the best configuration by each criterion, for each job.

    With a budget, its quality decides, and speed and price of a unit of work do not.

    Args:
        quality_sign: with a budget, -1 if more of the metric is better, else 1; 0 without a budget.
    """
    made: list[Best] = []
    for job in dict.fromkeys(each.job for each in configurations):
        own = [each for each in configurations if each.job == job]
        if len(own) == 1 and any(each.kind for each in configurations):
            continue  # with nothing to compare it with it would read as a verdict
        of_job: list[Best] = []
        for scale in scales(own, metric, quality_sign):
            found = _best_by(scale, configurations, matching, metric)
            others = [each for each in of_job if Criterion.QUALITY not in each.ratios]
            same = [each for each in others if (each.configuration, each.other) == (found.configuration, found.other)]
            # What only the later criterion does not tell apart is named in a sentence of its own.
            same = [each for each in same if found.close <= each.close]
            if same:
                of_job[of_job.index(same[0])] = replace(same[0], ratios={**same[0].ratios, **found.ratios})
            else:
                of_job.append(found)
        made += [replace(each, workload=workloads.get(job, "")) for each in of_job]
    return made


def scales(configurations: Sequence[Measured], metric: str = "", quality_sign: int = 0) -> list[Scale]:
    """Return the criteria that the runs of one job allow."""
    made = []
    samples = {each.index: own for each in configurations if (own := each.qualities.get(metric))}
    if quality_sign and samples:
        qualities = {index: quality_sign * fmean(each.value for each in own) for index, own in samples.items()}
        pooled = residual(samples.values())
        by_quality: Compare = lambda own, other, n: quality_difference(own, other, metric, pooled, n)  # noqa: E731
        made = [Scale(Criterion.QUALITY, qualities, by_quality)]
        if not any(each.tries for each in configurations):
            return made
    to_target = any(each.reached for own in configurations for each in own.tries)
    rounding = max((each.time_rounding for each in configurations), default=0.0)
    seconds, by_seconds = _costs(configurations, seconds_of, lambda each: each.times, to_target, rounding)
    joules, by_joules = _costs(configurations, joules_of, lambda each: each.energies, to_target)
    prices = {each.index: each.price_per_hour for each in configurations if each.price_per_hour is not None}
    costs = {index: value * prices[index] / 3600 for index, value in seconds.items() if index in prices}

    def by_price(own: Measured, other: Measured, comparisons: int) -> Ratio | None:
        return by_seconds(own, other, comparisons, prices[other.index] / prices[own.index])

    made.append(Scale(Criterion.FIRST_TO_TARGET if to_target else Criterion.FASTEST, seconds, by_seconds))
    if len(costs) > 1 and all(costs.values()):  # what is free needs no comparison
        made.append(Scale(Criterion.CHEAPEST, costs, by_price))
    made += [Scale(Criterion.LEAST_ENERGY, joules, by_joules)] if len(joules) > 1 else []
    return [each for each in made if each.costs]


def _costs(
    configurations: Sequence[Measured],
    cost: Cost,
    of_unit: Callable[[Measured], tuple[Sample, ...]],
    to_target: bool,
    rounding: float = 0.0,
) -> tuple[dict[int, float], Callable[..., Ratio | None]]:
    """Return the costs to the target, or else of a unit of work, by index, and the comparison of two configurations."""
    pooled = residual(successes(each, cost) if to_target else of_unit(each) for each in configurations)

    def compare(own: Measured, other: Measured, comparisons: int, factor: float = 1.0) -> Ratio | None:
        if to_target:
            return target_ratio(own, other, pooled, cost, comparisons, factor)
        ratio = cost_ratio(of_unit(own), of_unit(other), pooled, rounding, comparisons)
        return scaled(ratio, factor) if ratio else None

    # If the results decided the number of repeats, later ones may have met a slower machine than those that all have.
    runs = [own for each in configurations if (own := of_unit(each))]
    common = set.intersection(*({run.repeat for run in own} for own in runs)) if runs else set()
    is_decided = all(run.stopping and run.stopping.is_common for own in runs for run in own)
    is_common = is_decided and len(common) >= LEAST_COMMON

    def compared(each: Measured) -> tuple[Sample, ...]:
        return tuple(run for run in of_unit(each) if not is_common or run.repeat in common)

    totals: dict[int, Summary | None] = {
        each.index: expected(each.tries, cost) if to_target else cost_summary(compared(each)) for each in configurations
    }
    return {index: total.value for index, total in totals.items() if total}, compare


def _best_by(scale: Scale, configurations: Sequence[Measured], matching: Matching, metric: str) -> Best:
    order = sorted(scale.costs, key=lambda index: scale.costs[index])
    first = order[0]
    other, comparisons = _compared_with(first, order, matching)
    rest = max(1, len(order) - 1)
    ties: list[int] = []
    unproven: list[int] = []
    for index in order[1:]:
        found = scale.compare(configurations[first], configurations[index], rest)
        # One run of another configuration does not show that it is worse, unless it is much worse.
        is_near = isinstance(found, Ratio) and found.runs > 1 and found.value < LARGE_DIFFERENCE
        if found and not found.is_significant and (found.has_interval or is_near):
            (unproven if isinstance(found, Ratio) and found.excludes(1) else ties).append(index)
    if other is None:
        return Best(first, None, {scale.criterion: None})
    pair = configurations[first], configurations[other]
    found = scale.compare(*pair, comparisons)
    quality = found if isinstance(found, Difference) else quality_difference(*pair, metric)
    ratio = found if isinstance(found, Ratio) else None
    return Best(first, other, {scale.criterion: ratio}, quality, tuple(ties), tuple(unproven))


def _compared_with(first: int, order: Sequence[int], matching: Matching) -> tuple[int | None, int]:
    """Return the configuration that the best is compared with, and from how many pairs both were selected.

    Its reference, if it has a cost; else the best with the baseline's values; for a reference, the next in the ranking.
    """
    reference = matching.references[first]
    if reference in order and reference != first:
        return reference, max(1, len(order) - 1)
    if reference != first:
        baseline = [index for index in order if matching.references[index] == index]
        if baseline:
            return baseline[0], (len(order) - len(baseline)) * len(baseline)
    return (order[1], len(order) - 1) if len(order) > 1 else (None, 1)
