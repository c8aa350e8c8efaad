"""Several workloads: how fast each device is over all of them, and where the order is another."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace

from raybench.analysis.answer import LARGE_DIFFERENCE, Criterion, OverWorkloads, Ratio
from raybench.analysis.best import scales
from raybench.analysis.measured import Measured
from raybench.core.text import format_value
from raybench.errors import UsageError, nearest


def over_workloads(
    configurations: Sequence[Measured], workloads: Mapping[str, str], metric: str, weights: Mapping[str, float]
) -> list[OverWorkloads]:
    """Return each device relative to the first of the grid over all workloads, the fastest first.

    The best configuration of a device stands for it in a workload. A device that lacks one is left out.

    Args:
        workloads: their names, by job.
        weights: by name; 1 if not given.

    Raises:
        UsageError: a weight is of no workload.
    """
    if unknown := next((name for name in weights if name not in workloads.values()), None):
        raise UsageError(f"weights: no workload {unknown}; {nearest(unknown, workloads.values())}")
    speeds: dict[str, dict[str, dict[str, Ratio]]] = {}  # by device and workload, relative to each device
    prices: dict[str, dict[str, Ratio]] = {}
    first = next((format_value(cell.axes["device"]) for cell in configurations if "device" in cell.axes), None)
    criteria = set()
    for job, workload in workloads.items():
        by_criterion = scales([cell for cell in configurations if cell.job == job], metric)
        costs = by_criterion[0].costs if by_criterion else {}
        criteria.add(by_criterion[0].criterion if by_criterion else None)
        best: dict[str, int] = {}
        for index in sorted(costs, key=lambda index: costs[index]):
            best.setdefault(format_value(configurations[index].axes.get("device")), index)
        price = next((criterion for criterion in by_criterion if criterion.criterion is Criterion.CHEAPEST), None)
        for device, index in best.items():
            of_pairs = speeds.setdefault(device, {}).setdefault(workload, {})
            for rival, other_index in best.items():
                pair = configurations[index], configurations[other_index]
                ratio = by_criterion[0].compare(*pair) if index != other_index else Ratio(1, 1, 1)
                if isinstance(ratio, Ratio):
                    of_pairs[rival] = ratio
            if price and first in best and {index, best[first]} <= price.costs.keys() and all(price.costs.values()):
                cost = price.compare(configurations[index], configurations[best[first]])
                if isinstance(cost, Ratio):
                    prices.setdefault(device, {})[workload] = cost
    names = list(dict.fromkeys(workloads.values()))
    complete = [
        device for device, of_device in speeds.items() if all(first in of_device.get(name, {}) for name in names)
    ]
    if len(names) < 2 or len(complete) < 2 or first not in complete or len(criteria) > 1:
        return []  # times to a target and of a unit of work have no mean
    rows = []
    for device in complete:
        ratios = {name: speeds[device][name][first] for name in names}
        costs_of = prices.get(device, {})
        mean_cost = weighted_mean(costs_of, weights) if costs_of.keys() == ratios.keys() else None
        rows.append(OverWorkloads(device, first, weighted_mean(ratios, weights), ratios, mean_cost))
    rows.sort(key=lambda row: -row.speed.value)
    fastest = rows[0].device
    return [
        replace(row, faster_on=tuple(name for name in names if _is_faster(speeds[row.device][name].get(fastest))))
        for row in rows
    ]


def weighted_mean(ratios: Mapping[str, Ratio], weights: Mapping[str, float]) -> Ratio:
    """Return the weighted geometric mean of ratios, by workload.

    Workloads share the machines and their state, so that errors may be the same in all: the half-width of the interval
    is the mean of theirs, on the log scale, which holds whatever they share.
    """
    total = sum(weights.get(name, 1.0) for name in ratios)

    def mean(values: Mapping[str, float]) -> float:
        return math.exp(sum(weights.get(name, 1.0) * math.log(value) for name, value in values.items()) / total)

    value = mean({name: ratio.value for name, ratio in ratios.items()})
    runs = min(ratio.runs for ratio in ratios.values()), min(ratio.other_runs for ratio in ratios.values())
    if not all(ratio.has_interval for ratio in ratios.values()):
        return Ratio(value, None, None, *runs)
    low, high = (mean({name: getattr(ratio, end) for name, ratio in ratios.items()}) for end in ("low", "high"))
    return Ratio(value, low, high, *runs, holds_if_no_miss=any(ratio.holds_if_no_miss for ratio in ratios.values()))


def _is_faster(ratio: Ratio | None) -> bool:
    if ratio is None:
        return False
    return ratio.is_better if ratio.has_interval else ratio.value > LARGE_DIFFERENCE
