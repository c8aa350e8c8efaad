"""How many times as fast, and with what certainty."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean

from raybench.analysis.welch import Difference, paired, quantile, repeats, variance, welch

SURE_OF = 0.05
"""The difference in speed that people ask about: 5 %."""

ALIKE = 1.10
"""Where even this ratio would not have shown, that none has is no sign that both are as fast."""


@dataclass(frozen=True)
class Speedup:
    """A ratio of times, above 1 where the other is faster than the baseline.

    Attributes:
        ratio: geometric mean of the baseline's times ÷ that of the other's.
        low, high: the 95 % interval; None where a side has one run only, which shows no spread.
        df: degrees of freedom, Welch's or those of pairs; None with the interval.
        paired: whether runs were compared repeat by repeat.
        detectable: the smallest ratio above 1 that runs like these would have shown four times in five, such as 1.04;
            None with the interval.
    """

    ratio: float
    low: float | None = None
    high: float | None = None
    df: float | None = None
    paired: bool = False
    detectable: float | None = None

    @property
    def differs(self) -> bool | None:
        """Whether the interval leaves 1 out; None where there is none."""
        return None if self.low is None or self.high is None else not self.low <= 1 <= self.high


def speedup(baseline: Sequence[float], other: Sequence[float]) -> Speedup | None:
    """Compare two sets of times, one number a process, in seconds.

    The interval is Welch's t on the logarithms: it asks for no equal spread, and it covers what it claims with three
    processes a side, where a bootstrap over epochs does not.

    Returns:
        None where a side is empty, or where a time is not above 0 and so has no logarithm.
    """
    logs = _logs(baseline, other)
    return _speedup(welch(logs[0], logs[1])) if logs else None


def by_repeat(
    baseline: Mapping[int, float], other: Mapping[int, float], beside: Sequence[Mapping[int, float]] = ()
) -> Speedup | None:
    """Compare two cells of a grid whose repeats ran in turn on one machine: pairs by repeat where that is right.

    A grid runs one whole repeat after another, so that what happens to the machine meanwhile falls on every cell of a
    repeat. Whether it does is read off the *other* cells (`moves`), never off these two: to take the narrower of two
    intervals would make both of them lie. Pairs are right whatever moves; Welch's interval is right, and too wide,
    where something does; so either choice covers what it claims.

    Args:
        baseline, other: repeat and seconds.
        beside: the same of the grid's other cells on that machine, or of its canaries; without them, or where the two
            do not have the same repeats, nothing is paired.
    """
    if set(baseline) != set(other) or not moves(beside, set(baseline)):
        return speedup(list(baseline.values()), list(other.values()))
    order = sorted(baseline)
    logs = _logs(*([cell[repeat] for repeat in order] for cell in (baseline, other)))
    return _speedup(paired(logs[0], logs[1]), is_paired=True) if logs else None


def moves(beside: Sequence[Mapping[int, float]], asked: set[int]) -> bool:
    """Whether repeats move several cells together by enough for pairs to be worth their degrees of freedom.

    From the two-way analysis of variance of the logarithms, cells by repeats: ρ is the part of a run's variance that
    the cells of a repeat share. Pairs leave 1 − ρ of the variance, and are tighter where √(1 − ρ) · t(n − 1) is below
    t(2n − 2): for 3 repeats where ρ is above 0.58, for 10 above 0.14.

    Args:
        beside: repeat and seconds of each of the other cells; one that lacks a repeat asked about is left aside.
        asked: the repeats of the comparison.
    """
    count = len(asked)
    table = _logs(*([cell[repeat] for repeat in sorted(asked)] for cell in beside if asked <= set(cell))) or []
    cells = len(table)
    if count < 2 or cells < 2:
        return False
    columns = [fmean(column) for column in zip(*table, strict=True)]
    between = cells * variance(columns)
    all_within = sum(variance(row) for row in table)
    # Cells have a mean of their own each; what repeats do not explain of the rest is noise.
    noise = max(0.0, (all_within - between) / (cells - 1))
    total = between + (cells - 1) * noise
    share = (between - noise) / total if total > 0 else 0.0
    return math.sqrt(1 - max(0.0, share)) * quantile(count - 1) < quantile(2 * count - 2)


def repeats_to_be_sure(baseline: Sequence[float], other: Sequence[float], of: float = SURE_OF) -> int | None:
    """How many runs a side would show a difference of 5 % four times in five, if they spread as these do.

    Returns:
        None where a side has one run only or none, or where it is more than anyone repeats.
    """
    logs = _logs(baseline, other)
    return repeats(math.log1p(of), *map(variance, logs)) if logs and min(map(len, logs)) > 1 else None


def _logs(*sides: Sequence[float]) -> list[list[float]] | None:
    """The logarithms of every side; None where one is empty, or has a time that is not above 0."""
    usable = all(side and min(side) > 0 for side in sides)
    return [[math.log(seconds) for seconds in side] for side in sides] if usable else None


def _speedup(found: Difference | None, is_paired: bool = False) -> Speedup | None:
    if found is None:
        return None
    if found.low is None or found.high is None or found.detectable is None:
        return Speedup(math.exp(found.value), paired=is_paired)
    ends = math.exp(found.low), math.exp(found.high)
    return Speedup(math.exp(found.value), *ends, found.df, is_paired, math.exp(found.detectable))
