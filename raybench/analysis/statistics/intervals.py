"""Differences of means with 95% intervals, and equivalence tests.

The input is one number per run: a logarithm of seconds, or an accuracy. Welch's t does not assume equal variances and
has its nominal coverage with three runs per side, unlike a bootstrap.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from statistics import fmean

CONFIDENCE = 0.95
"""Nominal coverage of intervals."""


@dataclass(frozen=True)
class Difference:
    """A difference of means, in the unit of the input.

    Attributes:
        value: the first mean minus the second.
        low, high: the 95% interval; None if a side has only one run, which gives no variance.
        df: degrees of freedom; None without an interval.
        error: standard error of the difference; None without an interval.
    """

    value: float
    low: float | None = None
    high: float | None = None
    df: float | None = None
    error: float | None = None

    def is_within(self, margin: float) -> bool:
        """Return whether the difference is shown to be smaller than a margin.

        Two one-sided t tests at 5%: the 90% interval lies within ± the margin. False without an interval.
        """
        if self.error is None or self.df is None:
            return False
        half = quantile(self.df, 0.95) * self.error if self.error else 0.0
        return abs(self.value) + half < margin


def welch(
    first: Sequence[float], second: Sequence[float], floor: float | tuple[float, float] = 0.0
) -> Difference | None:
    """Return the difference of two independent means.

    Args:
        first, second: one number per run, any number of runs on each side.
        floor: minimum variance of one run, such as that of rounding; one value per side if two.

    Returns:
        None if a side is empty.
    """
    if not first or not second:
        return None
    value = fmean(first) - fmean(second)
    if min(len(first), len(second)) < 2:
        return Difference(value)
    floors = floor if isinstance(floor, tuple) else (floor, floor)
    errors = [
        max(variance(side), min_variance) / len(side)
        for side, min_variance in zip((first, second), floors, strict=True)
    ]
    error = sum(errors)
    if error == 0:
        return Difference(value, value, value, float(len(first) + len(second) - 2), 0.0)
    df = error**2 / sum(part**2 / (len(side) - 1) for part, side in zip(errors, (first, second), strict=True))
    return _interval(value, math.sqrt(error), df)


def paired(first: Sequence[float], second: Sequence[float]) -> Difference | None:
    """Return the mean difference of paired numbers, by Student's t.

    Influences common to both numbers of a pair cancel, at the price of half the degrees of freedom.

    Raises:
        ValueError: the sides have different lengths.
    """
    return mean([one - other for one, other in zip(first, second, strict=True)])


def average(differences: Sequence[Difference]) -> Difference | None:
    """Return the mean of independent differences, with Satterthwaite's degrees of freedom.

    Differences without an interval are left out if others have one.

    Returns:
        None without differences.
    """
    known = [(each.value, each.error, each.df) for each in differences if each.error is not None and each.df]
    if not known:
        return Difference(fmean(each.value for each in differences)) if differences else None
    value = fmean(each for each, _, _ in known)
    squares = [error**2 for _, error, _ in known]
    if not any(squares):
        return _interval(value, 0.0, sum(df for _, _, df in known))
    df = sum(squares) ** 2 / sum(square**2 / df for square, (_, _, df) in zip(squares, known, strict=True))
    return _interval(value, math.sqrt(sum(squares)) / len(known), df)


def simultaneous(difference: Difference, comparisons: int) -> Difference:
    """Widen an interval for a difference that was selected from several (Bonferroni).

    All of these comparisons together then have the nominal coverage.
    """
    if difference.error is None or difference.df is None:
        return difference
    return _interval(difference.value, difference.error, difference.df, comparisons)


def heterogeneous(differences: Sequence[Difference]) -> bool:
    """Return whether some independent differences are shown to be unequal.

    The interval of the difference of two of them excludes 0, corrected for the number of such pairs. Differences
    without an interval are ignored.
    """
    # In columns: a large grid has thousands of differences, and millions of pairs.
    import numpy as np
    from scipy.special import ndtri, stdtrit

    known = [(each.value, each.error, each.df) for each in differences if each.error is not None and each.df]
    pairs = len(known) * (len(known) - 1) // 2
    if not pairs:
        return False
    values, errors, df = np.array(known).T
    squares, probability = errors**2, 1 - (1 - CONFIDENCE) / (2 * pairs)
    # A quantile of t is above the normal one, so most pairs need none: it takes longer than all the rest.
    least = float(ndtri(probability)) * (1 - 1e-9)
    for row in range(len(known) - 1):
        square, gaps = squares[row] + squares[row + 1 :], np.abs(values[row] - values[row + 1 :])
        rest = row + 1 + np.flatnonzero(gaps > least * np.sqrt(square))
        if not rest.size:
            continue
        square = squares[row] + squares[rest]
        with np.errstate(invalid="ignore"):  # 0 ÷ 0 if neither has an error; any difference is one then
            pair_df = square**2 / (squares[row] ** 2 / df[row] + squares[rest] ** 2 / df[rest])
        half = np.where(square > 0, stdtrit(pair_df, probability) * np.sqrt(square), 0.0)
        if np.any(np.abs(values[row] - values[rest]) > half):
            return True
    return False


def mean(values: Sequence[float], floor: float = 0.0) -> Difference | None:
    """Return a mean with its interval, as its difference from zero.

    Args:
        values: one number per run.
        floor: as for `welch`.
    """
    if not values:
        return None
    value = fmean(values)
    if len(values) < 2:
        return Difference(value)
    return _interval(value, math.sqrt(max(variance(values), floor) / len(values)), float(len(values) - 1))


def geometric_mean_ci(values: Sequence[float]) -> tuple[float | None, float | None, float | None]:
    """Return the geometric mean of positive numbers and its 95% interval.

    The interval needs two numbers. All are None without numbers, or if one of them is not positive.
    """
    estimate = mean([math.log(value) for value in values]) if all(value > 0 for value in values) else None
    if estimate is None:
        return None, None, None
    # The interval of two very different numbers can exceed the range of a float.
    low, high = (None if end is None else math.exp(min(700.0, end)) for end in (estimate.low, estimate.high))
    return math.exp(estimate.value), low, high


def variance(values: Sequence[float]) -> float:
    """Return the sample variance of at least two numbers.

    `statistics.variance` takes 50x as long because of its exact sums.
    """
    middle = fmean(values)
    return sum((value - middle) ** 2 for value in values) / (len(values) - 1)


@lru_cache(maxsize=100_000)
def quantile(df: float, probability: float = 0.5 + CONFIDENCE / 2) -> float:
    """Return a quantile of Student's t.

    By default the end of a 95% interval.
    """
    # This part of SciPy loads quickly; scipy.stats takes a second.
    from scipy.special import stdtrit

    return float(stdtrit(df, probability))


def _interval(value: float, error: float, df: float, comparisons: int = 1) -> Difference:
    half = quantile(df, 1 - (1 - CONFIDENCE) / (2 * comparisons)) * error if error else 0.0
    return Difference(value, value - half, value + half, df, error)
