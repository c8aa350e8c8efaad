"""Detection of a slow start in a series of times.

A run has warmed up when its times no longer fall, which is determined from the data as in "Virtual Machine Warmup Blows
Hot and Cold" (OOPSLA 2017): times are split where the two parts differ most, and the split is accepted if it is
unlikely by chance and large enough to matter.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

ALPHA = 1e-3
"""Significance level over all splits: in times without a change, one run in a thousand has a false alarm."""

MATTERS = 0.02
"""Least excess of the whole series over its later pace that affects comparisons."""

BATCHES = 32
"""Number of values that are tested, each a mean of consecutive times: consecutive times are correlated."""


class SlowStart(NamedTuple):
    """The part of a series before it became faster, the ratio of its times to later ones, and the excess of all."""

    part: float
    slower: float
    excess: float


def slow_start(seconds: Sequence[float]) -> SlowStart | None:
    """Detect a slow start in times of the same work; None if there is none or fewer than three times.

    The test is Student's t on the logs before and after each split, with Bonferroni's correction.
    """
    values = np.array(seconds, dtype=float)
    size = -(-len(values) // BATCHES) or 1
    starts = np.arange(0, len(values), size)
    means = np.add.reduceat(values, starts) / np.diff([*starts, len(values)]) if len(values) else values
    logs = np.log(means[means > 0])
    count = len(logs)
    if count < 3:
        return None
    splits = np.arange(1, count - 1)
    sums, squares = logs.cumsum(), (logs * logs).cumsum()
    before, after = sums[splits - 1] / splits, (sums[-1] - sums[splits - 1]) / (count - splits)
    spread = squares[-1] - splits * before**2 - (count - splits) * after**2
    # Times that are equal to the last digit only have the variance of rounding.
    t = (before - after) / np.sqrt(np.maximum(spread, 1e-12) / (count - 2) * (1 / splits + 1 / (count - splits)))
    best = int(t.argmax())
    split, difference = int(splits[best]), float(before[best] - after[best])
    excess = float(np.exp(logs).mean() / math.exp(after[best])) - 1
    if t[best] <= 0 or excess < MATTERS:
        return None
    # A slow stretch later in the series, whatever its cause, is not a slow start.
    if float(np.median(logs[: -(-split // 2)])) - after[best] <= difference / 2:
        return None
    from scipy.special import stdtr

    if (count - 2) * float(stdtr(count - 2, -t[best])) > ALPHA:
        return None
    return SlowStart(split / count, math.exp(difference), excess)
