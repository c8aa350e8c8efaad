"""Break-even job length and price of two devices.

A job pays once for loading its framework, for its data and for compilation, and then for every step. The one-time cost
decides short jobs and the cost per step long ones, so a published ratio depends on the length of the job that was run.
A "step" here is the unit that a process repeats: a call, an optimizer step or an epoch.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from statistics import fmean
from typing import Any

from raybench.analysis.statistics import intervals
from raybench.analysis.statistics.speedup import Speedup, speedup
from raybench.results import timing
from raybench.results.attempt import Attempt

LONGEST = 10**9
"""Steps of the longest job considered; at a millisecond each, twelve days."""

BEFORE = ("setup", "data", "build")
"""Sections that a process pays before its first step.

Loading the framework is counted separately.
"""


@dataclass(frozen=True)
class RunCost:
    """The cost of one process, in seconds.

    Attributes:
        steady: per step after warm-up.
        once: before the first step.
        warmup: of each warm-up step, if these are recorded individually.
    """

    steady: float
    once: float = 0.0
    warmup: tuple[float, ...] = ()

    def seconds(self, steps: float) -> float:
        """Return the seconds of a job with this number of steps."""
        if not self.warmup:
            return self.once + steps * self.steady
        warmup_steps = int(min(steps, len(self.warmup)))
        return self.once + sum(self.warmup[:warmup_steps]) + (steps - warmup_steps) * self.steady


def of_attempt(attempt: Attempt) -> RunCost | None:
    """Return a training run's one-time cost and cost per optimizer step.

    Loading the framework counts as if the run had paid for it, and so does the extra time of its warm-up epochs over
    steady ones. Evaluation and checkpoints are left out, because their frequency is not part of the training.

    Returns:
        None if it has no steady epoch, or was interrupted before its ledger was written.
    """
    steady, epochs = timing.steady(attempt), timing.steady_epochs(attempt)
    if not steady or not attempt.ledger or not epochs[-1].steps:
        return None
    slow_start = sum(seconds - steady for seconds in timing.seconds_of_each(attempt.warmup, timing.STEADY))
    once = startup_seconds(attempt) + attempt.ledger.get("compile", 0.0)
    return RunCost(steady / epochs[-1].steps, once + max(0.0, slow_start))


def run_costs_of(runs: Iterable[Attempt]) -> tuple[RunCost, ...]:
    """Return the cost of each run or, with several hosts, host means.

    Means of hosts are independent; runs on one host are not.
    """
    by_host: dict[Any, list[RunCost]] = {}
    for run in runs:
        if process := of_attempt(run):
            by_host.setdefault(run.host.get("name"), []).append(process)
    if len(by_host) < 2:
        return tuple(process for host_processes in by_host.values() for process in host_processes)
    return tuple(
        RunCost(fmean(each.steady for each in host_processes), fmean(each.once for each in host_processes))
        for host_processes in by_host.values()
    )


def startup_seconds(attempt: Attempt) -> float:
    """Return seconds before a run's first step, including framework loading.

    0 if not recorded.
    """
    return sum(attempt.ledger.get(name, 0.0) for name in BEFORE) + (attempt.template_import or 0.0)


def speedup_at(baseline: Sequence[RunCost], other: Sequence[RunCost], steps: float) -> Speedup | None:
    """Return the speed-up of a job of given length, including start-up.

    Its interval is over processes.
    """
    return speedup([each.seconds(steps) for each in baseline], [each.seconds(steps) for each in other])


def long_run(baseline: Sequence[RunCost], other: Sequence[RunCost]) -> Speedup | None:
    """Return the speed-up of the steady steps, the limit for long jobs."""
    return speedup([each.steady for each in baseline], [each.steady for each in other])


@dataclass(frozen=True)
class BreakEven:
    """The faster side as a function of job length.

    Attributes:
        first: the speed-up of a job of one step.
        long_run: that of the steady steps.
        turns_at: the shortest length, in steps, from which on the long-run winner is faster for every longer job; None
            if it is faster from the first step, or the long run is a tie.
        sure_before: up to this length the interval shows the other side to be faster; None if it never does.
        sure_from: from this length on the interval shows the long-run winner to be faster; None if it never does, so
            that nothing is shown at any length.
    """

    first: Speedup
    long_run: Speedup
    turns_at: int | None
    sure_before: int | None
    sure_from: int | None


def break_even_length(baseline: Sequence[RunCost], other: Sequence[RunCost]) -> BreakEven | None:
    """Find the job length at which the faster side changes.

    Its interval inverts the test: between `sure_before` and `sure_from` lie the lengths at which 1 is inside the 95%
    interval of the speed-up.

    Returns:
        None if a side is empty.
    """
    first, last = speedup_at(baseline, other, 1), long_run(baseline, other)
    if first is None or last is None:
        return None
    if last.ratio == 1:
        return BreakEven(first, last, None, None, None)
    sign = 1 if last.ratio > 1 else -1

    @cache  # the searches ask for the same lengths
    def wins(steps: int) -> bool:
        # As the ratio of `speedup_at`, without its interval.
        logs = [fmean([math.log(each.seconds(steps)) for each in side]) for side in (baseline, other)]
        return sign * math.log(math.exp(logs[0] - logs[1])) > 0

    @cache
    def differs(steps: int) -> bool:
        speedup = speedup_at(baseline, other, steps)
        assert speedup is not None
        return bool(speedup.differs)

    def surely(steps: int) -> bool:
        return wins(steps) and differs(steps)

    def surely_loses(steps: int) -> bool:
        return not wins(steps) and differs(steps)

    turns_at = None if wins(1) else _from(wins)
    sure_from = 1 if surely(1) else _from(surely)
    sure_before = None
    if surely_loses(1):
        open_from = _from(lambda steps: not surely_loses(steps))
        sure_before = open_from - 1 if open_from else None
    return BreakEven(first, last, turns_at, sure_before, sure_from)


def _from(holds: Callable[[int], bool]) -> int | None:
    """Return the number of steps from which a condition holds permanently.

    None if it does not hold for the longest job. The search goes downwards in factors of two and then by bisection, so
    it finds the last change.
    """
    if not holds(LONGEST):
        return None
    high, low = LONGEST, LONGEST // 2
    while low >= 1 and holds(low):
        high, low = low, low // 2
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if holds(middle) else (middle, high)
    return high


@dataclass(frozen=True)
class Estimate:
    """A quantity with its 95% interval, which is None with one process."""

    value: float
    low: float | None = None
    high: float | None = None

    def times(self, factor: float) -> Estimate:
        """Multiply value and interval by a factor, such as a unit conversion."""
        ends = (None if end is None else factor * end for end in (self.low, self.high))
        return Estimate(factor * self.value, *ends)


def job(processes: Sequence[RunCost], steps: float) -> Estimate | None:
    """Return the seconds of a job as geometric mean over processes.

    None without one. Multiplied by the price per hour ÷ 3,600, this is the cost of the job.
    """
    value, low, high = intervals.geometric_mean_ci([each.seconds(steps) for each in processes])
    return None if value is None else Estimate(value, low, high)


def cost_ratio(speedup: Speedup, baseline_price: float, other_price: float) -> Estimate:
    """Return the ratio of the baseline's job cost to the other's.

    Prices are per hour, in one currency.
    """
    return Estimate(speedup.ratio, speedup.low, speedup.high).times(baseline_price / other_price)


def break_even_price(speedup: Speedup, baseline_price: float) -> Estimate:
    """Return the other's price per hour at which both costs are equal.

    Below it the other is cheaper.
    """
    return Estimate(speedup.ratio, speedup.low, speedup.high).times(baseline_price)
