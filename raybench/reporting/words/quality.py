"""Metrics of quality, their differences and targets as text."""

from __future__ import annotations

import re

from raybench.analysis.answer import Answer, Difference
from raybench.core.job import Target, is_accuracy
from raybench.core.text import format_value
from raybench.reporting.layout import NOTHING
from raybench.reporting.words.numbers import LEAST, decimals_for, digits_after_point, number, signed


def metric_name(metric: str) -> str:
    """The short name of a metric: accuracy for val/accuracy; `tokens/s by the program` for a rate that it prints."""
    rate = re.fullmatch(r"speed/(\w+)_per_s", metric)
    return "accuracy" if metric == "val/accuracy" else f"{rate[1]}/s by the program" if rate else metric


def difference_head(metric: str) -> str:
    """The heading of differences of a metric: accuracy, points; val/loss difference."""
    return metric_name(metric) + (", points" if is_accuracy(metric) else " difference")


def metric_text(metric: str, value: float, decimals: int | None = None) -> str:
    """Format a value of a metric: 94.12% for an accuracy, as 93.96% misses a target of 94%."""
    if is_accuracy(metric):
        return f"{100 * value:.{decimals or 2}f}%"
    return number(value) if decimals is None else f"{value:,.{decimals}f}"


def quality_decimals(answer: Answer) -> int:
    """The decimals of qualities: those of their differences, and of three digits or, for an accuracy, two."""
    rows, metric = answer.configurations, answer.metric
    needed = [_parts(row.quality_difference, metric)[1] for row in rows if row.quality_difference]
    values = sorted(abs(row.quality.value) for row in rows if row.quality and row.quality.value) or [1.0]
    least = 2 if is_accuracy(metric) else digits_after_point(values[0], 3)
    return min(max([least, *needed]), digits_after_point(values[-1], 6))


def difference_text(difference: Difference | None, metric: str) -> str:
    """Format a difference with its interval, if there is one; that of accuracies in points: −0.2 (−0.5 to +0.1)."""
    if difference is None:
        return NOTHING
    values, decimals = _parts(difference, metric)
    value, *ends = (signed(part, decimals) for part in values)
    return f"{value} ({' to '.join(ends)})" if ends else value


def _parts(difference: Difference, metric: str) -> tuple[list[float], int]:
    """A difference and the ends of its interval, if it has one, in printed units, and their decimals."""
    points, low, high = is_accuracy(metric), difference.low, difference.high
    ends = [low, high] if low is not None and high is not None and low < high else []
    # No two accuracies differ by more than 100 points, and a difference below a thousandth of one is none.
    values = [100 * min(max(part, -1.0), 1.0) if points else part for part in (difference.value, *ends)]
    if points and max(map(abs, values)) < LEAST:
        return [0.0], 1
    digits = digits_after_point(max(map(abs, values)), 2)
    least = min(max(1, digits), 1 if ends else 2) if points else digits
    return values, decimals_for(values[1:], least, 2 if points else digits, 0.0)


def quality_words(difference: Difference, metric: str, reference: str = "") -> str:
    """Say a difference of quality: 0.4 points less accurate (0.1–0.7); equal accuracy within 1 point (−0.1)."""
    values, decimals = _parts(difference, metric)
    value, *ends = (signed(part, decimals) for part in values)
    name, amount, points = metric_name(metric), value.lstrip("+−"), " points" if is_accuracy(metric) else ""
    if difference.is_equal and not difference.is_significant:
        to = f" to {reference}" if reference else ""
        return f"equal {name}{to} within 1 point" + (f" ({value})" if float(amount) else "")
    if ends and not difference.is_significant:
        against = f" against {reference}" if reference else ""
        size = f" {value}{points}{against}," if float(amount) else ""
        return f"{name}{size} not distinguishable from equal (95% CI {' to '.join(ends)}{points})"
    if not float(amount):
        return f"the same {name}" + (f" as {reference}" if reference else "")
    interval = f" (95% CI {'–'.join(sorted((end.lstrip('+−') for end in ends), key=float))})" if ends else ""
    than = f" than {reference}" if reference else ""
    if name == "accuracy":
        return f"{amount} points {'less' if values[0] < 0 else 'more'} accurate{than}{interval}"
    return f"{name} {amount}{points} {'lower' if values[0] < 0 else 'higher'}{than}{interval}"


def target_text(target: Target | None) -> str:
    """Format a target: 94% accuracy; val/loss 0.3; empty without one."""
    if target is None:
        return ""
    if not target.is_accuracy or target.bound is None:
        return f"{target.metric} {format_value(target.bound)}"
    return f"{target.bound if target.in_percent else 100 * target.bound:.4g}% {metric_name(target.metric)}"


def goal_text(answer: Answer) -> str:
    """Format the target in a heading: 94%; empty without one."""
    return target_text(answer.target).removesuffix(" accuracy")
