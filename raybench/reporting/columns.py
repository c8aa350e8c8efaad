"""The table of effects and that of all configurations as columns of text, for terminal, page and notebook."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from raybench.analysis.answer import Answer, Configuration
from raybench.analysis.trade_off import run_costs
from raybench.core.identity import is_smoke
from raybench.core.labels import axis_label
from raybench.core.repeats import percent
from raybench.core.text import format_value
from raybench.reporting.layout import AXIS, LABEL, NOTHING, TEXT, Column
from raybench.reporting.words.best import certain_text
from raybench.reporting.words.captions import MEMORY, memory_text, runs_text
from raybench.reporting.words.effects import effect_name, effect_quality, effect_speed
from raybench.reporting.words.goodput import goodput_text
from raybench.reporting.words.numbers import column_texts, column_unit, rate_number, ratio_text, share_text
from raybench.reporting.words.quality import (
    difference_head,
    difference_text,
    goal_text,
    metric_name,
    metric_text,
    quality_decimals,
)
from raybench.reporting.words.rows import currency_sign, is_reached, price_unit, speed_head
from raybench.reporting.words.status import outcome_text
from raybench.results.columns import at
from raybench.results.run_table import REPORTED
from raybench.results.utilization import OVERHEAD

EXPECTED = "to_target.expected"  # the path of the time to the target

STANDARD = frozenset({"train/loss", "train/accuracy", "val/loss", "val/accuracy"})
"""Metrics without a column of their own, unless one is that of quality; curves show the loss."""


def effect_columns(answer: Answer) -> list[Column]:
    """Return the table of effects on speed and on each metric of quality; none if it repeats that of configurations."""
    if len({effect.axis for effect in answer.effects}) == 1 and not any(
        effect.sets > 1 or effect.efficiency for effect in answer.effects
    ):
        return []
    effects, main, to_target = answer.effects, answer.metric, any(effect.to_target for effect in answer.effects)
    columns = [
        Column("effect of", list(map(effect_name, effects)), kind=LABEL),
        Column(f"speed to {goal_text(answer)}", [ratio_text(effect.to_target) for effect in effects]),
        Column(speed_head(answer), list(map(effect_speed, effects)), drop=4 * to_target),
        Column("efficiency", [share_text(effect.efficiency) for effect in effects], drop=1),
    ]
    for metric in dict.fromkeys([*([main] if main else []), *(name for effect in effects for name in effect.quality)]):
        texts = [effect_quality(effect, metric, metric == main) for effect in effects]
        columns.append(Column(difference_head(metric), texts, drop=metric != main))
    columns.append(Column("cautions", [", ".join(effect.cautions) for effect in effects], drop=3))
    if answer.budget and main:  # what decides comes first
        columns.insert(1, columns.pop(4))
    return [column for column in columns if not column.is_empty]


def rows(answer: Answer) -> list[Configuration]:
    """Return the configurations in the order of the table: by rank, then those without a time."""
    indices = dict.fromkeys([*answer.ranking, *range(len(answer.configurations))])
    return [answer.configurations[index] for index in indices]


def configuration_columns(answer: Answer, shown: Sequence[Configuration]) -> list[Column]:
    """Return the table of configurations; columns without any value are left out."""

    def column(
        head: str, path: str, text: Callable[[Any], str] | None = None, size: float = 1, **options: Any
    ) -> Column:
        values = [at(row, path) for row in shown]
        texts = [NOTHING if value is None else text(value) for value in values] if text else column_texts(values, size)
        return Column(head, texts, **{"right": True, **options})

    labels = Column("configuration", [row.label or answer.workload for row in shown], kind=LABEL)
    axes = [column(axis_label(axis), f"axes.{axis}", _axis_value, right=False, kind=AXIS) for axis in answer.axes]
    if is_smoke(answer.grid):
        outcomes = ["completed" if row.completed == row.planned else outcome_text(row) for row in shown]
        return [labels, *axes, Column("outcome", outcomes, kind=TEXT)]
    unit, metric, goal, currency = answer.unit, answer.metric, goal_text(answer), currency_sign(answer)
    reaches = is_reached(answer.configurations)
    prefix, (priced, more) = "to_target." if reaches else "", price_unit(answer)
    per, per_more = (f" to {goal}" if reaches else f"/{_short(one.label)}" for one in (unit, priced))
    per_more = f"/{_short(priced.label)}{per_more}" if reaches and more > 1 else per_more
    # Who has named prices decides by them.
    has_prices = any(at(row, f"{prefix}price") for row in shown)
    rate_drop = 1 if unit.has_rate else 6 if reaches else 3 if has_prices else 1
    time_drop = 6 if any(at(row, "rate.value") for row in shown) else rate_drop
    goal_s, unit_s = (column_unit(at(row, f"{path}.value") for row in shown) for path in (EXPECTED, "seconds"))
    quality = partial(metric_text, metric, decimals=quality_decimals(answer))
    columns = [
        column("#", "rank", str, drop=3 if has_prices else 1),
        labels,
        *axes,
        column(f"to {goal}, {goal_s.name}", EXPECTED, size=goal_s.seconds, drop=3),
        column("reached", "to_target", lambda to: f"{to.reached}/{to.tried}" if to.tried else NOTHING, drop=1),
        _ratios(f"speed to {goal}", shown, "to_target.ratio"),
        column(f"{unit.counted}/s", "rate.value", rate_number, drop=rate_drop),
        *(
            []
            if unit.has_rate
            else [column(f"{unit_s.name}/{unit.label}", "seconds", size=unit_s.seconds, drop=time_drop)]
        ),
        # Tokens/s and MFU are what language models are compared by.
        column("MFU", "mfu.share.value", percent, drop=(3 if has_prices else 2) if unit.has_rate else 4),
        column("MFU (data sheet)", "mfu.datasheet", percent, drop=9),
        _ratios(speed_head(answer), shown, "ratio", drop=8 if reaches else 0),
        column(metric_name(metric), "quality.value", quality),
        *([] if effect_columns(answer) else [_differences(answer, shown)]),
        Column(
            f"{currency}{per_more}",
            column_texts([at(row, f"{prefix}price") for row in shown], 1 / more, with_ends=True),
            drop=2 if reaches else 1,
            right=True,
        ),
        *_of_runs(answer, shown),
        _energy(answer, shown)
        if unit.has_rate and not reaches
        else column(f"device J{per}", f"{prefix}energy_j", drop=9),
    ]
    logged = dict.fromkeys(name for row in shown for name in row.metrics if name not in (metric, *STANDARD))
    columns += [column(metric_name(name), f"metrics.{name}", drop=13 + n) for n, name in enumerate(logged)]
    columns.append(Column("memory", list(map(memory_text, shown)), drop=7, right=True))
    for declared in (declared for declared in REPORTED if declared.name not in MEMORY):
        text = percent if declared.unit == "fraction" else None
        columns.append(column(declared.head, f"medians.{declared.name}", text, drop=declared.drop))
    columns.append(Column("a run", list(map(goodput_text, shown)), drop=12, kind=TEXT))
    columns.append(Column("limited by", list(map(_limit, shown)), drop=8))
    if not runs_text(answer):
        columns.append(Column("runs", [f"{row.completed}/{row.planned}" for row in shown], drop=2, right=True))
    if len({machine.name for machine in answer.machine_speeds}) > 1:
        columns.append(column("machines", "machines", str, drop=2))
    columns.append(Column("cautions", [", ".join(row.cautions) for row in shown], drop=1))
    return [column for column in columns if not column.is_empty]


def device_columns(answer: Answer) -> list[Column]:
    """Return the table of the best configuration of each device; empty if that of configurations is the same."""
    if not answer.of_devices:
        return []
    shown = [answer.configurations[best.configuration] for best in answer.of_devices]
    columns = configuration_columns(answer, shown)
    place = next(number for number, column in enumerate(columns) if column.kind == LABEL)
    columns[place] = replace(columns[place], head="best of each device")
    certain = Column("certain", list(map(partial(certain_text, answer), answer.of_devices)), drop=3, kind=TEXT)
    last = next((number for number, column in enumerate(columns) if column.head == "cautions"), len(columns))
    return [*columns[:last], certain, *columns[last:]]


def _energy(answer: Answer, shown: Sequence[Configuration]) -> Column:
    """Return what is done with a joule of the device, such as tokens."""
    unit = answer.unit
    amounts = [row.energy_j and unit.amount / row.energy_j for row in shown]
    return Column(f"{unit.counted}/device J", column_texts(amounts), drop=9, right=True)


def _of_runs(answer: Answer, shown: Sequence[Configuration]) -> list[Column]:
    """Return the prices of a run, which is to the target if there is one, and of a month."""
    prices, currency = [run_costs(row)[1] for row in shown], currency_sign(answer)
    times = answer.runs_per_month or 0.0
    run = "training" if any(row.total_is_training for row in shown) else "run"
    heads = [(f"{currency}/{run}", 1.0, 2)] * (not is_reached(shown) and answer.unit.name != "run")
    heads += [(f"{currency}/month ({times:,.0f} {run}s)", times, 1)] * bool(times)  # the user asked for it
    return [
        Column(head, column_texts([price and price * n for price in prices]), drop=drop, right=True)
        for head, n, drop in heads
    ]


def machine_columns(answer: Answer) -> list[Column]:
    """Return the table of machines, the slowest first; empty if no model of device has several."""
    shown = [machine for machine in answer.machine_speeds if machine.speed]
    columns = [
        Column("machine", [machine.name for machine in shown], kind=LABEL),
        Column("device", [machine.device for machine in shown], drop=2),
        Column("runs", [str(machine.runs) for machine in shown], drop=1, right=True),
        Column("speed relative to the others of its model", [ratio_text(machine.speed) for machine in shown]),
    ]
    return columns if shown else []


def _axis_value(value: Any) -> str:
    return ("yes" if value else "no") if isinstance(value, bool) else format_value(value)


def _limit(row: Configuration) -> str:
    """What limits a configuration and how much; the share of overhead would be the MFU."""
    is_known = row.limited_share is not None and row.limited_by != OVERHEAD
    return f"{row.limited_by} ({100 * (row.limited_share or 0):.0f}%)" if is_known else row.limited_by


def _short(label: str) -> str:
    for word in ("million", "billion", "trillion"):
        label = label.replace(word, word[0].upper())
    return label


def _differences(answer: Answer, shown: Sequence[Configuration]) -> Column:
    """Return the column of differences of quality, which a table of effects has otherwise."""
    texts = [difference_text(row.quality_difference, answer.metric) for row in shown]
    return Column(difference_head(answer.metric), texts, 7)


def _ratios(head: str, shown: Sequence[Configuration], path: str, drop: int = 0) -> Column:
    """Return a column of ratios with their intervals; the reference is named, and a missing time explained."""

    def text(row: Configuration) -> str:
        if (ratio := at(row, path)) is not None:
            return ratio_text(ratio)
        if path != "ratio" and row.to_target and row.to_target.tried and not row.to_target.reached:
            return "not reached"
        if row.is_reference and row.seconds:
            return "reference"
        return outcome_text(row) if row.seconds is None else NOTHING

    is_needed = (path == "ratio" and not drop) or any(at(row, path) for row in shown)
    return Column(head, list(map(text, shown)) if is_needed else [], drop)
