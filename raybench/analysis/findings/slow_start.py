"""Detection of a slow start in a series of times.

A run has warmed up when its times no longer fall, which is determined from the data as in "Virtual Machine Warmup Blows
Hot and Cold" (OOPSLA 2017): times are split where the two parts differ most, and the split is accepted if it is
unlikely by chance and large enough to matter.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache
from statistics import fmean, median
from typing import NamedTuple

from raybench.analysis.intervals import quantile

ALPHA = 1e-3  # significance level over all splits: in times without a change, one run in a thousand has a false alarm
MATTERS = 0.02  # least excess of the whole series over its later pace that affects comparisons
LONGEST = 0.4  # longest slow start; slow for longer, the speed changes in training, such as by a schedule of the batch
CHANGE = 0.05  # least change of a speed in training
BATCHES = 32  # number of values that are tested, each a mean of consecutive times: consecutive times are correlated


class SlowStart(NamedTuple):
    """The part of a series before it became faster, the ratio of its times to later ones, and the excess of all."""

    part: float
    slower: float
    excess: float

    @property
    def is_change(self) -> bool:
        """Whether it lasts too long for a start."""
        return self.part > LONGEST and self.slower > 1 + CHANGE


def slow_start(seconds: Sequence[float]) -> SlowStart | None:
    """Detect a slow start in times of the same work; None if there is none or fewer than three times.

    The test is Student's t on the logs before and after each split, with Bonferroni's correction.
    """
    return _slow_start(tuple(seconds))


@lru_cache(2**15)  # a report asks three times for each run: for its warm-up, its pace and the halves of its training
def _slow_start(seconds: tuple[float, ...]) -> SlowStart | None:
    size = -(-len(seconds) // BATCHES) or 1
    means = [fmean(seconds[start : start + size]) for start in range(0, len(seconds), size)] if size > 1 else seconds
    logs = [math.log(mean) for mean in means if mean > 0]
    count = len(logs)
    if count < 3:
        return None
    middle = fmean(logs)
    total, fallen, split, explained = sum((value - middle) ** 2 for value in logs), 0.0, 0, 0.0
    for before, value in enumerate(logs[:-2], 1):  # a split has two times after it
        fallen += value - middle
        squares = count * fallen**2 / (before * (count - before)) if fallen > 0 else 0.0
        if squares > explained:
            split, explained = before, squares
    if not split:
        return None
    after = fmean(logs[split:])
    difference, excess = fmean(logs[:split]) - after, fmean(map(math.exp, logs)) / math.exp(after) - 1
    # Times that are equal to the last digit only have the variance of rounding.
    t = math.sqrt((count - 2) * explained / max(total - explained, 1e-12))
    if t < quantile(count - 2, 1 - ALPHA / (count - 2)) or excess < MATTERS:
        return None
    # A slow stretch later in the series, whatever its cause, is not a slow start.
    is_start = median(logs[: -(-split // 2)]) - after > difference / 2
    return SlowStart(split / count, math.exp(difference), excess) if is_start else None
