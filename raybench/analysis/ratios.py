"""Ratios and differences of configurations: of two, or over matched pairs."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TypeVar

from raybench.analysis import machines
from raybench.analysis.answer import Difference, Ratio, Summary
from raybench.analysis.intervals import EffectEstimate, Estimate, Sample, mean
from raybench.analysis.measured import TIME, Measured, Pairs
from raybench.core.job import is_accuracy

AnySummary = TypeVar("AnySummary", bound=Summary)

ACCURACY_MARGIN = 0.01  # equivalence margin of accuracies: one point

UNEQUAL_LENGTH = "unequal numbers of epochs"


def effect_on(quantity: str, pairs: Pairs, is_choice: bool = True) -> EffectEstimate | None:
    """Return a quantity of configurations minus that of the others; None if no pair can be compared by it.

    Args:
        is_choice: whether the interval of one pair allows for a choice of the best among all configurations.
    """
    kept = [(cell, reference) for cell, reference in pairs if not unlike(cell, reference, quantity)]
    return machines.effect(quantity, kept if is_choice else [(replace(one, candidates={}), two) for one, two in kept])


def shown_effect(quantity: str, pairs: Pairs, is_choice: bool = True) -> EffectEstimate | None:
    """Return the same without an interval if it is the same in all repeats of a side, which are then one run."""
    effect = effect_on(quantity, pairs, is_choice)
    if effect and any(quantity in side.alike for pair in pairs for side in pair):
        return replace(effect, mean=replace(effect.mean, error=None, alone=None), table=None)
    return effect


def unlike(cell: Measured, reference: Measured, quantity: str) -> str:
    """Return why a metric of two configurations is not compared; empty if it is."""
    if quantity not in cell.qualities or quantity not in reference.qualities:
        return ""
    if cell.stops or reference.stops:
        return "runs stop at the target"  # which it then only confirms
    if cell.scales.get(quantity) != reference.scales.get(quantity):
        return "percent against fractions"
    # Runs of one side that differ end when they have learned enough, and an axis is what the grid asks about.
    is_fixed = len(cell.lengths) == len(reference.lengths) == 1 and cell.lengths != reference.lengths
    if is_fixed and not any("epoch" in axis and cell.axes[axis] != reference.axes.get(axis) for axis in cell.axes):
        return UNEQUAL_LENGTH
    return ""


def compared(cell: Measured, reference: Measured, quantity: str) -> Estimate | None:
    """Return a quantity of a configuration minus that of the other; None as for `effect_on`."""
    effect = effect_on(quantity, [(cell, reference)])
    return effect.mean if effect else None


def as_ratio(estimate: Estimate, runs: tuple[int, int] = (1, 1)) -> Ratio:
    """Return a difference of logs as a ratio."""
    low, high = _ends(estimate)
    these_low, these_high = _ends(estimate.alone) if estimate.alone else (None, None)
    return Ratio(
        _exp(estimate.value),
        low,
        high,
        *runs,
        paired=estimate.paired,
        these_low=these_low,
        these_high=these_high,
        machines=estimate.machines,
        machine_sd=estimate.machine_sd,
    )


def _ends(estimate: Estimate) -> tuple[float, float] | tuple[None, None]:
    ends = estimate.interval()
    return (_exp(ends[0]), _exp(ends[1])) if ends else (None, None)


def scaled(number: AnySummary, factor: float) -> AnySummary:
    """Return a number with its intervals, multiplied by a known factor."""
    names = ("value", "low", "high", "these_low", "these_high")
    present = {name: end for name in names if (end := getattr(number, name, None)) is not None}
    return replace(number, **{name: end * factor for name, end in present.items()})


def priced(seconds: Summary | None, per_hour: float | None) -> Summary | None:
    """Return the price of a time with its interval; None if either is not known."""
    return None if seconds is None or per_hour is None else scaled(seconds, per_hour / 3600)


def cost_ratio(cell: Measured, reference: Measured, quantity: str = TIME, factor: float = 1.0) -> Ratio | None:
    """Return the cost of the other ÷ the own; None if one is not known."""
    effect = shown_effect(quantity, [(reference, cell)])
    runs = len(cell.samples(quantity)), len(reference.samples(quantity))
    return scaled(as_ratio(effect.mean, runs), factor) if effect else None


def as_difference(estimate: Estimate, metric: str, runs: tuple[int, int]) -> Difference:
    """Return a difference of a metric, with the test of equality for an accuracy."""
    low, high = estimate.interval() or (None, None)
    is_equal = is_accuracy(metric) and estimate.is_within(ACCURACY_MARGIN)
    return Difference(estimate.value, low, high, *runs, estimate.paired, is_equal)


def quality_difference(cell: Measured, reference: Measured, metric: str) -> Difference | None:
    """Return the metric of a configuration minus that of the other; None if a side does not have it."""
    effect = shown_effect(metric, [(cell, reference)])
    runs = len(cell.samples(metric)), len(reference.samples(metric))
    return as_difference(effect.mean, metric, runs) if effect else None


def cost_summary(samples: tuple[Sample, ...], rounding: float = 0.0) -> Summary | None:
    """Return the geometric mean from logs; None without runs."""
    summary = quality_summary(samples, rounding)
    if summary is None:
        return None
    low, high = (None if end is None else _exp(end) for end in (summary.low, summary.high))
    return Summary(_exp(summary.value), low, high, summary.runs)


def quality_summary(samples: tuple[Sample, ...], rounding: float = 0.0) -> Summary | None:
    """Return the mean of numbers of runs; None without runs."""
    if not samples:
        return None
    estimate = mean([sample.value for sample in samples], rounding)
    low, high = estimate.interval() or (None, None)
    return Summary(estimate.value, low, high, len(samples))


def _exp(value: float) -> float:
    return math.exp(min(700.0, value))
