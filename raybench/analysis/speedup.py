"""How many times as fast, and with what certainty."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean, variance

CONFIDENCE = 0.95


@dataclass(frozen=True)
class Speedup:
    """A ratio of times, above 1 where the other is faster than the baseline.

    Attributes:
        ratio: geometric mean of the baseline's times ÷ that of the other's.
        low, high: the 95 % interval; None where a side has one run only, which shows no spread.
        df: Welch's degrees of freedom; None with the interval.
    """

    ratio: float
    low: float | None = None
    high: float | None = None
    df: float | None = None


def speedup(baseline: Sequence[float], other: Sequence[float]) -> Speedup | None:
    """Compare two sets of times, one number a process, in seconds.

    The interval is Welch's t on the logarithms: it asks for no equal spread, and it covers what it claims with three
    processes a side, where a bootstrap over epochs does not.

    Returns:
        None where a side is empty, or where a time is not above 0 and so has no logarithm.
    """
    if not baseline or not other or min(*baseline, *other) <= 0:
        return None
    logs = [[math.log(seconds) for seconds in side] for side in (baseline, other)]
    difference = fmean(logs[0]) - fmean(logs[1])
    if min(map(len, logs)) < 2:
        return Speedup(math.exp(difference))
    errors = [variance(side) / len(side) for side in logs]
    error = sum(errors)
    if error == 0:
        return Speedup(math.exp(difference), math.exp(difference), math.exp(difference), float(sum(map(len, logs)) - 2))
    df = error**2 / sum(part**2 / (len(side) - 1) for part, side in zip(errors, logs, strict=True))
    # The part of SciPy that loads quickly: scipy.stats takes a second.
    from scipy.special import stdtrit

    half = float(stdtrit(df, 0.5 + CONFIDENCE / 2)) * math.sqrt(error)
    return Speedup(math.exp(difference), math.exp(difference - half), math.exp(difference + half), df)
