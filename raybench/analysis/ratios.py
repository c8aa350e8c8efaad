"""Ratios and differences of configurations: of two, or over matched pairs."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TypeVar

from raybench.analysis import machines
from raybench.analysis.answer import Difference, Ratio, Summary
from raybench.analysis.intervals import EffectEstimate, Estimate, Sample, mean
from raybench.analysis.measured import TIME, Measured, Pairs

AnySummary = TypeVar("AnySummary", bound=Summary)

ACCURACY_MARGIN = 0.01
"""Equivalence margin of accuracies: one point."""


def is_accuracy(metric: str) -> bool:
    """Return whether differences of a metric are written in points."""
    return metric.rpartition("/")[2] == "accuracy"


def effect_on(quantity: str, pairs: Pairs, is_choice: bool = True) -> EffectEstimate | None:
    """Return a quantity of configurations minus that of the others; None if no pair can be compared by it.

    Args:
        is_choice: whether the interval of one pair allows for a choice of the best among all configurations.
    """
    kept = [(own, other) for own, other in pairs if not unlike(own, other, quantity)]
    return machines.effect(quantity, kept if is_choice else [(replace(one, candidates={}), two) for one, two in kept])


def shown_effect(quantity: str, pairs: Pairs, is_choice: bool = True) -> EffectEstimate | None:
    """Return the same without an interval if it is the same in all repeats of a side, which are then one run."""
    effect = effect_on(quantity, pairs, is_choice)
    if effect and any(quantity in each.alike for pair in pairs for each in pair):
        return replace(effect, mean=replace(effect.mean, error=None, alone=None), table=None)
    return effect


def unlike(own: Measured, other: Measured, quantity: str) -> str:
    """Return why a metric of two configurations is not compared; empty if it is."""
    if quantity not in own.qualities or quantity not in other.qualities:
        return ""
    if own.stops or other.stops:
        return "runs stop at the target"  # which it then only confirms
    if own.scales.get(quantity) != other.scales.get(quantity):
        return "percent against fractions"
    # Runs of one side that differ end when they have learned enough, and an axis is what the grid asks about.
    is_fixed = len(own.lengths) == len(other.lengths) == 1 and own.lengths != other.lengths
    if is_fixed and not any("epoch" in axis and own.axes[axis] != other.axes.get(axis) for axis in own.axes):
        return f"{min(own.lengths)} epochs against {min(other.lengths)}"
    return ""


def compared(own: Measured, other: Measured, quantity: str) -> Estimate | None:
    """Return a quantity of a configuration minus that of the other; None as for `effect_on`."""
    effect = effect_on(quantity, [(own, other)])
    return effect.mean if effect else None


def as_ratio(estimate: Estimate, runs: tuple[int, int] = (1, 1)) -> Ratio:
    """Return a difference of logs as a ratio."""
    ends = estimate.interval()
    low, high = map(_exp, ends) if ends else (None, None)
    ratio = Ratio(_exp(estimate.value), low, high, *runs, estimate.paired)
    ratio = replace(ratio, machines=estimate.machines, machine_sd=estimate.machine_sd)
    if these := estimate.alone and estimate.alone.interval():
        return replace(ratio, these_low=_exp(these[0]), these_high=_exp(these[1]))
    return ratio


def scaled(number: AnySummary, factor: float) -> AnySummary:
    """Return a number with its intervals, multiplied by a known factor."""
    names = ("value", "low", "high", "these_low", "these_high")
    known = {name: end for name in names if (end := getattr(number, name, None)) is not None}
    return replace(number, **{name: end * factor for name, end in known.items()})


def priced(seconds: Summary | None, per_hour: float | None) -> Summary | None:
    """Return the price of a time with its interval; None if either is not known."""
    return None if seconds is None or per_hour is None else scaled(seconds, per_hour / 3600)


def cost_ratio(own: Measured, other: Measured, quantity: str = TIME, factor: float = 1.0) -> Ratio | None:
    """Return the cost of the other ÷ the own; None if one is not known."""
    effect = shown_effect(quantity, [(other, own)])
    runs = len(own.samples(quantity)), len(other.samples(quantity))
    return scaled(as_ratio(effect.mean, runs), factor) if effect else None


def as_difference(estimate: Estimate, metric: str, runs: tuple[int, int]) -> Difference:
    """Return a difference of a metric, with the test of equality for an accuracy."""
    low, high = estimate.interval() or (None, None)
    is_equal = is_accuracy(metric) and estimate.is_within(ACCURACY_MARGIN)
    return Difference(estimate.value, low, high, *runs, estimate.paired, is_equal)


def quality_difference(own: Measured, other: Measured, metric: str) -> Difference | None:
    """Return the metric of a configuration minus that of the other; None if a side does not have it."""
    effect = shown_effect(metric, [(own, other)])
    runs = len(own.samples(metric)), len(other.samples(metric))
    return as_difference(effect.mean, metric, runs) if effect else None


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
