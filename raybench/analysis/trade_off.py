"""Time and price together: the configurations that no other beats in both, and what the next one costs."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace

from raybench.analysis.answer import Configuration, Criterion, Ratio, Step, TradeOff, Within
from raybench.analysis.best import Scale, scales
from raybench.analysis.measured import Measured, by_job
from raybench.analysis.ratios import quality_difference
from raybench.core.groups import grouped
from raybench.results.run_table import price_of


def trade_offs(configurations: Sequence[Measured], metric: str, workloads: Mapping[str, str]) -> list[TradeOff]:
    """Return the trade-off of each job of which several configurations have a price."""
    curves = []
    for job, of_job in by_job(configurations).items():
        by = {scale.criterion: scale for scale in scales(of_job)}
        time, price = by.get(Criterion.FIRST_TO_TARGET) or by.get(Criterion.FASTEST), by.get(Criterion.CHEAPEST)
        if time and price:
            trade_off = _Curve(configurations, time, price, metric).trade_off()
            curves.append(replace(trade_off, workload=workloads.get(job, "")))
    return curves


def run_costs(configuration: Configuration) -> tuple[float | None, float | None]:
    """Return seconds and price of a run, to the target if one was set; None if unknown."""
    if to := configuration.to_target:
        return to.expected.value if to.expected else None, to.price.value if to.price else None
    return configuration.total_s, configuration.total_price


def choices(
    configurations: Sequence[Configuration], deadline_s: float = math.inf, spend_at_most: float = math.inf
) -> list[Within]:
    """Return the choice of each workload within a deadline and what a run may cost, by the means of runs."""
    jobs = grouped(((cell.workload, str(cell.axes.get("data_set") or "")), cell) for cell in configurations)
    within = []
    for job, rows in jobs.items():
        costs = {row.index: (seconds, price) for row in rows for seconds, price in [run_costs(row)] if seconds}
        if math.isfinite(spend_at_most):
            costs = {index: cost for index, cost in costs.items() if cost[1] is not None}
        if not costs:
            continue

        def excess(seconds: float | None, price: float | None) -> float:
            return max((seconds or 0.0) / deadline_s, (price or 0.0) / spend_at_most)

        order = sorted(costs, key=lambda index: costs[index])
        if math.isfinite(deadline_s):  # the least price is what is then left to choose
            order.sort(key=lambda index: math.inf if costs[index][1] is None else costs[index][1] or 0.0)
        inside = [index for index in order if excess(*costs[index]) <= 1]
        nearest = min(costs, key=lambda index: excess(*costs[index]))
        name = ", ".join(filter(None, job)) if len(jobs) > 1 else ""
        if not inside:
            within.append(Within(None, nearest, workload=name))
            continue
        choice = next(row for row in rows if row.index == inside[0])
        seconds_of = [run.to_target_s if choice.to_target else run.total_s for run in choice.runs]
        runs = [run_s for run_s in seconds_of if run_s and excess(run_s, price_of(run_s, choice.price_per_hour)) <= 1]
        count = choice.to_target.tried if choice.to_target else len(seconds_of)
        within.append(Within(choice.index, nearest, len(inside), len(runs), count, name))
    return within


class _Curve:
    """The configurations of a job with a time and a price; `front` are those that none beats by the means."""

    def __init__(self, configurations: Sequence[Measured], time: Scale, price: Scale, metric: str) -> None:
        self.configurations, self.time, self.price, self.metric = configurations, time, price, metric
        self.order = sorted(price.costs, key=lambda index: (price.costs[index], time.costs[index]))
        self.front, self.holds_if_no_miss = self.order[:1], False
        for index in self.order:
            if time.costs[index] < time.costs[self.front[-1]]:
                self.front.append(index)

    def trade_off(self) -> TradeOff:
        """Walk from the cheapest to the fastest.

        Left out is what is not shown to be faster than a cheaper one.
        """
        cheapest, fastest = self.front[0], self.front[-1]
        steps = [Step(cheapest)]
        for index in self.front[1:]:
            last = steps[-1]
            if is_open(self._ratio(self.time, index, last.configuration)):
                steps[-1] = replace(last, as_fast=(*last.as_fast, index))
            else:
                steps.append(self._step(index, last.configuration))
        beaten_or_slower = [index for index in self.order if all(index != step.configuration for step in steps)]
        beaten = {index: winner for index in beaten_or_slower if (winner := self._winner(index)) is not None}
        pair = self._ratio(self.time, fastest, cheapest), self._ratio(self.price, cheapest, fastest)
        return TradeOff(tuple(steps), cheapest, fastest, *pair, beaten, self.holds_if_no_miss)

    def _step(self, index: int, cheaper: int) -> Step:
        quality = quality_difference(self.configurations[index], self.configurations[cheaper], self.metric)
        speed, price = self._ratio(self.time, index, cheaper), self._ratio(self.price, index, cheaper)
        return Step(index, cheaper, speed, price, quality)

    def _winner(self, index: int) -> int | None:
        """Return the configuration that is shown to be faster and cheaper; None if none is."""
        for winner in self.front:
            speed, cost = self._ratio(self.time, winner, index), self._ratio(self.price, winner, index)
            is_cheaper = cost.is_better if cost else self.price.costs[winner] < self.price.costs[index]
            if speed and speed.is_better and is_cheaper:
                self.holds_if_no_miss |= speed.holds_if_no_miss
                return winner
        return None

    def _ratio(self, scale: Scale, index: int, reference: int) -> Ratio | None:
        """Return how much better a configuration is than the other; None if either is free, or is the other."""
        if index == reference or (scale is self.price and 0 in (scale.costs[index], scale.costs[reference])):
            return None
        ratio = scale.compare(self.configurations[index], self.configurations[reference])
        return ratio if isinstance(ratio, Ratio) else None


def is_open(ratio: Ratio | None) -> bool:
    """Return whether runs leave open which of two is better; one run of each decides by its value."""
    return ratio is not None and ratio.has_interval and not ratio.excludes(1)
