"""The ranking of configurations, and the best by each criterion."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from statistics import fmean

from raybench.analysis.answer import Best, Criterion, Difference, Ratio
from raybench.analysis.intervals import Residual, residual
from raybench.analysis.matching import Matching
from raybench.analysis.measured import Measured
from raybench.analysis.ratios import cost_ratio, quality_difference
from raybench.analysis.targets import expected, joules_of, seconds_of, target_ratio

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


@dataclass(frozen=True)
class AtBudget:
    """The quality that decides between runs with a budget."""

    metric: str
    higher_is_better: bool

    def cost(self, each: Measured) -> float:
        """The mean quality of a configuration as a cost, of which less is better; infinite if it is not known."""
        samples = each.qualities.get(self.metric, ())
        value = fmean(sample.value for sample in samples) if samples else math.inf
        return -value if samples and self.higher_is_better else value


def ranking(configurations: Sequence[Measured], has_target: bool, at_budget: AtBudget | None = None) -> list[int]:
    """Return the indices of configurations with a time, best first within each job.

    By quality at a budget, else by expected time to the target, then those that never reached it; else by time.
    """

    def key(each: Measured) -> tuple[float, float]:
        to_target = expected(each.tries) if has_target else None
        time = fmean(sample.value for sample in each.times) if each.times else math.inf
        if at_budget:
            return at_budget.cost(each), time
        return (to_target.value if to_target else math.inf) if has_target else 0.0, time

    def is_ranked(each: Measured) -> bool:
        return bool(each.times or (has_target and each.tries) or (at_budget and at_budget.metric in each.qualities))

    ranked: list[int] = []
    for job in dict.fromkeys(each.job for each in configurations):
        own = [each for each in configurations if each.job == job and is_ranked(each)]
        ranked += [each.index for each in sorted(own, key=key)]
    return ranked


def best(
    configurations: Sequence[Measured],
    matching: Matching,
    metric: str,
    has_target: bool,
    workloads: Mapping[str, str],
    at_budget: AtBudget | None = None,
) -> list[Best]:
    """Return the best configuration by each criterion, for each job.

    With a budget, its quality decides, and speed and price of a unit of work do not.
    """
    made: list[Best] = []
    for job in dict.fromkeys(each.job for each in configurations):
        own = [each for each in configurations if each.job == job]
        if len(own) == 1 and any(each.kind for each in configurations):
            continue  # with nothing to compare it with it would read as a verdict
        of_job: list[Best] = []
        for scale in scales(own, has_target, at_budget):
            found = _best_by(scale, configurations, matching, metric)
            others = [each for each in of_job if Criterion.QUALITY not in each.ratios]
            same = [each for each in others if (each.configuration, each.other) == (found.configuration, found.other)]
            if same:
                of_job[of_job.index(same[0])] = replace(same[0], ratios={**same[0].ratios, **found.ratios})
            else:
                of_job.append(found)
        made += [replace(each, workload=workloads.get(job, "")) for each in of_job]
    return made


def scales(configurations: Sequence[Measured], has_target: bool, at_budget: AtBudget | None = None) -> list[Scale]:
    """Return the criteria that the runs of one job allow."""
    made = []
    if at_budget:
        qualities = {each.index: value for each in configurations if math.isfinite(value := at_budget.cost(each))}
        pooled = residual(each.qualities.get(at_budget.metric, ()) for each in configurations)
        metric = at_budget.metric
        by_quality: Compare = lambda own, other, n: quality_difference(own, other, metric, pooled, n)  # noqa: E731
        made = [Scale(Criterion.QUALITY, qualities, by_quality)] if qualities else []
        if made and not has_target:
            return made
    times = residual(each.times for each in configurations)
    successes = residual([t.sample for t in each.tries if t.reached] for each in configurations)
    energies = residual(each.energies for each in configurations)
    prices = {each.index: each.price_per_hour for each in configurations if each.price_per_hour}
    floor = max((each.time_rounding for each in configurations), default=0.0)

    def compare(
        own: Measured, other: Measured, comparisons: int, of_joules: bool = False, of_price: bool = False
    ) -> Ratio | None:
        factor = prices[other.index] / prices[own.index] if of_price else 1.0
        if by_target:
            pooled, cost = (_residual_j(configurations), joules_of) if of_joules else (successes, seconds_of)
            return target_ratio(own, other, pooled, cost, comparisons, factor)
        if of_joules:
            return cost_ratio(own.energies, other.energies, energies, 0.0, comparisons)
        return cost_ratio(own.times, other.times, times, floor, comparisons, factor)

    to_target = {each.index: cost.value for each in configurations if (cost := expected(each.tries))}
    by_target = has_target and bool(to_target)
    if by_target:
        seconds = to_target
        joules = {each.index: cost.value for each in configurations if (cost := expected(each.tries, joules_of))}
    else:
        seconds = {each.index: _geometric_mean(each.times) for each in configurations if each.times}
        joules = {each.index: _geometric_mean(each.energies) for each in configurations if each.energies}
    costs = {index: value * prices[index] / 3600 for index, value in seconds.items() if index in prices}
    made.append(Scale(Criterion.FIRST_TO_TARGET if by_target else Criterion.FASTEST, seconds, compare))
    made += [Scale(Criterion.CHEAPEST, costs, partial(compare, of_price=True))] if len(costs) > 1 else []
    made += [Scale(Criterion.LEAST_ENERGY, joules, partial(compare, of_joules=True))] if len(joules) > 1 else []
    return [each for each in made if each.costs]


def _best_by(scale: Scale, configurations: Sequence[Measured], matching: Matching, metric: str) -> Best:
    order = sorted(scale.costs, key=lambda index: scale.costs[index])
    first = order[0]
    other, comparisons = _compared_with(first, order, matching)
    rest = max(1, len(order) - 1)
    ties: list[int] = []
    unproven: list[int] = []
    for index in order[1:]:
        found = scale.compare(configurations[first], configurations[index], rest)
        if found and found.has_interval and not found.is_significant:
            (unproven if isinstance(found, Ratio) and found.excludes_1 else ties).append(index)
    if other is None:
        return Best(first, None, {scale.criterion: None})
    pair = configurations[first], configurations[other]
    found = scale.compare(*pair, comparisons)
    pooled = residual(each.qualities.get(metric, ()) for each in configurations)
    quality = found if isinstance(found, Difference) else quality_difference(*pair, metric, pooled)
    ratio = found if isinstance(found, Ratio) else None
    return Best(first, other, {scale.criterion: ratio}, quality, tuple(ties), tuple(unproven))


def _compared_with(first: int, order: Sequence[int], matching: Matching) -> tuple[int | None, int]:
    """Return the configuration that the best is compared with, and from how many pairs both were selected.

    Its reference; else the best with the baseline's values; for a reference, the next in the ranking.
    """
    reference = matching.references[first]
    if reference is not None and reference != first:
        return reference, max(1, len(order) - 1)
    if reference is None:
        baseline = [index for index in order if matching.references[index] == index]
        if baseline:
            return baseline[0], (len(order) - len(baseline)) * len(baseline)
    return (order[1], len(order) - 1) if len(order) > 1 else (None, 1)


def _residual_j(configurations: Sequence[Measured]) -> Residual | None:
    return residual(
        [replace(t.sample, value=math.log(t.joules)) for t in each.tries if t.reached and t.joules]
        for each in configurations
    )


def _geometric_mean(samples: Sequence[object]) -> float:
    return math.exp(fmean(each.value for each in samples))  # type: ignore[attr-defined]
