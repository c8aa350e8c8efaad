"""Differences in accuracy, in percentage points.

Accuracies are shares (0.94), one number a run; differences are points (2.0 between 92 and 94 %).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from raybench.analysis.statistics import intervals
from raybench.analysis.statistics.intervals import Difference

POINTS = 100.0
"""Points in a share of 1."""

MARGIN = 1.0
"""Points of accuracy below which two sides learn equally well."""


@dataclass(frozen=True)
class AccuracyDifference:
    """The first accuracy less the second, in points.

    Attributes:
        points: the difference of means.
        low, high: the 95 % interval over runs; None where a side has one run only, which shows no spread.
        alike: whether the difference is shown to be below `MARGIN`; False without an interval.
        blur: how far the size of the validation set leaves an accuracy like these open, in points to either side
            (95 %, `blur`); None where the size is not known. It is no part of the interval: that is about these
            validation examples, which both sides share, and this about others of the same kind.
    """

    points: float
    low: float | None = None
    high: float | None = None
    alike: bool = False
    blur: float | None = None

    @property
    def differs(self) -> bool | None:
        """Whether the interval leaves 0 out; None where there is none."""
        return None if self.low is None or self.high is None else not self.low <= 0 <= self.high


def compare_accuracy(
    first: Sequence[float], second: Sequence[float], examples: int | None = None
) -> AccuracyDifference | None:
    """Compare two sets of accuracies by Welch's t over runs.

    Two runs that differ by less than one example are not known to be the same: no spread below that of rounding to
    whole examples is believed.

    Args:
        first, second: shares, one number a run.
        examples: how many the validation set has.

    Returns:
        None where a side is empty.
    """
    difference = intervals.welch(first, second, rounding(examples))
    if difference is None:
        return None
    middle = sum((*first, *second)) / (len(first) + len(second))
    alike = difference.is_within(MARGIN / POINTS)
    return AccuracyDifference(
        *_points(difference), alike, validation_set_uncertainty(middle, examples) if examples else None
    )


def rounding(examples: int | None) -> float:
    """The variance of an accuracy's rounding to whole examples."""
    return 1 / (12 * examples**2) if examples else 0.0


def validation_set_uncertainty(accuracy: float, examples: int) -> float:
    """How far so many examples leave an accuracy open, in points to either side: half of Wilson's 95 % interval.

    The floor below which no number of runs leads, as long as another validation set of the same kind is meant: 0.47
    points for 94 % on 10,000.
    """
    low, high = wilson(accuracy * examples, examples)
    return POINTS * (high - low) / 2


def wilson(successes: float, tries: int) -> tuple[float, float]:
    """Wilson's 95 % interval of a share; from 0 to 1 where nothing was tried.

    It stays inside 0 to 1 and covers what it claims with few tries, where ±1.96 standard errors do not.
    """
    if not tries:
        return 0.0, 1.0
    z = intervals.quantile(math.inf)
    share, width = successes / tries, z**2 / tries
    middle = (share + width / 2) / (1 + width)
    half = z * math.sqrt(share * (1 - share) / tries + width / (4 * tries)) / (1 + width)
    return max(0.0, middle - half), min(1.0, middle + half)


@dataclass(frozen=True)
class MeanAccuracyCheck:
    """Whether runs show that an accuracy is reached on average.

    Attributes:
        mean, low, high: shares; the interval is None with one run.
        at_least: what was to be shown.
    """

    mean: float
    low: float | None
    high: float | None
    at_least: float

    @property
    def shown(self) -> bool:
        """Whether the whole interval is at or above it."""
        return self.low is not None and self.low >= self.at_least


def check_mean_accuracy(
    accuracies: Sequence[float], at_least: float, examples: int | None = None
) -> MeanAccuracyCheck | None:
    """How sure it is that the mean over runs reaches an accuracy.

    Args:
        accuracies: shares, one number a run.
        at_least: the accuracy, a share.
        examples: how many the validation set has.

    Returns:
        None without any run.
    """
    estimate = intervals.mean(accuracies, rounding(examples))
    if estimate is None:
        return None
    # A mean of shares is none below 0 or above 1, whatever Student's t says of few runs.
    low, high = (None if each is None else min(max(each, 0.0), 1.0) for each in (estimate.low, estimate.high))
    return MeanAccuracyCheck(estimate.value, low, high, at_least)


def _points(difference: Difference) -> tuple[float, float | None, float | None]:
    return POINTS * difference.value, _times(difference.low), _times(difference.high)


def _times(share: float | None) -> float | None:
    return None if share is None else POINTS * share
