"""Ratios and differences of two configurations."""

from __future__ import annotations

import math
from dataclasses import replace

from raybench.analysis.answer import Difference, Ratio, Summary
from raybench.analysis.intervals import Estimate, Sample, difference, mean
from raybench.analysis.measured import TIME, Measured

ACCURACY_MARGIN = 0.01
"""Equivalence margin of accuracies: one point."""


def compared(own: Measured, other: Measured, quantity: str) -> Estimate | None:
    """Return a quantity of a configuration minus that of the other; None if a side does not have it.

    None also for a metric of runs that stop at their target, because it then only confirms it.
    """
    if (own.stops or other.stops) and quantity in own.qualities:
        return None
    floor = max(own.rounding(quantity), other.rounding(quantity))
    return difference(own.samples(quantity), other.samples(quantity), floor, own.candidates.get(quantity))


def as_ratio(estimate: Estimate, runs: tuple[int, int] = (1, 1)) -> Ratio:
    """Return a difference of logs as a ratio."""
    ends = estimate.interval()
    low, high = map(_exp, ends) if ends else (None, None)
    return Ratio(_exp(estimate.value), low, high, *runs, estimate.paired)


def scaled(ratio: Ratio, factor: float) -> Ratio:
    """Return a ratio multiplied by a known factor."""
    low, high = (None if end is None else end * factor for end in (ratio.low, ratio.high))
    return replace(ratio, value=ratio.value * factor, low=low, high=high)


def cost_ratio(own: Measured, other: Measured, quantity: str = TIME, factor: float = 1.0) -> Ratio | None:
    """Return the cost of the other ÷ the own; None if one is not known."""
    estimate = compared(other, own, quantity)
    runs = len(own.samples(quantity)), len(other.samples(quantity))
    return scaled(as_ratio(estimate, runs), factor) if estimate else None


def as_difference(estimate: Estimate, metric: str, runs: tuple[int, int]) -> Difference:
    """Return a difference of a metric, with the test of equality for an accuracy."""
    low, high = estimate.interval() or (None, None)
    is_equal = metric.endswith("/accuracy") and estimate.is_within(ACCURACY_MARGIN)
    return Difference(estimate.value, low, high, *runs, estimate.paired, is_equal)


def quality_difference(own: Measured, other: Measured, metric: str) -> Difference | None:
    """Return the metric of a configuration minus that of the other; without an interval if runs of a side are alike."""
    estimate = compared(own, other, metric)
    if estimate is None:
        return None
    if metric in own.alike | other.alike:
        estimate = replace(estimate, error=None)
    return as_difference(estimate, metric, (len(own.qualities[metric]), len(other.qualities[metric])))


def cost_summary(samples: tuple[Sample, ...], rounding: float = 0.0) -> Summary | None:
    """Return the geometric mean from logs; None without runs."""
    summary = quality_summary(samples, rounding)
    if summary is None:
        return None
    low, high = (None if each is None else _exp(each) for each in (summary.low, summary.high))
    return Summary(_exp(summary.value), low, high, summary.runs)


def quality_summary(samples: tuple[Sample, ...], rounding: float = 0.0) -> Summary | None:
    """Return the mean of numbers of runs; None without runs."""
    if not samples:
        return None
    estimate = mean([each.value for each in samples], rounding)
    low, high = estimate.interval() or (None, None)
    return Summary(estimate.value, low, high, len(samples))


def _exp(value: float) -> float:
    return math.exp(min(700.0, value))
