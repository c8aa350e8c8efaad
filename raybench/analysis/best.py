"""The ranking of configurations, and the best by each criterion."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from statistics import fmean

from raybench.analysis.answer import LARGE_DIFFERENCE, Best, BestOfDevice, Criterion, Difference, Ratio, Verdict
from raybench.analysis.intervals import additive_means
from raybench.analysis.matching import Matching
from raybench.analysis.measured import ENERGY, ENERGY_TO_TARGET, TIME, TIME_TO_TARGET, Measured, by_job
from raybench.analysis.ratios import cost_ratio, cost_summary, quality_difference, unlike
from raybench.analysis.targets import expected, target_ratio
from raybench.core.groups import grouped
from raybench.core.job import is_accuracy
from raybench.core.text import format_value
from raybench.results.run_table import price_of

MOST_NEAREST = 8  # with how many of those nearest to the best another is compared: all pairs of 1,000 take a minute


@dataclass(frozen=True)
class Scale:
    """A criterion: its cost of each configuration, and the comparison of two.

    Attributes:
        costs: by index; less is better.
        compare: of two configurations; a ratio is above 1 if the first is better.
    """

    criterion: Criterion
    costs: Mapping[int, float]
    compare: Callable[[Measured, Measured], Ratio | Difference | None]


def ranking(configurations: Sequence[Measured], metric: str = "", quality_sign: int | None = None) -> list[int]:
    """Return the indices of configurations with a time, best first within each job.

    By quality at a budget, else by expected time to the target, then those that never reached it; else by time.
    """
    ranked: list[int] = []
    if quality_sign == 0:
        return ranked
    for of_job in by_job(configurations).values():
        costs = next((scale.costs for scale in scales(of_job, metric, quality_sign)), {})
        times = {cell.index: fmean(sample.value for sample in cell.times) for cell in of_job if cell.times}
        rankable = [cell.index for cell in of_job if cell.index in {**costs, **times} or cell.tries]
        ranked += sorted(rankable, key=lambda index: (costs.get(index, math.inf), times.get(index, math.inf)))
    return ranked


def best(
    configurations: Sequence[Measured],
    matching: Matching,
    metric: str,
    workloads: Mapping[str, str],
    quality_sign: int | None = None,
    kept: tuple[int, float] = (0, math.inf),
) -> list[Best]:
    """Return the best configuration by each criterion, for each job.

    With a budget, its quality decides, and speed and price of a unit of work do not.

    Args:
        quality_sign: with a budget, -1 if more of the metric is better, 1 if less is, 0 if that is not known: then
            there is no best; None without a budget.
        kept: such a sign, and the loss of quality with which a configuration still counts as near the best.
    """
    bests: list[Best] = []
    for job, in_job in by_job(configurations).items():
        is_split = any(cell.kind for cell in configurations) or any(cell.untimed for cell in in_job)
        if is_split and sum(bool(cell.times) for cell in in_job) == 1:
            continue  # with nothing to compare it with it would read as a verdict
        of_job: list[Best] = []
        for scale in scales(in_job, metric, quality_sign):
            winner = _best_by(scale, configurations, matching, metric)
            mergeable = [best for best in of_job if Criterion.QUALITY not in best.ratios]
            alike = [
                best for best in mergeable if (best.configuration, best.other) == (winner.configuration, winner.other)
            ]
            # What only the later criterion does not tell apart is named in a sentence of its own.
            alike = [best for best in alike if winner.close <= best.close and winner.verdict is best.verdict]
            if alike:
                of_job[of_job.index(alike[0])] = replace(alike[0], ratios={**alike[0].ratios, **winner.ratios})
            else:
                of_job.append(winner)
            if scale.criterion is Criterion.FASTEST and (near := _near_best(scale, winner, in_job, metric, *kept)):
                of_job.append(_best_by(near, configurations, matching, metric, winner))
        bests += [replace(best, workload=workloads.get(job, "")) for best in of_job]
    return bests


def best_of_devices(
    configurations: Sequence[Measured], metric: str, quality_sign: int | None = None
) -> list[BestOfDevice]:
    """Return the best configuration of each device and job by the first criterion; none if no device has several."""
    bests: list[BestOfDevice] = []
    for in_job in by_job(configurations).values():
        scale = next(iter(scales(in_job, metric, quality_sign)), None)
        if scale is None:
            continue
        order = sorted(scale.costs, key=scale.costs.__getitem__)
        groups = grouped((format_value(configurations[index].axes.get("device")), index) for index in order)
        for first, *rivals in groups.values() if len(groups) > 1 else ():
            pairs = {index: scale.compare(configurations[first], configurations[index]) for index in rivals}
            comparisons = {index: ratio for index, ratio in pairs.items() if ratio and ratio.has_interval}
            close = tuple(index for index, ratio in comparisons.items() if not ratio.is_significant)
            is_certain = not close if rivals and len(comparisons) == len(rivals) else None
            bests.append(BestOfDevice(first, close, 1 + len(rivals), is_certain))
    return bests if any(best.of > 1 for best in bests) else []


def scales(configurations: Sequence[Measured], metric: str = "", quality_sign: int | None = None) -> list[Scale]:
    """Return the criteria that the runs of one job allow."""
    criteria: list[Scale] = []
    configurations = [cell for cell in configurations if not cell.misses] or configurations
    if quality_sign == 0 or (quality_sign and len({cell.scales.get(metric) for cell in configurations}) > 1):
        return criteria
    samples = {cell.index: runs for cell in configurations if (runs := cell.qualities.get(metric))}
    if quality_sign and samples:
        qualities = {index: quality_sign * fmean(sample.value for sample in runs) for index, runs in samples.items()}
        criteria = [Scale(Criterion.QUALITY, qualities, lambda cell, base: quality_difference(cell, base, metric))]
        if not any(cell.tries for cell in configurations):
            return criteria
    is_reached = any(target_run.reached for cell in configurations for target_run in cell.tries)
    ratio = target_ratio if is_reached else cost_ratio
    time, energy = (TIME_TO_TARGET, ENERGY_TO_TARGET) if is_reached else (TIME, ENERGY)
    prices = {cell.index: cell.price_per_hour for cell in configurations if cell.price_per_hour is not None}
    seconds, joules = _costs(configurations, time), _costs(configurations, energy)
    costs = {
        index: price for index, cost_s in seconds.items() if (price := price_of(cost_s, prices.get(index))) is not None
    }

    def by_price(cell: Measured, reference: Measured) -> Ratio | None:
        if not prices[cell.index]:  # what is free needs no comparison
            return None if prices[reference.index] else Ratio(1.0, 1.0, 1.0)
        return ratio(cell, reference, time, prices[reference.index] / prices[cell.index])

    first = Criterion.FIRST_TO_TARGET if is_reached else Criterion.FASTEST
    criteria.append(Scale(first, seconds, lambda cell, base: ratio(cell, base, time)))
    if len(costs) > 1:
        criteria.append(Scale(Criterion.CHEAPEST, costs, by_price))
    if len(joules) > 1:
        criteria.append(Scale(Criterion.LEAST_ENERGY, joules, lambda cell, base: ratio(cell, base, energy)))
    return [criterion for criterion in criteria if criterion.costs]


def _costs(configurations: Sequence[Measured], quantity: str) -> dict[int, float]:
    """Return the expected costs to the target, or else those of a unit of work, by index."""
    if quantity in (TIME_TO_TARGET, ENERGY_TO_TARGET):
        totals = {cell.index: expected(cell.tries, quantity) for cell in configurations}
        return {index: total.value for index, total in totals.items() if total}
    runs = {cell.index: values for cell in configurations if (values := cell.samples(quantity))}
    all_runs = [run for values in runs.values() for run in values]
    if len({run.host for run in all_runs}) == 1 and all(run.stopping and run.stopping.is_common for run in all_runs):
        return {index: math.exp(value) for index, value in additive_means(runs).items()}
    return {index: summary.value for index, values in runs.items() if (summary := cost_summary(values))}


def _near_best(
    scale: Scale, fastest: Best, configurations: Sequence[Measured], metric: str, sign: int, loss: float
) -> Scale | None:
    """Return the scale of those near the best quality; None if the fastest is, or is not shown to lose quality."""
    if not sign:
        return None
    first = next(cell for cell in configurations if cell.index == fastest.configuration)
    rivals = {cell.index: cell for cell in configurations if cell.index in scale.costs and cell.qualities.get(metric)}
    rivals = {index: cell for index, cell in rivals.items() if not unlike(first, cell, metric)}
    worse = {index: sign * fmean(sample.value for sample in cell.qualities[metric]) for index, cell in rivals.items()}
    if fastest.configuration not in worse:
        return None
    best_quality = min(worse, key=lambda index: worse[index])
    limit = worse[best_quality] + loss * (1.0 if is_accuracy(metric) else abs(worse[best_quality]))
    lost = quality_difference(rivals[fastest.configuration], rivals[best_quality], metric)
    if lost is None or (lost.has_interval and not lost.is_significant) or worse[fastest.configuration] <= limit:
        return None
    costs = {index: cost for index, cost in scale.costs.items() if worse.get(index, math.inf) <= limit}
    return replace(scale, criterion=Criterion.KEEPS_QUALITY, costs=costs)


def _best_by(
    scale: Scale, configurations: Sequence[Measured], matching: Matching, metric: str, fastest: Best | None = None
) -> Best:
    """Return the best by a criterion; `fastest` is the best of all if the scale has only some."""
    order = sorted(scale.costs, key=lambda index: scale.costs[index])
    first, rival = order[0], _compared_with(order, matching)
    if fastest:
        rival = matching.references[first] if matching.references[first] in order[1:] else fastest.configuration
    near: dict[int, Ratio | Difference] = {}
    for index in order[1:]:
        comparison = scale.compare(configurations[first], configurations[index])
        # One run of another configuration does not show that it is worse, unless it is much worse.
        is_near = isinstance(comparison, Ratio) and comparison.runs > 1 and comparison.value < LARGE_DIFFERENCE
        if not comparison or comparison.is_significant or not (comparison.has_interval or is_near):
            continue
        # If machines differ, the first may not be shown to be better, but one on the same machines is.
        nearest = islice(near, MOST_NEAREST)
        betters = (scale.compare(configurations[better], configurations[index]) for better in nearest)
        if comparison.is_equal or not any(
            isinstance(comparison, Ratio) and comparison.is_better for comparison in betters
        ):
            near[index] = comparison
    unproven = [index for index, comparison in near.items() if isinstance(comparison, Ratio) and comparison.excludes(1)]
    ties = [index for index in near if index not in unproven]
    are_equal = all(comparison.is_equal for comparison in near.values())
    if rival is None:
        return Best(first, None, {scale.criterion: None}, verdict=None)
    pair = configurations[first], configurations[rival]
    comparison = scale.compare(*pair)
    if comparison is None:
        verdict = Verdict.UNDECIDED if scale.costs[first] else Verdict.BETTER  # free
    elif not comparison.has_interval:
        verdict = Verdict.ONE_RUN if comparison.runs == comparison.other_runs == 1 else Verdict.UNDECIDED
    elif any(fastest or matching.are_rivals(first, index) for index in (*ties, *unproven)):
        verdict = Verdict.EQUAL if are_equal else Verdict.UNDECIDED
    else:
        verdict = Verdict.BETTER if fastest or comparison.is_significant else Verdict.UNDECIDED
    quality = comparison if isinstance(comparison, Difference) else quality_difference(*pair, metric)
    ratio = comparison if isinstance(comparison, Ratio) else None
    return Best(first, rival, {scale.criterion: ratio}, quality, tuple(ties), tuple(unproven), verdict=verdict)


def _compared_with(order: Sequence[int], matching: Matching) -> int | None:
    """Return the configuration that the best is compared with.

    Its reference, if it has a cost; else the best with the baseline's values; for a reference, the next in the ranking,
    of those that differ on the compared axes if there are any. Without a requested baseline, the best by this criterion
    takes the place of a reference, which is the best by the first.
    """
    first, *rest = order
    reference = matching.references[first]
    rivals = [index for index in rest if matching.are_rivals(first, index)]
    if reference in rest and not matching.compares_best:
        return reference
    if matching.compares_best and reference is not None:
        baseline = [index for index in rivals if not matching.are_rivals(reference, index)]
    else:
        baseline = [index for index in rest if matching.references[index] == index and reference != first]
    return next(iter([*baseline, *rivals, *rest]), None)
