"""Speeds that change in the course of training, such as by a switch of the precision or a schedule of the batch."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import product
from statistics import fmean, median

from raybench.analysis.answer import Unit
from raybench.analysis.findings.slow_start import CHANGE, slow_start
from raybench.analysis.intervals import f_probability
from raybench.results.run_table import Run

SEPARATE = 0.9  # least share of the pairs of an epoch of each half in which the same half is slower
LEAST_EPOCHS = 4  # fewest steady epochs of which halves are compared
ALPHA = 0.01  # level of the rank test
SHIFT = 0.01  # least difference of the mean and the median of epochs that matters

Rates = tuple[float, float]
"""Seconds per unit of work early and late in training or, if it does not just change once, the least and the most."""


def paces(run: Run, unit: Unit) -> list[float]:
    """Return the seconds per unit of work of each steady epoch; empty if unknown."""
    if not unit.has_rate:
        return [epoch_s for epoch_s in run.timed_s if epoch_s > 0]
    epochs, seconds = run.paced
    counts = epochs.counts(unit.name)
    if len(counts) != len(seconds) or not all(counts):
        return []
    return [unit.amount * own_s / count for own_s, count in zip(seconds, counts, strict=True) if own_s > 0]


def changing_rates(runs: Sequence[Run], unit: Unit) -> Rates | None:
    """Return the rates of a configuration whose steady epochs differ systematically; None if they do not.

    In most runs one half of training takes `CHANGE` longer than the other, or a rank test over repeats (Friedman's)
    finds that epochs differ, so that their mean is not their median. A slow start is a short warm-up, unless it lasts
    too long.
    """
    series = [seconds for run in runs if len(seconds := paces(run, unit)) >= LEAST_EPOCHS]
    if not series or any((start := slow_start(seconds)) and not start.is_change for seconds in series):
        return None
    halves = [rates for seconds in series if (rates := _halves(seconds))]
    if 2 * len(halves) > len(series) and len({early < late for early, late in halves}) == 1:
        early, late = (fmean(side) for side in zip(*halves, strict=True))
        return early, late
    profile = [fmean(column) for column in zip(*series, strict=False)]
    is_uneven = abs(math.log(fmean(profile) / median(profile))) > SHIFT
    return (min(profile), max(profile)) if is_uneven and _differ(series) else None


def _halves(seconds: Sequence[float]) -> Rates | None:
    """Return the medians of the halves of a series, if one is slower throughout, or of its parts that differ most."""
    if start := slow_start(seconds):
        count = round(start.part * len(seconds))
        return median(seconds[:count]), median(seconds[count:])
    count = len(seconds) // 2
    early, late = seconds[:count], seconds[-count:]
    rates = median(early), median(late)
    if abs(math.log(rates[1] / rates[0])) <= math.log1p(CHANGE):
        return None
    share = fmean((a < b) + 0.5 * (a == b) for a, b in product(early, late))
    return rates if max(share, 1 - share) >= SEPARATE else None


def _differ(series: Sequence[Sequence[float]]) -> bool:
    """Return whether epochs differ in the same way in all repeats, by Friedman's test (as Iman and Davenport's F)."""
    size, repeats = min(map(len, series)), len(series)
    if repeats < 3 or any(len(seconds) != size for seconds in series):
        return False
    ranks = [[sum((a > b) + 0.5 * (a == b) for b in seconds) for a in seconds] for seconds in series]
    squares = sum((fmean(column) - size / 2) ** 2 for column in zip(*ranks, strict=True))
    chi2 = 12 * repeats / (size * (size + 1)) * squares
    most = repeats * (size - 1)
    return f_probability((repeats - 1) * chi2, max(most - chi2, 1e-12), size - 1, (size - 1) * (repeats - 1)) < ALPHA
