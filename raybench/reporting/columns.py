"""The table of effects and that of all configurations as columns of text, for terminal, page and notebook."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from raybench.analysis.answer import Answer, Configuration
from raybench.analysis.bottleneck import OVERHEAD
from raybench.core.labels import axis_label
from raybench.core.repeats import percent
from raybench.core.text import format_value
from raybench.reporting import words
from raybench.reporting.layout import AXIS, LABEL, NOTHING, Column

STANDARD = frozenset({"train/loss", "train/accuracy", "val/loss", "val/accuracy"})
"""Metrics without a column of their own, unless one is that of quality; curves show the loss."""


def effect_columns(answer: Answer) -> list[Column]:
    """Return the table of effects: the effect on speed, and on each metric of quality."""
    effects, speed = answer.effects, words.speed_head(answer)
    to_target = any(each.to_target for each in effects)
    metrics = dict.fromkeys([*([answer.metric] if answer.metric else []), *(m for e in effects for m in e.quality)])
    texts = [words.share_text(each.efficiency) for each in effects]
    numbers = [[each.value if each else None for each in (e.speed, e.efficiency)] for e in effects]
    columns = [
        Column("effect of", list(map(words.effect_name, effects)), right=False, kind=LABEL),
        Column(
            f"speed to {words.goal_text(answer)}",
            [words.ratio_text(each.to_target) for each in effects],
            [each.to_target.value if each.to_target else None for each in effects],
            right=False,
        ),
        Column(speed, list(map(words.effect_speed, effects)), [e[0] for e in numbers], right=False, drop=4 * to_target),
        Column("efficiency", texts, [each[1] for each in numbers], right=False, drop=1),
    ]
    for metric in metrics:
        own = [each.quality.get(metric) for each in effects]
        if metric == answer.metric:
            texts = [words.effect_quality(each, metric) for each in effects]
        else:
            texts = [words.difference_text(each, metric) for each in own]
        unit = ", points" if words.is_accuracy(metric) else ""
        drop = 0 if metric == answer.metric else 1
        head, values = f"{words.metric_name(metric)}{unit}", [each.value if each else None for each in own]
        columns.append(Column(head, texts, values, right=False, drop=drop))
    marks = [", ".join(each.cautions) for each in effects]
    columns.append(Column("cautions", marks, right=False, drop=3))
    if answer.budget and answer.metric:  # what decides comes first
        columns.insert(1, columns.pop(4))
    return [column for column in columns if not column.is_empty]


def rows(answer: Answer) -> list[Configuration]:
    """Return the configurations in the order of the table: by rank, then those without a time."""
    ranked = [answer.configurations[index] for index in answer.ranking]
    return [*ranked, *(each for each in answer.configurations if each.index not in set(answer.ranking))]


def configuration_columns(answer: Answer, shown: Sequence[Configuration]) -> list[Column]:
    """Return the table of configurations; columns without any value are left out."""
    target, unit, metric = answer.target, answer.unit, answer.metric
    currency = words.currency_sign(answer)

    def column(
        head: str,
        value: Callable[[Configuration], Any],
        text: Callable[[Any], str] = words.number,
        **options: Any,
    ) -> Column:
        values = [value(each) for each in shown]
        numbers = [each if isinstance(each, (int, float)) else None for each in values]
        texts = ["" if each == "" else NOTHING if each is None else text(each) for each in values]
        return Column(head, texts, numbers if any(each is not None for each in numbers) else (), **options)

    def metric_of(name: str) -> Callable[[Configuration], float | None]:
        return lambda each: each.metrics.get(name)

    def limit(each: Configuration) -> str:
        if each.limited_share is None or each.limited_by == OVERHEAD:  # its share would be the MFU
            return each.limited_by
        return f"{each.limited_by} ({100 * each.limited_share:.0f}%)"

    columns = [
        column("#", lambda each: each.rank, str, drop=1),
        column("configuration", lambda each: each.label or answer.workload, str, right=False, kind=LABEL),
    ]
    for axis in answer.axes:
        cells = [
            ("yes" if value else "no") if isinstance(value := each.axes.get(axis), bool) else value for each in shown
        ]
        texts = [format_value(cell) if axis in each.axes else NOTHING for cell, each in zip(cells, shown, strict=True)]
        values = [each.axes.get(axis) for each in shown]
        is_number = all(isinstance(value, (int, float)) for value in values)
        columns.append(Column(axis_label(axis), texts, values if is_number else (), right=False, kind=AXIS))
    if target:
        goal = words.goal_text(answer)
        columns += [
            column(f"to {goal}, s", lambda each: (to := each.to_target) and to.expected and to.expected.value, drop=3),
            column(
                "reached", lambda each: (to := each.to_target) and to.tried and f"{to.reached}/{to.tried}", str, drop=1
            ),
            _ratios(f"speed to {goal}", shown, lambda each: each.to_target and each.to_target.ratio, to_target=True),
        ]
    rate = column(f"{unit.counted}/s", lambda each: each.rate and each.rate.value, words.rate_number, drop=1)
    columns.append(replace(rate, drop=6) if target and not unit.has_rate else rate)
    if not unit.has_rate:
        columns.append(column(f"s/{unit.label}", lambda each: each.seconds and each.seconds.value, drop=6))
    drop = 2 if unit.has_rate else 4  # tokens/s and MFU are what language models are compared by
    columns.append(column("MFU", lambda each: each.mfu and each.mfu.share.value, percent, drop=drop))
    columns.append(column("MFU (data sheet)", lambda each: each.mfu and each.mfu.datasheet, percent, drop=9))
    columns.append(_ratios(words.speed_head(answer), shown, lambda each: each.ratio, drop=8 if target else 0))
    if metric:
        columns.append(_quality(answer, shown))
    if target and words.is_reached(answer.configurations):
        columns.append(column(f"{currency} to {goal}", lambda each: each.to_target and each.to_target.price, drop=5))
        columns.append(column(f"J to {goal}", lambda each: each.to_target and each.to_target.energy_j, drop=9))
    else:
        short = unit.label.replace("million", "M")
        columns.append(column(f"{currency}/{short}", lambda each: each.price, drop=5))
        columns.append(column(f"J/{short}", lambda each: each.energy_j, drop=9))
    own_metrics = dict.fromkeys(name for each in shown for name in each.metrics if name not in (metric, *STANDARD))
    for number, name in enumerate(own_metrics):
        columns.append(column(words.metric_name(name), metric_of(name), drop=13 + number))
    columns.append(column("limited by", limit, str, right=False, drop=8))
    if not words.runs_text(answer):
        columns.append(column("runs", lambda each: f"{each.completed}/{each.planned}", str, drop=2))
    columns.append(column("cautions", lambda each: ", ".join(each.cautions), str, right=False, drop=1))
    return [each for each in columns if not each.is_empty]


def _ratios(
    head: str,
    shown: Sequence[Configuration],
    ratio: Callable[[Configuration], Any],
    drop: int = 0,
    to_target: bool = False,
) -> Column:
    """Return a column of ratios with their intervals; the reference is named, and a missing time explained."""

    def text(each: Configuration) -> str:
        if (own := ratio(each)) is not None:
            return words.ratio_text(own)
        if to_target and each.to_target and not each.to_target.reached:
            return "not reached"
        if each.is_reference and each.seconds:
            return "reference"
        return words.outcome_text(each) if each.seconds is None else NOTHING

    values = [own.value if (own := ratio(each)) else 1.0 if each.is_reference else None for each in shown]
    if all(ratio(each) is None for each in shown) and (drop or to_target):
        return Column(head, [NOTHING for _ in shown])
    return Column(head, list(map(text, shown)), values, right=False, drop=drop)


def _quality(answer: Answer, shown: Sequence[Configuration]) -> Column:
    """Return the column of the metric, with enough decimals to see its differences."""
    ends = [each.quality_difference for each in answer.configurations if each.quality_difference]
    widths = [each.high - each.low for each in ends if each.low is not None and each.high is not None]
    decimals = 2 if min(widths, default=1.0) < 0.001 else 1
    values = [each.quality.value if each.quality else None for each in shown]
    texts = [NOTHING if value is None else words.metric_text(answer.metric, value, decimals) for value in values]
    return Column(words.metric_name(answer.metric), texts, values)
