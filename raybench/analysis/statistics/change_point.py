"""Whether times that should be steady began slow: a change point in them, found with few false alarms.

A run is warm when its times no longer fall. Whether they do is asked of the data, as in studies of warm-up (Barrett
and others, "Virtual Machine Warmup Blows Hot and Cold", OOPSLA 2017): times are split at the place that divides them
best, and the split is believed where chance would hardly make one like it, and where it matters.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from statistics import fmean, median

ALPHA = 1e-3
"""How often independent times without a change may be taken for a slow start: over all splits together, once in a
thousand runs."""

MATTERS = 0.02
"""The part by which the times have to be longer, taken together, than at their later pace. A slow start of a few steps
in thousands is there in every run and changes no comparison."""

BATCHES = 32
"""Values that are judged, each the mean of as many neighbours as it takes. Times close together are alike on a machine
that others use; the means of many are nearly independent, which the test takes for granted."""


@dataclass(frozen=True)
class SlowStart:
    """Times that began slow.

    Attributes:
        part: how much of the series lies before the change, from 0 to 1.
        slower: how many times as long the times before the change are as those after it.
        excess: the part by which the whole series is longer than at its later pace.
        p: how likely chance makes a split like this, over all splits.
    """

    part: float
    slower: float
    excess: float
    p: float


def slow_start(seconds: Sequence[float]) -> SlowStart | None:
    """Find out whether a series of times begins slow; None where it does not, or where it is too short to tell.

    The test is Student's t on the logarithms of what lies before and after a split, for every split, with Bonferroni's
    correction. It needs three times at least, and with so few only a large change stands out.

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
    # A slow stretch later on, of whatever cause, is no slow start.
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
    """Student's t of what lies before a split less what lies after it; with equal variances, from running sums."""
    count = len(sums)
    after_count = count - split
    before, after = sums[split - 1] / split, (sums[-1] - sums[split - 1]) / after_count
    spread = squares[-1] - split * before**2 - after_count * after**2
    # Times that are equal to the last digit have a spread of rounding alone.
    variance = max(spread, 1e-12) / (count - 2)
    return (before - after) / math.sqrt(variance * (1 / split + 1 / after_count))
