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
from itertools import accumulate
from statistics import fmean, median

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
    """Detect a slow start in a series of times.

    None if there is none or it is too short. The test is Student's t on the logarithms before and after a split, for
    every split, with Bonferroni's correction. It needs at least three times, and with so few it detects only a large
    change.

    Args:
        seconds: times of the same work, in order.
    """
    logs = [math.log(mean) for mean in _batches(seconds) if mean > 0]
    count = len(logs)
    if count < 3:
        return None
    sums, squares = list(accumulate(logs)), list(accumulate(value * value for value in logs))
    t_values = [_t(sums, squares, split) for split in range(1, count - 1)]
    best = max(range(len(t_values)), key=t_values.__getitem__)
    if t_values[best] <= 0:
        return None
    split = best + 1
    before, after = logs[:split], logs[split:]
    later_mean = fmean(after)
    level = math.exp(later_mean)
    excess = fmean(math.exp(value) for value in logs) / level - 1
    # A slow stretch later in the series, whatever its cause, is not a slow start.
    slow_from_the_start = median(before[: -(-split // 2)]) - later_mean > (fmean(before) - later_mean) / 2
    if excess < MATTERS or not slow_from_the_start:
        return None
    from scipy.special import stdtr

    p = min(1.0, len(t_values) * float(stdtr(count - 2, -t_values[best])))
    if p > ALPHA:
        return None
    return SlowStart(split / count, math.exp(fmean(before) - later_mean), excess, p)


def _batches(values: Sequence[float]) -> list[float]:
    size = -(-len(values) // BATCHES) or 1
    batches = [values[first : first + size] for first in range(0, len(values), size)]
    return [sum(batch) / len(batch) for batch in batches]


def _t(sums: Sequence[float], squares: Sequence[float], split: int) -> float:
    """Return Student's t (equal variances) of times before and after a split.

    The difference is before minus after. Computed from running sums.
    """
    count = len(sums)
    after_count = count - split
    before, after = sums[split - 1] / split, (sums[-1] - sums[split - 1]) / after_count
    spread = squares[-1] - split * before**2 - after_count * after**2
    # Times that are equal to the last digit only have the variance of rounding.
    variance = max(spread, 1e-12) / (count - 2)
    return (before - after) / math.sqrt(variance * (1 / split + 1 / after_count))
