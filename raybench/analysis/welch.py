"""The difference of two means with its interval, what it could have shown, and how many runs would show more.

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

POWER = 0.8
"""How often a difference that is called "could have been shown" would have been: the usual four times in five."""

MOST_REPEATS = 1000
"""Beyond it nobody repeats a training run, and no number is given."""


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

    @property
    def detectable(self) -> float | None:
        """The smallest true difference that runs like these would have shown four times in five.

        "Shown" is an interval without 0. None without an interval.
        """
        if self.error is None or self.df is None:
            return None
        return self.error * noncentrality(self.df)


def welch(first: Sequence[float], second: Sequence[float], floor: float = 0.0) -> Difference | None:
    """The difference of two independent means.

    Args:
        first, second: one number a run; as many as there are on each side.
        floor: a variance of one run below which none is believed, such as that of rounding.

    Returns:
        None where a side is empty.
    """
    if not first or not second:
        return None
    value = fmean(first) - fmean(second)
    if min(len(first), len(second)) < 2:
        return Difference(value)
    errors = [max(variance(side), floor) / len(side) for side in (first, second)]
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


def variance(values: Sequence[float]) -> float:
    """The sample variance of two numbers or more; `statistics.variance` takes fifty times as long, for exact sums."""
    middle = fmean(values)
    return sum((value - middle) ** 2 for value in values) / (len(values) - 1)


def quantile(df: float, probability: float = 0.5 + CONFIDENCE / 2) -> float:
    """Student's t at a probability; the default is the end of a 95 % interval."""
    # The part of SciPy that loads quickly: scipy.stats takes a second.
    from scipy.special import stdtrit

    return float(stdtrit(df, probability))


def noncentrality(df: float, power: float = POWER) -> float:
    """How many standard errors a true difference has to be to be shown with this power, at 95 % and two sides."""
    from scipy.special import nctdtrinc

    return float(nctdtrinc(df, 1 - power, quantile(df)))


def repeats(difference: float, *variances: float) -> int | None:
    """How many runs a side would show a difference of this size four times in five.

    Args:
        difference: the true difference that is asked about, in the unit of the runs.
        variances: of one run: two sides' or, for one mean against a fixed number, one.

    Returns:
        At least 2; None where it is more than `MOST_REPEATS`. That the variances themselves are guesses from few runs
        is not counted in: from three runs, half or twice as many are as likely.
    """
    if difference == 0:
        return None
    total, squares = sum(variances), sum(part**2 for part in variances)
    if total == 0:
        return 2

    def enough(runs: int) -> bool:
        df = (runs - 1) * total**2 / squares
        return noncentrality(df) * math.sqrt(total / runs) <= abs(difference)

    # More runs never show less, so the least that is enough is found by halving.
    low, high = 2, MOST_REPEATS
    if not enough(high):
        return None
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if enough(middle) else (middle + 1, high)
    return low


def _interval(value: float, error: float, df: float) -> Difference:
    half = quantile(df) * error if error else 0.0
    return Difference(value, value - half, value + half, df, error)
