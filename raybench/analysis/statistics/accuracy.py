"""Differences in accuracy, in percentage points.

Accuracies are fractions (0.94), one number per run; differences are points (2.0 between 92% and 94%).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from raybench.analysis.statistics import intervals
from raybench.analysis.statistics.intervals import Difference

POINTS = 100.0
"""Percentage points per unit of a fraction."""

MARGIN = 1.0
"""Equivalence margin of accuracies, in points."""


@dataclass(frozen=True)
class AccuracyDifference:
    """The first accuracy minus the second, in points.

    Attributes:
        points: the difference of means.
        low, high: the 95% interval over runs; None if a side has only one run, which gives no variance.
        alike: whether the difference is shown to be below `MARGIN`; False without an interval.
        blur: the uncertainty of such an accuracy due to the size of the validation set, in ± points (95%,
            `validation_set_uncertainty`); None if the size is not known. It is not part of the interval, which refers
            to these validation examples, shared by both sides; this refers to other examples of the same kind.
    """

    points: float
    low: float | None = None
    high: float | None = None
    alike: bool = False
    blur: float | None = None

    @property
    def differs(self) -> bool | None:
        """Whether the interval excludes 0; None without an interval."""
        return None if self.low is None or self.high is None else not self.low <= 0 <= self.high


def compare_accuracy(
    first: Sequence[float], second: Sequence[float], examples: int | None = None
) -> AccuracyDifference | None:
    """Compare two sets of accuracies by Welch's t over runs.

    Runs that differ by less than one example are not known to be equal, so the variance is at least that of rounding to
    whole examples.

    Args:
        first, second: fractions, one number per run.
        examples: size of the validation set.

    Returns:
        None if a side is empty.
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
    """Return the variance due to rounding an accuracy to whole examples."""
    return 1 / (12 * examples**2) if examples else 0.0


def validation_set_uncertainty(accuracy: float, examples: int) -> float:
    """Return the uncertainty of an accuracy due to the validation set's size.

    In ± points: half of Wilson's 95% interval. More runs do not reduce it, as long as the accuracy refers to any
    validation set of the same kind: 0.47 points for 94% on 10,000 examples.
    """
    low, high = wilson(accuracy * examples, examples)
    return POINTS * (high - low) / 2


def wilson(successes: float, tries: int) -> tuple[float, float]:
    """Return Wilson's 95% interval of a proportion.

    From 0 to 1 without tries. It stays inside 0 to 1 and has its nominal coverage with few tries, unlike ±1.96 standard
    errors.
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
    """Test of whether the mean accuracy over runs reaches a threshold.

    Attributes:
        mean, low, high: fractions; the interval is None with one run.
        at_least: the threshold.
    """

    mean: float
    low: float | None
    high: float | None
    at_least: float

    @property
    def shown(self) -> bool:
        """Whether the whole interval is at or above the threshold."""
        return self.low is not None and self.low >= self.at_least


def check_mean_accuracy(
    accuracies: Sequence[float], at_least: float, examples: int | None = None
) -> MeanAccuracyCheck | None:
    """Test whether the mean over runs reaches an accuracy.

    Args:
        accuracies: fractions, one number per run.
        at_least: the accuracy, a fraction.
        examples: size of the validation set.

    Returns:
        None without any run.
    """
    estimate = intervals.mean(accuracies, rounding(examples))
    if estimate is None:
        return None
    # A mean of fractions is between 0 and 1, even if Student's t interval of few runs exceeds that.
    low, high = (None if each is None else min(max(each, 0.0), 1.0) for each in (estimate.low, estimate.high))
    return MeanAccuracyCheck(estimate.value, low, high, at_least)


def _points(difference: Difference) -> tuple[float, float | None, float | None]:
    return POINTS * difference.value, _times(difference.low), _times(difference.high)


def _times(share: float | None) -> float | None:
    return None if share is None else POINTS * share
