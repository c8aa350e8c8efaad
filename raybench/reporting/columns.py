"""The table of effects and that of all configurations as columns of text, for terminal, page and notebook."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from raybench.analysis.answer import Answer, Configuration
from raybench.analysis.ratios import is_accuracy
from raybench.analysis.trade_off import run_costs
from raybench.core.labels import axis_label
from raybench.core.repeats import percent
from raybench.core.text import format_value
from raybench.reporting import words
from raybench.reporting.layout import AXIS, LABEL, NOTHING, TEXT, Column
from raybench.results.run_table import REPORTED
from raybench.results.utilization import OVERHEAD

EXPECTED = "to_target.expected"
"""The path of the time to the target."""

STANDARD = frozenset({"train/loss", "train/accuracy", "val/loss", "val/accuracy"})
"""Metrics without a column of their own, unless one is that of quality; curves show the loss."""


def at(row: Any, path: str) -> Any:
    """Return the value at a path of a row, such as `to_target.reached`; None if a part of it is missing or empty."""
    if isinstance(row, Mapping):
        return row.get(path)
    name, _, rest = path.partition(".")
    value = getattr(row, name, None)
    return at(value, rest) if rest else None if value == "" else value


def effect_columns(answer: Answer) -> list[Column]:
    """Return the table of effects on speed and on each metric of quality; none if it repeats that of configurations."""
    if len({each.axis for each in answer.effects}) == 1 and not any(
        each.sets > 1 or each.efficiency for each in answer.effects
    ):
        return []
    effects, main, to_target = answer.effects, answer.metric, any(each.to_target for each in answer.effects)
    columns = [
        Column("effect of", list(map(words.effect_name, effects)), kind=LABEL),
        Column(f"speed to {words.goal_text(answer)}", [words.ratio_text(each.to_target) for each in effects]),
        Column(words.speed_head(answer), list(map(words.effect_speed, effects)), drop=4 * to_target),
        Column("efficiency", [words.share_text(each.efficiency) for each in effects], drop=1),
    ]
    for metric in dict.fromkeys([*([main] if main else []), *(name for each in effects for name in each.quality)]):
        texts = [words.effect_quality(each, metric, metric == main) for each in effects]
        columns.append(Column(_difference_head(metric), texts, drop=metric != main))
    columns.append(Column("cautions", [", ".join(each.cautions) for each in effects], drop=3))
    if answer.budget and main:  # what decides comes first
        columns.insert(1, columns.pop(4))
    return [column for column in columns if not column.is_empty]


def _difference_head(metric: str) -> str:
    return words.metric_name(metric) + (", points" if is_accuracy(metric) else " difference")


def rows(answer: Answer) -> list[Configuration]:
    """Return the configurations in the order of the table: by rank, then those without a time."""
    ranked = [answer.configurations[index] for index in answer.ranking]
    return [*ranked, *(each for each in answer.configurations if each.index not in set(answer.ranking))]


def configuration_columns(answer: Answer, shown: Sequence[Configuration]) -> list[Column]:
    """Return the table of configurations; columns without any value are left out."""
    unit, metric, goal, currency = answer.unit, answer.metric, words.goal_text(answer), words.currency_sign(answer)
    is_reached = words.is_reached(answer.configurations)
    of, (priced, more) = "to_target." if is_reached else "", words.price_unit(answer)
    per, per_more = (f" to {goal}" if is_reached else f"/{_short(each.label)}" for each in (unit, priced))
    per_more = f"/{_short(priced.label)}{per_more}" if is_reached and more > 1 else per_more
    goal_s, unit_s = (words.column_unit(at(each, f"{path}.value") for each in shown) for path in (EXPECTED, "seconds"))

    def column(
        head: str, path: str, text: Callable[[Any], str] | None = None, size: float = 1, **options: Any
    ) -> Column:
        values = [at(each, path) for each in shown]
        texts = (
            [NOTHING if each is None else text(each) for each in values] if text else words.column_texts(values, size)
        )
        return Column(head, texts, **{"right": True, **options})

    quality = partial(words.metric_text, metric, decimals=words.quality_decimals(answer))
    columns = [
        column("#", "rank", str, drop=1),
        Column("configuration", [each.label or answer.workload for each in shown], kind=LABEL),
        *(column(axis_label(axis), f"axes.{axis}", _axis_value, right=False, kind=AXIS) for axis in answer.axes),
        column(f"to {goal}, {goal_s.name}", EXPECTED, size=goal_s.seconds, drop=3),
        column("reached", "to_target", lambda to: f"{to.reached}/{to.tried}" if to.tried else NOTHING, drop=1),
        _ratios(f"speed to {goal}", shown, "to_target.ratio"),
        column(f"{unit.counted}/s", "rate.value", words.rate_number, drop=1 if unit.has_rate or not is_reached else 6),
        *([] if unit.has_rate else [column(f"{unit_s.name}/{unit.label}", "seconds", size=unit_s.seconds, drop=6)]),
        # Tokens/s and MFU are what language models are compared by.
        column("MFU", "mfu.share.value", percent, drop=2 if unit.has_rate else 4),
        column("MFU (data sheet)", "mfu.datasheet", percent, drop=9),
        _ratios(words.speed_head(answer), shown, "ratio", drop=8 if is_reached else 0),
        column(words.metric_name(metric), "quality.value", quality),
        *([] if effect_columns(answer) else [_differences(answer, shown)]),
        Column(
            f"{currency}{per_more}",
            words.column_texts([at(each, f"{of}price") for each in shown], 1 / more, with_ends=True),
            drop=2,
            right=True,
        ),
        *_of_runs(answer, shown),
        _energy(answer, shown)
        if unit.has_rate and not is_reached
        else column(f"device J{per}", f"{of}energy_j", drop=9),
    ]
    own = dict.fromkeys(name for each in shown for name in each.metrics if name not in (metric, *STANDARD))
    columns += [column(words.metric_name(name), f"metrics.{name}", drop=13 + n) for n, name in enumerate(own)]
    columns.append(Column("memory", list(map(words.memory_text, shown)), drop=7, right=True))
    for each in (each for each in REPORTED if each.name not in words.MEMORY):
        text = percent if each.unit == "fraction" else None
        columns.append(column(each.head, f"medians.{each.name}", text, drop=each.drop))
    columns.append(Column("a run", list(map(words.goodput_text, shown)), drop=12, kind=TEXT))
    columns.append(Column("limited by", list(map(_limit, shown)), drop=8))
    if not words.runs_text(answer):
        columns.append(Column("runs", [f"{each.completed}/{each.planned}" for each in shown], drop=2, right=True))
    if len({each.name for each in answer.machine_speeds}) > 1:
        columns.append(column("machines", "machines", str, drop=2))
    columns.append(Column("cautions", [", ".join(each.cautions) for each in shown], drop=1))
    return [each for each in columns if not each.is_empty]


def device_columns(answer: Answer) -> list[Column]:
    """Return the table of the best configuration of each device; empty if that of configurations is the same."""
    if not answer.of_devices:
        return []
    shown = [answer.configurations[each.configuration] for each in answer.of_devices]
    columns = configuration_columns(answer, shown)
    place = next(number for number, column in enumerate(columns) if column.kind == LABEL)
    columns[place] = replace(columns[place], head="best of each device")
    certain = Column("certain", list(map(partial(words.certain_text, answer), answer.of_devices)), drop=3, kind=TEXT)
    last = next((number for number, column in enumerate(columns) if column.head == "cautions"), len(columns))
    return [*columns[:last], certain, *columns[last:]]


def _energy(answer: Answer, shown: Sequence[Configuration]) -> Column:
    """Return what is done with a joule of the device, such as tokens."""
    unit = answer.unit
    amounts = [each.energy_j and unit.amount / each.energy_j for each in shown]
    return Column(f"{unit.counted}/device J", words.column_texts(amounts), drop=9, right=True)


def _of_runs(answer: Answer, shown: Sequence[Configuration]) -> list[Column]:
    """Return the prices of a run, which is to the target if there is one, and of a month."""
    prices, currency = [run_costs(each)[1] for each in shown], words.currency_sign(answer)
    times = answer.runs_per_month or 0.0
    heads = [(f"{currency}/run", 1.0)] * (not words.is_reached(shown) and answer.unit.name != "run")
    heads += [(f"{currency}/month ({times:,.0f} runs)", times)] * bool(times)
    return [
        Column(head, words.column_texts([price and price * n for price in prices]), drop=7, right=True)
        for head, n in heads
    ]


def machine_columns(answer: Answer) -> list[Column]:
    """Return the table of machines, the slowest first; empty if no model of device has several."""
    shown = [each for each in answer.machine_speeds if each.speed]
    columns = [
        Column("machine", [each.name for each in shown], kind=LABEL),
        Column("device", [each.device for each in shown], drop=2),
        Column("runs", [str(each.runs) for each in shown], drop=1, right=True),
        Column("speed relative to the others of its model", [words.ratio_text(each.speed) for each in shown]),
    ]
    return columns if shown else []


def _axis_value(value: Any) -> str:
    return ("yes" if value else "no") if isinstance(value, bool) else format_value(value)


def _limit(each: Configuration) -> str:
    """What limits a configuration and how much; the share of overhead would be the MFU."""
    is_known = each.limited_share is not None and each.limited_by != OVERHEAD
    return f"{each.limited_by} ({100 * (each.limited_share or 0):.0f}%)" if is_known else each.limited_by


def _short(label: str) -> str:
    for word in ("million", "billion", "trillion"):
        label = label.replace(word, word[0].upper())
    return label


def _differences(answer: Answer, shown: Sequence[Configuration]) -> Column:
    """Return the column of differences of quality, which a table of effects has otherwise."""
    texts = [words.difference_text(each.quality_difference, answer.metric) for each in shown]
    return Column(_difference_head(answer.metric), texts, 7)


def _ratios(head: str, shown: Sequence[Configuration], path: str, drop: int = 0) -> Column:
    """Return a column of ratios with their intervals; the reference is named, and a missing time explained."""

    def text(each: Configuration) -> str:
        if (ratio := at(each, path)) is not None:
            return words.ratio_text(ratio)
        if path != "ratio" and each.to_target and each.to_target.tried and not each.to_target.reached:
            return "not reached"
        if each.is_reference and each.seconds:
            return "reference"
        return words.outcome_text(each) if each.seconds is None else NOTHING

    is_needed = (path == "ratio" and not drop) or any(at(each, path) for each in shown)
    return Column(head, list(map(text, shown)) if is_needed else [], drop)
