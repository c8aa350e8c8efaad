"""The ranking of configurations, and the best by each criterion."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import fmean

from raybench.analysis.answer import LARGE_DIFFERENCE, Best, BestOfDevice, Criterion, Difference, Ratio, Verdict
from raybench.analysis.intervals import additive_means
from raybench.analysis.matching import Matching
from raybench.analysis.measured import ENERGY, ENERGY_TO_TARGET, TIME, TIME_TO_TARGET, Measured
from raybench.analysis.ratios import cost_ratio, cost_summary, is_accuracy, quality_difference, unlike
from raybench.analysis.targets import expected, target_ratio
from raybench.core.text import format_value
from raybench.results.run_table import price_of


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
    made: list[Best] = []
    for job in dict.fromkeys(each.job for each in configurations):
        own = [each for each in configurations if each.job == job]
        is_split = any(each.kind for each in configurations) or any(each.untimed for each in own)
        if is_split and sum(bool(each.times) for each in own) == 1:
            continue  # with nothing to compare it with it would read as a verdict
        of_job: list[Best] = []
        for scale in scales(own, metric, quality_sign):
            found = _best_by(scale, configurations, matching, metric)
            others = [each for each in of_job if Criterion.QUALITY not in each.ratios]
            same = [each for each in others if (each.configuration, each.other) == (found.configuration, found.other)]
            # What only the later criterion does not tell apart is named in a sentence of its own.
            same = [each for each in same if found.close <= each.close and found.verdict is each.verdict]
            if same:
                of_job[of_job.index(same[0])] = replace(same[0], ratios={**same[0].ratios, **found.ratios})
            else:
                of_job.append(found)
            if scale.criterion is Criterion.FASTEST and (near := _near_best(scale, found, own, metric, *kept)):
                of_job.append(_best_by(near, configurations, matching, metric, found))
        made += [replace(each, workload=workloads.get(job, "")) for each in of_job]
    return made


def best_of_devices(
    configurations: Sequence[Measured], metric: str, quality_sign: int | None = None
) -> list[BestOfDevice]:
    """Return the best configuration of each device and job by the first criterion; none if no device has several."""
    made: list[BestOfDevice] = []
    for job in dict.fromkeys(each.job for each in configurations):
        own = [each for each in configurations if each.job == job]
        scale = next(iter(scales(own, metric, quality_sign)), None)
        if scale is None:
            continue
        groups: dict[str, list[int]] = {}
        for index in sorted(scale.costs, key=lambda index: scale.costs[index]):
            groups.setdefault(format_value(configurations[index].axes.get("device")), []).append(index)
        for first, *others in groups.values() if len(groups) > 1 else ():
            pairs = {index: scale.compare(configurations[first], configurations[index]) for index in others}
            known = {index: found for index, found in pairs.items() if found and found.has_interval}
            close = tuple(index for index, found in known.items() if not found.is_significant)
            is_certain = not close if others and len(known) == len(others) else None
            made.append(BestOfDevice(first, close, 1 + len(others), is_certain))
    return made if any(each.of > 1 for each in made) else []


def scales(configurations: Sequence[Measured], metric: str = "", quality_sign: int | None = None) -> list[Scale]:
    """Return the criteria that the runs of one job allow."""
    made: list[Scale] = []
    configurations = [each for each in configurations if not each.misses] or configurations
    if quality_sign == 0 or (quality_sign and len({each.scales.get(metric) for each in configurations}) > 1):
        return made
    samples = {each.index: own for each in configurations if (own := each.qualities.get(metric))}
    if quality_sign and samples:
        qualities = {index: quality_sign * fmean(each.value for each in own) for index, own in samples.items()}
        made = [Scale(Criterion.QUALITY, qualities, lambda own, other: quality_difference(own, other, metric))]
        if not any(each.tries for each in configurations):
            return made
    is_reached = any(each.reached for own in configurations for each in own.tries)
    ratio = target_ratio if is_reached else cost_ratio
    time, energy = (TIME_TO_TARGET, ENERGY_TO_TARGET) if is_reached else (TIME, ENERGY)
    prices = {each.index: each.price_per_hour for each in configurations if each.price_per_hour is not None}
    seconds, joules = _costs(configurations, time), _costs(configurations, energy)
    costs = {
        index: price for index, own_s in seconds.items() if (price := price_of(own_s, prices.get(index))) is not None
    }

    def by_price(own: Measured, other: Measured) -> Ratio | None:
        if not prices[own.index]:  # what is free needs no comparison
            return None if prices[other.index] else Ratio(1.0, 1.0, 1.0)
        return ratio(own, other, time, prices[other.index] / prices[own.index])

    first = Criterion.FIRST_TO_TARGET if is_reached else Criterion.FASTEST
    made.append(Scale(first, seconds, lambda own, other: ratio(own, other, time)))
    if len(costs) > 1:
        made.append(Scale(Criterion.CHEAPEST, costs, by_price))
    if len(joules) > 1:
        made.append(Scale(Criterion.LEAST_ENERGY, joules, lambda own, other: ratio(own, other, energy)))
    return [each for each in made if each.costs]


def _costs(configurations: Sequence[Measured], quantity: str) -> dict[int, float]:
    """Return the expected costs to the target, or else those of a unit of work, by index."""
    if quantity in (TIME_TO_TARGET, ENERGY_TO_TARGET):
        totals = {each.index: expected(each.tries, quantity) for each in configurations}
        return {index: total.value for index, total in totals.items() if total}
    runs = {each.index: own for each in configurations if (own := each.samples(quantity))}
    all_runs = [run for own in runs.values() for run in own]
    if len({run.host for run in all_runs}) == 1 and all(run.stopping and run.stopping.is_common for run in all_runs):
        return {index: math.exp(value) for index, value in additive_means(runs).items()}
    return {index: summary.value for index, own in runs.items() if (summary := cost_summary(own))}


def _near_best(
    scale: Scale, fastest: Best, configurations: Sequence[Measured], metric: str, sign: int, loss: float
) -> Scale | None:
    """Return the scale of those near the best quality; None if the fastest is, or is not shown to lose quality."""
    if not sign:
        return None
    first = next(each for each in configurations if each.index == fastest.configuration)
    own = {each.index: each for each in configurations if each.index in scale.costs and each.qualities.get(metric)}
    own = {index: each for index, each in own.items() if not unlike(first, each, metric)}
    worse = {index: sign * fmean(sample.value for sample in each.qualities[metric]) for index, each in own.items()}
    if fastest.configuration not in worse:
        return None
    best_quality = min(worse, key=lambda index: worse[index])
    limit = worse[best_quality] + loss * (1.0 if is_accuracy(metric) else abs(worse[best_quality]))
    lost = quality_difference(own[fastest.configuration], own[best_quality], metric)
    if lost is None or (lost.has_interval and not lost.is_significant) or worse[fastest.configuration] <= limit:
        return None
    costs = {index: cost for index, cost in scale.costs.items() if worse.get(index, math.inf) <= limit}
    return replace(scale, criterion=Criterion.KEEPS_QUALITY, costs=costs)


def _best_by(
    scale: Scale, configurations: Sequence[Measured], matching: Matching, metric: str, fastest: Best | None = None
) -> Best:
    """Return the best by a criterion; `fastest` is the best of all if the scale has only some."""
    order = sorted(scale.costs, key=lambda index: scale.costs[index])
    first, other = order[0], _compared_with(order, matching)
    if fastest:
        other = matching.references[first] if matching.references[first] in order[1:] else fastest.configuration
    near: dict[int, Ratio | Difference] = {}
    for index in order[1:]:
        found = scale.compare(configurations[first], configurations[index])
        # One run of another configuration does not show that it is worse, unless it is much worse.
        is_near = isinstance(found, Ratio) and found.runs > 1 and found.value < LARGE_DIFFERENCE
        if not found or found.is_significant or not (found.has_interval or is_near):
            continue
        # If machines differ, the first may not be shown to be better, but one on the same machines is.
        betters = (scale.compare(configurations[better], configurations[index]) for better in near)
        if found.is_equal or not any(isinstance(each, Ratio) and each.is_better for each in betters):
            near[index] = found
    unproven = [index for index, found in near.items() if isinstance(found, Ratio) and found.excludes(1)]
    ties = [index for index in near if index not in unproven]
    are_equal = all(found.is_equal for found in near.values())
    if other is None:
        return Best(first, None, {scale.criterion: None}, verdict=None)
    pair = configurations[first], configurations[other]
    found = scale.compare(*pair)
    if found is None:
        verdict = Verdict.UNDECIDED if scale.costs[first] else Verdict.BETTER  # free
    elif not found.has_interval:
        verdict = Verdict.ONE_RUN if found.runs == found.other_runs == 1 else Verdict.UNDECIDED
    elif any(fastest or matching.are_rivals(first, index) for index in (*ties, *unproven)):
        verdict = Verdict.EQUAL if are_equal else Verdict.UNDECIDED
    else:
        verdict = Verdict.BETTER if fastest or found.is_significant else Verdict.UNDECIDED
    quality = found if isinstance(found, Difference) else quality_difference(*pair, metric)
    ratio = found if isinstance(found, Ratio) else None
    return Best(first, other, {scale.criterion: ratio}, quality, tuple(ties), tuple(unproven), verdict=verdict)


def _compared_with(order: Sequence[int], matching: Matching) -> int | None:
    """Return the configuration that the best is compared with.

    Its reference, if it has a cost; else the best with the baseline's values; for a reference, the next in the ranking,
    of those that differ on the compared axes if there are any. Without a requested baseline, the best by this criterion
    takes the place of a reference, which is the best by the first.
    """
    first, *others = order
    reference = matching.references[first]
    rivals = [index for index in others if matching.are_rivals(first, index)]
    if reference in others and not matching.compares_best:
        return reference
    if matching.compares_best and reference is not None:
        baseline = [index for index in rivals if not matching.are_rivals(reference, index)]
    else:
        baseline = [index for index in others if matching.references[index] == index and reference != first]
    return next(iter([*baseline, *rivals, *others]), None)
