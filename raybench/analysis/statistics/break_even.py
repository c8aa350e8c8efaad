"""From which job length on one device is the faster, and from which price on the cheaper.

A job pays once for loading its framework, for its data and for compilation, and then for every step. Short jobs are
decided by the first, long ones by the second, and published ratios by whatever was run. A "step" here is whatever a
process repeats: a call, an optimiser step or an epoch.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any

from raybench.analysis.statistics import intervals
from raybench.analysis.statistics.speedup import Speedup, speedup
from raybench.results import timing
from raybench.results.attempt import Attempt

LONGEST = 10**9
"""Steps of the longest job that is asked about; at a millisecond each, twelve days."""

BEFORE = ("setup", "data", "build")
"""Sections that a process pays before its first step, beside loading the framework."""


@dataclass(frozen=True)
class RunCost:
    """What one process paid, in seconds.

    Attributes:
        steady: for each step, once it is warm.
        once: before the first step.
        warmup: for each of its first steps, where they are told one by one.
    """

    steady: float
    once: float = 0.0
    warmup: tuple[float, ...] = ()

    def seconds(self, steps: float) -> float:
        """What a job of so many steps takes."""
        warmup_steps = int(min(steps, len(self.warmup)))
        return self.once + sum(self.warmup[:warmup_steps]) + (steps - warmup_steps) * self.steady


def of_attempt(attempt: Attempt) -> RunCost | None:
    """What a training run paid: once, and for each optimiser step.

    Loading the framework counts as if the run had paid it, and so does by how much longer than the steady ones its
    warm-up epochs took. Evaluation and checkpoints are left out, for how often one looks is no part of the training.

    Returns:
        None where it has no steady epoch, or was cut before its ledger was told.
    """
    steady, epochs = timing.steady(attempt), timing.steady_epochs(attempt)
    if not steady or not attempt.ledger or not epochs[-1].steps:
        return None
    slow_start = sum(
        timing.steady_seconds(epoch) - steady for epoch in attempt.epochs if epoch.epoch <= attempt.warmup_epochs
    )
    once = startup_seconds(attempt) + attempt.ledger.get("compile", 0.0)
    return RunCost(steady / epochs[-1].steps, once + max(0.0, slow_start))


def run_costs_of(runs: Iterable[Attempt]) -> tuple[RunCost, ...]:
    """What each run paid or, if they ran on several hosts, the mean of those on each: these are independent."""
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
    """Seconds that a run paid before its first step, loading the framework included; 0 where nobody told."""
    return sum(attempt.ledger.get(name, 0.0) for name in BEFORE) + (attempt.template_import or 0.0)


def speedup_at(baseline: Sequence[RunCost], other: Sequence[RunCost], steps: float) -> Speedup | None:
    """The speed-up of a job of so many steps, start-up included, with its interval over processes."""
    return speedup([each.seconds(steps) for each in baseline], [each.seconds(steps) for each in other])


def long_run(baseline: Sequence[RunCost], other: Sequence[RunCost]) -> Speedup | None:
    """The speed-up that ever longer jobs come to: that of the steady steps."""
    return speedup([each.steady for each in baseline], [each.steady for each in other])


@dataclass(frozen=True)
class BreakEven:
    """Which side is faster at which job length.

    Attributes:
        first: the speed-up of a job of one step.
        long_run: that of the steady steps.
        turns_at: the shortest job, in steps, from which on the side that wins in the long run wins every longer one;
            None where that side wins from the first step, or the long run is a tie.
        sure_before: up to this job length the interval shows the other side to be faster; None where it never does.
        sure_from: from this job length on the interval shows the long run's winner; None where it never does, so that
            nothing is shown of any length.
    """

    first: Speedup
    long_run: Speedup
    turns_at: int | None
    sure_before: int | None
    sure_from: int | None


def break_even_length(baseline: Sequence[RunCost], other: Sequence[RunCost]) -> BreakEven | None:
    """Find the job length at which the verdict turns.

    Its interval inverts the test: between `sure_before` and `sure_from` lie the lengths at which 1 is inside the 95 %
    interval of the speed-up.

    Returns:
        None where a side is empty.
    """
    first, last = speedup_at(baseline, other, 1), long_run(baseline, other)
    if first is None or last is None:
        return None
    if last.ratio == 1:
        return BreakEven(first, last, None, None, None)
    sign = 1 if last.ratio > 1 else -1

    def at(steps: int) -> Speedup:
        speedup = speedup_at(baseline, other, steps)
        assert speedup is not None
        return speedup

    def wins(speedup: Speedup) -> bool:
        return sign * math.log(speedup.ratio) > 0

    def surely(speedup: Speedup) -> bool:
        return bool(speedup.differs) and wins(speedup)

    def surely_loses(speedup: Speedup) -> bool:
        return bool(speedup.differs) and not wins(speedup)

    turns_at = None if wins(first) else _from(lambda steps: wins(at(steps)))
    sure_from = 1 if surely(first) else _from(lambda steps: surely(at(steps)))
    sure_before = None
    if surely_loses(first):
        open_from = _from(lambda steps: not surely_loses(at(steps)))
        sure_before = open_from - 1 if open_from else None
    return BreakEven(first, last, turns_at, sure_before, sure_from)


def _from(holds: Callable[[int], bool]) -> int | None:
    """The least number of steps from which on something holds; None where it does not hold for the longest job.

    Sought downwards in factors of two and then by halving, so that the last change counts.
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
    """A quantity with its 95 % interval, which is None with one process."""

    value: float
    low: float | None = None
    high: float | None = None

    def times(self, factor: float) -> Estimate:
        """In another unit."""
        ends = (None if end is None else factor * end for end in (self.low, self.high))
        return Estimate(factor * self.value, *ends)


def job(processes: Sequence[RunCost], steps: float) -> Estimate | None:
    """What a job of so many steps takes, in seconds: the geometric mean over processes; None without one.

    Times the price of an hour ÷ 3,600 it is what the job costs.
    """
    value, low, high = intervals.geometric_mean_ci([each.seconds(steps) for each in processes])
    return None if value is None else Estimate(value, low, high)


def cost_ratio(speedup: Speedup, baseline_price: float, other_price: float) -> Estimate:
    """How many times as much the job costs on the baseline as on the other; prices of an hour, in one currency."""
    return Estimate(speedup.ratio, speedup.low, speedup.high).times(baseline_price / other_price)


def break_even_price(speedup: Speedup, baseline_price: float) -> Estimate:
    """The price of an hour of the other at which the job costs the same on both; below it the other is cheaper."""
    return Estimate(speedup.ratio, speedup.low, speedup.high).times(baseline_price)
