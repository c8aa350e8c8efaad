"""The difference of two means, its 95 % interval, and a test that it is small.

One number a run goes in: a logarithm of seconds, or an accuracy. Welch's t asks for no equal spread and covers what it
claims with three runs a side, where a bootstrap does not.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean

CONFIDENCE = 0.95
"""How often an interval is to contain the truth."""


@dataclass(frozen=True)
class Difference:
    """A difference of means, in the unit of what was compared.

    Attributes:
        value: the first mean less the second.
        low, high: the 95 % interval; None where a side has one run only, which shows no spread.
        df: degrees of freedom; None with the interval.
        error: standard error of the difference; None with the interval.
    """

    value: float
    low: float | None = None
    high: float | None = None
    df: float | None = None
    error: float | None = None

    def is_within(self, margin: float) -> bool:
        """Whether the true difference is shown to be smaller than a margin, to either side.

        Two one-sided t tests at 5 %: the 90 % interval lies within the margin. False without an interval.
        """
        if self.error is None or self.df is None:
            return False
        half = quantile(self.df, 0.95) * self.error if self.error else 0.0
        return abs(self.value) + half < margin


def welch(
    first: Sequence[float], second: Sequence[float], floor: float | tuple[float, float] = 0.0
) -> Difference | None:
    """The difference of two independent means.

    Args:
        first, second: one number a run; as many as there are on each side.
        floor: the smallest variance of one run that is believed, such as that of rounding; for each side if two.

    Returns:
        None where a side is empty.
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
    """The same of numbers that belong together by their place: Student's t on their differences.

    What moves both of a pair alike drops out; half the degrees of freedom are the price.

    Raises:
        ValueError: the sides are not of one length.
    """
    return mean([one - other for one, other in zip(first, second, strict=True)])


def mean(values: Sequence[float], floor: float = 0.0) -> Difference | None:
    """One mean with its interval: its difference from nothing.

    Args:
        values: one number a run.
        floor: as for `welch`.
    """
    if not values:
        return None
    value = fmean(values)
    if len(values) < 2:
        return Difference(value)
    return _interval(value, math.sqrt(max(variance(values), floor) / len(values)), float(len(values) - 1))


def geometric_mean_ci(values: Sequence[float]) -> tuple[float | None, float | None, float | None]:
    """The geometric mean of numbers above 0 and the ends of its 95 % interval, which takes two of them."""
    estimate = mean([math.log(value) for value in values])
    if estimate is None:
        return None, None, None
    # Two numbers far apart have an interval beyond what a float holds.
    low, high = (None if end is None else math.exp(min(700.0, end)) for end in (estimate.low, estimate.high))
    return math.exp(estimate.value), low, high


def variance(values: Sequence[float]) -> float:
    """The sample variance of two numbers or more; `statistics.variance` takes fifty times as long, for exact sums."""
    middle = fmean(values)
    return sum((value - middle) ** 2 for value in values) / (len(values) - 1)


def quantile(df: float, probability: float = 0.5 + CONFIDENCE / 2) -> float:
    """Student's t at a probability; the default is the end of a 95 % interval."""
    # The part of SciPy that loads quickly: scipy.stats takes a second.
    from scipy.special import stdtrit

    return float(stdtrit(df, probability))


def _interval(value: float, error: float, df: float) -> Difference:
    half = quantile(df) * error if error else 0.0
    return Difference(value, value - half, value + half, df, error)
