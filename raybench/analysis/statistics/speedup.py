"""How many times as fast, and with what certainty."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import fmean

from raybench.analysis.statistics.intervals import Difference, paired, quantile, variance, welch

LEAST_PAIRS = 3
"""Below this many repeats nothing is paired: with one degree of freedom an interval is wide by chance."""

ALIKE = 1.10
"""Two sides are as fast if their ratio is shown to be below this, and above its inverse."""

FASTER, SLOWER, AS_FAST, UNCLEAR = "faster", "slower", "as fast", "unclear"


@dataclass(frozen=True)
class Speedup:
    """A ratio of times, above 1 where the other is faster than the baseline.

    Attributes:
        ratio: geometric mean of the baseline's times ÷ that of the other's.
        low, high: the 95 % interval; None where a side has one run only, which shows no spread.
        df: degrees of freedom, Welch's or those of pairs; None with the interval.
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
        """Whether the interval leaves 1 out; None where there is none."""
        return None if self.low is None or self.high is None else not self.low <= 1 <= self.high

    def verdict(self, factor: float = 1.0) -> str:
        """`FASTER`, `SLOWER`, `AS_FAST` or `UNCLEAR`; without an interval the ratio alone decides.

        Args:
            factor: what the ratio and its interval are multiplied with, to see whether a distortion matters.
        """
        low, high = (factor * (self.ratio if end is None else end) for end in (self.low, self.high))
        if low > 1 or high < 1:
            return FASTER if low > 1 else SLOWER
        return AS_FAST if self._moved(factor).is_within(math.log(ALIKE)) else UNCLEAR

    def _moved(self, factor: float) -> Difference:
        difference = self.difference or Difference(math.log(self.ratio))
        return replace(difference, value=difference.value + math.log(factor))


def speedup(baseline: Sequence[float], other: Sequence[float]) -> Speedup | None:
    """Compare two sets of times, one number a process, in seconds.

    The interval is Welch's t on the logarithms: it asks for no equal spread, and it covers what it claims with three
    processes a side, where a bootstrap over epochs does not.

    Returns:
        None where a side is empty, or where a time is not above 0 and so has no logarithm.
    """
    logs = _logs(baseline, other)
    return as_speedup(welch(logs[0], logs[1])) if logs else None


def paired_or_welch(
    baseline: Mapping[int, float], other: Mapping[int, float], neighbours: Sequence[Mapping[int, float]] = ()
) -> Speedup | None:
    """Compare two cells of a grid whose repeats ran in turn on one machine: pairs by repeat where that is right.

    A grid runs one whole repeat after another, so that what happens to the machine meanwhile falls on every cell of a
    repeat. Whether it does is read off the *other* cells (`moves`), never off these two: to take the narrower of two
    intervals would make both of them lie. Pairs are right whatever moves; Welch's interval is right, and too wide,
    where something does; so either choice covers what it claims.

    Args:
        baseline, other: repeat and seconds.
        neighbours: the same of the grid's other cells on that machine, or of its canaries; without them, or where the
            two do not have the same repeats, nothing is paired.
    """
    if set(baseline) != set(other) or not repeats_are_correlated(neighbours, set(baseline)):
        return speedup(list(baseline.values()), list(other.values()))
    order = sorted(baseline)
    logs = _logs(*([cell[repeat] for repeat in order] for cell in (baseline, other)))
    return as_speedup(paired(logs[0], logs[1]), is_paired=True) if logs else None


def repeats_are_correlated(neighbours: Sequence[Mapping[int, float]], repeats: set[int]) -> bool:
    """Whether repeats move several cells together by enough for pairs to be worth their degrees of freedom.

    From the two-way analysis of variance of the logarithms, cells by repeats: ρ is the part of a run's variance that
    the cells of a repeat share. Pairs leave 1 − ρ of the variance, and are tighter where √(1 − ρ) · t(n − 1) is below
    t(2n − 2): for 3 repeats where ρ is above 0.58, for 10 above 0.14.

    Args:
        neighbours: repeat and seconds of each of the other cells; one that lacks a repeat asked about is left aside.
        repeats: the repeats of the comparison.
    """
    count = len(repeats)
    table = _logs(*([cell[repeat] for repeat in sorted(repeats)] for cell in neighbours if repeats <= set(cell))) or []
    cells = len(table)
    if count < LEAST_PAIRS or cells < 2:
        return False
    columns = [fmean(column) for column in zip(*table, strict=True)]
    between = cells * variance(columns)
    all_within = sum(variance(row) for row in table)
    # Cells have a mean of their own each; what repeats do not explain of the rest is noise.
    noise = max(0.0, (all_within - between) / (cells - 1))
    total = between + (cells - 1) * noise
    share = (between - noise) / total if total > 0 else 0.0
    return math.sqrt(1 - max(0.0, share)) * quantile(count - 1) < quantile(2 * count - 2)


def _logs(*sides: Sequence[float]) -> list[list[float]] | None:
    """The logarithms of every side; None where one is empty, or has a time that is not above 0."""
    usable = all(side and min(side) > 0 for side in sides)
    return [[math.log(seconds) for seconds in side] for side in sides] if usable else None


def as_speedup(difference: Difference | None, is_paired: bool = False) -> Speedup | None:
    """A difference of logarithms as a ratio."""
    if difference is None:
        return None
    low, high = (None if end is None else math.exp(end) for end in (difference.low, difference.high))
    return Speedup(math.exp(difference.value), low, high, difference.df, is_paired, difference)
