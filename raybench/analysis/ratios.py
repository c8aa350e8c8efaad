"""Ratios and differences of two configurations, from estimates."""

from __future__ import annotations

import math
from dataclasses import replace

from raybench.analysis.answer import Difference, Ratio, Summary
from raybench.analysis.intervals import Estimate, Residual, Sample, difference, mean
from raybench.analysis.measured import Measured

ACCURACY_MARGIN = 0.01
"""Equivalence margin of accuracies: one point."""


def as_ratio(estimate: Estimate, comparisons: int = 1, runs: tuple[int, int] = (1, 1)) -> Ratio:
    """Return a difference of logs as a ratio."""
    ends = estimate.interval(comparisons)
    low, high = map(_exp, ends) if ends else (None, None)
    return Ratio(_exp(estimate.value), low, high, *runs, estimate.paired, comparisons)


def scaled(ratio: Ratio, factor: float) -> Ratio:
    """Return a ratio multiplied by a known factor."""
    low, high = (None if end is None else end * factor for end in (ratio.low, ratio.high))
    return replace(ratio, value=ratio.value * factor, low=low, high=high)


def as_difference(estimate: Estimate, metric: str, runs: tuple[int, int], comparisons: int = 1) -> Difference:
    """Return a difference of a metric, with the test of equality for an accuracy."""
    low, high = estimate.interval(comparisons) or (None, None)
    is_equal = metric.endswith("/accuracy") and estimate.is_within(ACCURACY_MARGIN)
    return Difference(estimate.value, low, high, *runs, estimate.paired, is_equal)


def cost_ratio(
    own: tuple[Sample, ...],
    other: tuple[Sample, ...],
    pooled: Residual | None = None,
    rounding: float = 0.0,
    comparisons: int = 1,
) -> Ratio | None:
    """Return the cost of the other ÷ the own, from logs of seconds or joules; None if one is not known."""
    estimate = difference(other, own, pooled, rounding, comparisons)
    return as_ratio(estimate, comparisons, (len(own), len(other))) if estimate else None


def quality_estimate(
    own: Measured, other: Measured, metric: str, pooled: Residual | None = None, comparisons: int = 1
) -> Estimate | None:
    """Return the metric of a configuration minus that of the other; None if a side did not log it.

    None also if runs stop at their target, because their quality then only confirms it.
    """
    if own.stops or other.stops:
        return None
    sides = own.qualities.get(metric, ()), other.qualities.get(metric, ())
    floor = max(own.quality_rounding.get(metric, 0.0), other.quality_rounding.get(metric, 0.0))
    return difference(*sides, pooled, floor, comparisons)


def quality_difference(
    own: Measured, other: Measured, metric: str, pooled: Residual | None = None, comparisons: int = 1
) -> Difference | None:
    """Return the same with the test of equality; without an interval if the runs of a side are alike."""
    estimate = quality_estimate(own, other, metric, pooled, comparisons)
    if estimate is None:
        return None
    sides = own.qualities[metric], other.qualities[metric]
    if metric in own.alike | other.alike:
        estimate = replace(estimate, error=None)
    return as_difference(estimate, metric, (len(sides[0]), len(sides[1])), comparisons)


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
