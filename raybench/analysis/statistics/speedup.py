"""Speed-ups with confidence intervals."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from statistics import fmean

from raybench.analysis.statistics import intervals
from raybench.analysis.statistics.intervals import CONFIDENCE, Difference, paired, quantile, variance, welch

LEAST_PAIRS = 3
"""Minimum number of repeats for pairing.

With one degree of freedom the width of an interval is random.
"""

ALIKE = 1.10
"""Equivalence margin of ratios.

Two sides are as fast if their ratio is shown to be between 1 ÷ `ALIKE` and `ALIKE`.
"""

FASTER, SLOWER, AS_FAST, UNCLEAR = "faster", "slower", "as fast", "unclear"


@dataclass(frozen=True)
class Speedup:
    """A ratio of times, above 1 if the other is faster.

    Attributes:
        ratio: geometric mean of the baseline's times ÷ that of the other's.
        low, high: the 95% interval; None if a side has only one run, which gives no variance.
        df: degrees of freedom, Welch's or those of pairs; None without an interval.
        paired: whether runs were compared repeat by repeat.
        difference: the logarithm of the ratio with its standard error; None for a ratio of expected times.
    """

    ratio: float
    low: float | None = None
    high: float | None = None
    df: float | None = None
    paired: bool = False
    difference: Difference | None = None

    @property
    def differs(self) -> bool | None:
        """Whether the interval excludes 1; None without an interval."""
        return None if self.low is None or self.high is None else not self.low <= 1 <= self.high

    def verdict(self, factor: float = 1.0) -> str:
        """Return `FASTER`, `SLOWER`, `AS_FAST` or `UNCLEAR`.

        Without an interval the ratio alone decides.

        Args:
            factor: multiplies the ratio and its interval, to test whether a distortion changes the verdict.
        """
        low, high = (factor * (self.ratio if end is None else end) for end in (self.low, self.high))
        if low > 1 or high < 1:
            return FASTER if low > 1 else SLOWER
        return AS_FAST if self._moved(factor).is_within(math.log(ALIKE)) else UNCLEAR

    @property
    def log(self) -> Difference:
        """The logarithm of the ratio."""
        return self.difference or Difference(math.log(self.ratio))

    def _moved(self, factor: float) -> Difference:
        return replace(self.log, value=self.log.value + math.log(factor))


def speedup(baseline: Sequence[float], other: Sequence[float]) -> Speedup | None:
    """Compare two sets of times in seconds, one number per process.

    The interval is Welch's t on the logarithms: it does not assume equal variances and has its nominal coverage with
    three processes per side, unlike a bootstrap over epochs.

    Returns:
        None if a side is empty, or if a time is not positive and so has no logarithm.
    """
    logs = _logs(baseline, other)
    return as_speedup(welch(logs[0], logs[1])) if logs else None


def paired_or_welch(
    baseline: Mapping[int, float], other: Mapping[int, float], neighbours: Sequence[Mapping[int, float]] = ()
) -> Speedup | None:
    """Compare two cells, paired by repeat if repeats are correlated.

    A grid runs one whole repeat after another on a machine, so events on the machine affect all cells of a repeat.
    Whether they do is estimated from the *other* cells (`repeats_are_correlated`), never from these two: choosing the
    narrower of two intervals would invalidate both. Pairing is valid in either case, and Welch's interval is valid but
    too wide with correlated repeats, so either choice has the nominal coverage.

    Args:
        baseline, other: seconds by repeat.
        neighbours: the same of the grid's other cells on that machine; without them, or if the two cells do
            not have the same repeats, nothing is paired.
    """
    if set(baseline) != set(other) or not repeats_are_correlated(neighbours, set(baseline)):
        return speedup(list(baseline.values()), list(other.values()))
    return paired_speedup(baseline, other)


def paired_speedup(baseline: Mapping[int, float], other: Mapping[int, float]) -> Speedup | None:
    """Compare two cells by the repeats that both have.

    Args:
        baseline, other: seconds by repeat.

    Returns:
        None if they have no repeat in common, or if a time is not positive.
    """
    common = sorted(set(baseline) & set(other))
    logs = _logs(*([cell[repeat] for repeat in common] for cell in (baseline, other)))
    return as_speedup(paired(logs[0], logs[1]), is_paired=True) if logs else None


def repeats_are_correlated(neighbours: Sequence[Mapping[int, float]], repeats: set[int]) -> bool:
    """Return whether repeats are correlated enough for pairing to narrow the interval.

    From the two-way analysis of variance of the logarithms, cells by repeats: ρ is the fraction of a run's variance
    that the cells of a repeat share. Pairing leaves 1 − ρ of the variance and gives a narrower interval if √(1 − ρ) ·
    t(n − 1) is below t(2n − 2): for 3 repeats if ρ is above 0.58, for 10 above 0.14.

    Args:
        neighbours: seconds of each of the other cells by repeat; a cell that lacks one of `repeats` is ignored.
        repeats: the repeats of the comparison.
    """
    if len(repeats) < LEAST_PAIRS:
        return False
    order = sorted(repeats)
    return _are_correlated(
        tuple(tuple(cell[repeat] for repeat in order) for cell in neighbours if repeats <= cell.keys()), len(repeats)
    )


@lru_cache(maxsize=100)
def _are_correlated(seconds: tuple[tuple[float, ...], ...], count: int) -> bool:
    """Return whether repeats are correlated; most pairs of cells of a large grid have the same neighbours.

    Args:
        seconds: of each cell, by repeat.
        count: the number of repeats.
    """
    table = _logs(*seconds) or []
    cells = len(table)
    if cells < 2:
        return False
    columns = [fmean(column) for column in zip(*table, strict=True)]
    between = cells * variance(columns)
    all_within = sum(variance(row) for row in table)
    # Each cell has its own mean; the rest that repeats do not explain is noise.
    noise = max(0.0, (all_within - between) / (cells - 1))
    total = between + (cells - 1) * noise
    share = (between - noise) / total if total > 0 else 0.0
    return math.sqrt(1 - max(0.0, share)) * quantile(count - 1) < quantile(2 * count - 2)


def mean_speedup(speedups: Sequence[Speedup]) -> Speedup | None:
    """Return the geometric mean of independent speed-ups, with its interval.

    Speed-ups without an interval are left out if others have one; None without any.
    """
    return as_speedup(intervals.average([each.log for each in speedups]))


def selected(speedup: Speedup, candidates: int) -> Speedup:
    """Widen the interval of a speed-up that was selected from several (Bonferroni).

    A ratio of expected times has no standard error: its interval is widened on the logarithmic scale by the ratio of
    the normal quantiles.
    """
    if speedup.difference:
        chosen = as_speedup(intervals.simultaneous(speedup.difference, candidates), speedup.paired)
        assert chosen is not None
        return chosen
    if not speedup.low or speedup.high is None:
        return speedup
    factor = quantile(math.inf, 1 - (1 - CONFIDENCE) / (2 * candidates)) / quantile(math.inf)
    ends = ((end / speedup.ratio) ** factor * speedup.ratio for end in (speedup.low, speedup.high))
    return Speedup(speedup.ratio, *ends)


def inverse(speedup: Speedup) -> Speedup:
    """Return the speed-up of the baseline over the other."""
    ends = (None if end is None else 1 / end if end else math.inf for end in (speedup.high, speedup.low))
    log = speedup.difference
    if log:
        low, high = (None if end is None else -end for end in (log.high, log.low))
        log = replace(log, value=-log.value, low=low, high=high)
    low, high = ends
    return Speedup(1 / speedup.ratio, low, high, speedup.df, speedup.paired, log)


def is_heterogeneous(speedups: Sequence[Speedup]) -> bool:
    """Return whether speed-ups are shown to be unequal, by more than the equivalence margin."""
    ratios = [each.ratio for each in speedups]
    return max(ratios) > ALIKE * min(ratios) and intervals.heterogeneous([each.log for each in speedups])


def _logs(*sides: Sequence[float]) -> list[list[float]] | None:
    """Return the logarithms of every side.

    None if a side is empty or has a time that is not positive.
    """
    usable = all(side and min(side) > 0 for side in sides)
    return [[math.log(seconds) for seconds in side] for side in sides] if usable else None


def as_speedup(difference: Difference | None, is_paired: bool = False) -> Speedup | None:
    """Convert a difference of logarithms to a ratio."""
    if difference is None:
        return None
    # The interval of very different runs can exceed the range of a float.
    low, high = (None if end is None else math.exp(min(700.0, end)) for end in (difference.low, difference.high))
    return Speedup(math.exp(difference.value), low, high, difference.df, is_paired, difference)
