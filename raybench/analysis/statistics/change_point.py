"""Detection of a slow start in a series of times.

It is a change-point test with few false alarms. A run has warmed up when its times no longer fall. This is determined
from the data, as in studies of warm-up (Barrett and others, "Virtual Machine Warmup Blows Hot and Cold", OOPSLA 2017):
times are split at the place that separates them best, and the split is accepted if it is unlikely by chance and large
enough to matter.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean, median
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]

ALPHA = 1e-3
"""Significance level of a slow start, over all splits together.

In independent times without a change, one run in a thousand has a false alarm.
"""

MATTERS = 0.02
"""Minimum fraction of extra time for a slow start to matter.

It is the excess of the whole series over its later pace. A slow start of a few steps in thousands occurs in every run
and does not affect comparisons.
"""

BATCHES = 32
"""Number of values that are tested.

Each is the mean of equally many consecutive times. On a machine that others use, consecutive times are correlated;
means of many are nearly independent, as the test assumes.
"""


AT_ONCE = 1000
"""Number of series that are tested at once; a series may have thousands of times."""


@dataclass(frozen=True)
class SlowStart:
    """A slow start in a series of times.

    Attributes:
        part: the fraction of the series before the change, from 0 to 1.
        slower: the ratio of times before the change to those after it.
        excess: the fraction by which the whole series is longer than at its later pace.
        p: the probability of such a split by chance, over all splits.
    """

    part: float
    slower: float
    excess: float
    p: float


def slow_start(seconds: Sequence[float]) -> SlowStart | None:
    """Detect a slow start in a series of times; None if there is none or it is too short.

    The test is Student's t on the logarithms before and after a split, for every split, with Bonferroni's correction.
    It needs at least three times, and with so few it detects only a large change.

    Args:
        seconds: times of the same work, in order.
    """
    return slow_starts([seconds])[0]


def slow_starts(series: Sequence[Sequence[float]]) -> list[SlowStart | None]:
    """Detect the slow start of each of many series of times (see `slow_start`)."""
    found: list[SlowStart | None] = [None] * len(series)
    places_by_length: dict[int, list[int]] = {}
    for place, seconds in enumerate(series):
        places_by_length.setdefault(len(seconds), []).append(place)
    for places in places_by_length.values():
        for first in range(0, len(places), AT_ONCE):
            block = places[first : first + AT_ONCE]
            means = _batches(np.array([series[place] for place in block], dtype=float))
            is_whole = (means > 0).all(axis=1)
            for number in np.flatnonzero(~is_whole):
                logs = np.log(means[number][means[number] > 0])
                found[block[number]] = _of_logarithms(logs[None, :])[0]
            whole = np.flatnonzero(is_whole)
            for number, start in zip(whole, _of_logarithms(np.log(means[whole])), strict=True):
                found[block[number]] = start
    return found


def _of_logarithms(logs: Array) -> list[SlowStart | None]:
    """Detect the slow start of each row of logarithms of times."""
    rows, count = logs.shape
    if count < 3:
        return [None] * rows
    sums, squares = logs.cumsum(axis=1), (logs * logs).cumsum(axis=1)
    splits = np.arange(1, count - 1)
    t = _t(sums, squares, splits)
    best = t.argmax(axis=1)
    # Without rounding errors at the limit, which are those of `_checked`.
    later = (sums[:, -1] - sums[np.arange(rows), best]) / (count - splits[best])
    excess = np.exp(logs).mean(axis=1) / np.exp(later) - 1
    t_best = t[np.arange(rows), best]
    is_candidate = (t_best > 0) & (excess > MATTERS * (1 - 1e-6))
    return [
        _checked(logs[row].tolist(), int(splits[best[row]]), float(t_best[row])) if is_candidate[row] else None
        for row in range(rows)
    ]


def _checked(logs: list[float], split: int, t: float) -> SlowStart | None:
    """Return the slow start before a split, if it matters and is not due to chance."""
    count = len(logs)
    before, after = logs[:split], logs[split:]
    later_mean = fmean(after)
    level = math.exp(later_mean)
    excess = fmean(math.exp(value) for value in logs) / level - 1
    # A slow stretch later in the series, whatever its cause, is not a slow start.
    slow_from_the_start = median(before[: -(-split // 2)]) - later_mean > (fmean(before) - later_mean) / 2
    if excess < MATTERS or not slow_from_the_start:
        return None
    from scipy.special import stdtr

    p = min(1.0, (count - 2) * float(stdtr(count - 2, -t)))
    if p > ALPHA:
        return None
    return SlowStart(split / count, math.exp(fmean(before) - later_mean), excess, p)


def _batches(values: Array) -> Array:
    """Return the means of consecutive values of each row, at most `BATCHES`; the last may be of fewer values."""
    size = -(-values.shape[1] // BATCHES) or 1
    starts = np.arange(0, values.shape[1], size)
    if not len(starts):
        return values
    return np.add.reduceat(values, starts, axis=1) / np.diff([*starts, values.shape[1]])


def _t(sums: Array, squares: Array, splits: Array) -> Array:
    """Return Student's t (equal variances) of times before and after each split of each row.

    The difference is before minus after. Computed from running sums.
    """
    count = sums.shape[1]
    after_counts = count - splits
    before = sums[:, splits - 1] / splits
    after = (sums[:, -1:] - sums[:, splits - 1]) / after_counts
    spread = squares[:, -1:] - splits * before**2 - after_counts * after**2
    # Times that are equal to the last digit only have the variance of rounding.
    variance = np.maximum(spread, 1e-12) / (count - 2)
    t: Array = (before - after) / np.sqrt(variance * (1 / splits + 1 / after_counts))
    return t
