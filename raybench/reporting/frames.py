"""The answer as tables of pandas: the comparison, the effects and the best configurations."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from raybench.analysis.answer import Answer
from raybench.core.text import format_value
from raybench.reporting.columns import at
from raybench.results.columns import NUMBER, TEXT, WHOLE, YES_NO, Column
from raybench.sources.result_tables import frame

if TYPE_CHECKING:
    from pandas import DataFrame


def _interval(name: str, unit: str, meaning: str, path: str = "") -> Iterator[Column]:
    """Yield the columns of a ratio, a difference or a summary and of the ends of its interval."""
    path, stem = path or name, f"{name}_" if name != "ratio" else ""
    yield Column(name, NUMBER, unit, meaning, f"{path}.value")
    for side, end in (("lower", "low"), ("upper", "high")):
        yield Column(f"{stem}{end}", NUMBER, unit, f"{side} end of its 95% interval", f"{path}.{end}")


_GRID = Column("grid", TEXT, "", "the grid's name", "answer.grid")
_METRIC = Column("metric", TEXT, "", "the metric of quality, such as val/accuracy", "answer.metric")
_CAUTIONS = Column("cautions", TEXT, "", "marks of the cautions that concern it, separated by commas")

TABLES: Mapping[str, Sequence[Column]] = {
    "comparison": (
        _GRID,
        Column("label", TEXT, "", "the configuration's values on the axes that vary"),
        Column("reference", TEXT, "", "the configuration it is compared with"),
        Column("rank", WHOLE, "", "by quality with a budget, else by time to the target, else by time; from 1"),
        Column("planned", WHOLE, "runs", "requested runs"),
        Column("completed", WHOLE, "runs", "completed runs, which all numbers are of"),
        Column("skip", TEXT, "", "the reason why it cannot run; missing if it can"),
        Column("unit", TEXT, "", "the unit of work of times, prices and energies", "answer.unit.label"),
        *_interval("time_s", "s", "steady time per unit, geometric mean over runs", "seconds"),
        Column("rate_unit", TEXT, "", "what `rate` counts, such as tokens", "answer.unit.counted"),
        *_interval("rate", "1/s", "what is counted per second, such as tokens; geometric mean"),
        *_interval("ratio", "ratio", "speed relative to the reference; above 1 is faster"),
        _METRIC,
        *_interval("quality", "", "the metric after training, mean over runs"),
        *_interval("quality_difference", "", "quality minus that of the reference"),
        Column("reached", WHOLE, "runs", "runs that reached the target", "to_target.reached"),
        Column("tried", WHOLE, "runs", "runs that tried to reach the target", "to_target.tried"),
        Column("to_target_s", NUMBER, "s", "expected time to the target, with restarts", "to_target.expected.value"),
        *_interval("to_target_ratio", "ratio", "speed to the target relative to the reference", "to_target.ratio"),
        Column("currency", TEXT, "", "of the prices, such as USD", "answer.currency"),
        Column("price", NUMBER, "currency", "price of a unit of work"),
        Column("total_price", NUMBER, "currency", "price of a whole run, median over runs"),
        Column("to_target_price", NUMBER, "currency", "expected price to the target", "to_target.price"),
        Column("energy_j", NUMBER, "J", "energy of the device per unit of work"),
        *_interval("mfu", "fraction", "model FLOP/s over the measured peak, mean over runs", "mfu.share"),
        Column("datasheet_mfu", NUMBER, "fraction", "model FLOP/s over the data sheet's peak", "mfu.datasheet"),
        Column("communication", NUMBER, "fraction", "of a step's time for the exchange of gradients"),
        Column("limited_by", TEXT, "", "compute, memory, input or overhead"),
        _CAUTIONS,
    ),
    "effects": (
        _GRID,
        Column("axis", TEXT, "", "the axis"),
        Column("value", TEXT, "", "its value"),
        Column("other", TEXT, "", "the baseline's value"),
        Column("pairs", WHOLE, "pairs", "pairs of configurations that differ in it alone", "sets"),
        Column("runs", WHOLE, "runs", "smallest number of runs of a configuration in them"),
        *_interval("ratio", "ratio", "geometric mean of their speeds; above 1 is faster", "speed"),
        *_interval("to_target_ratio", "ratio", "the same of the times to the target", "to_target"),
        *_interval("efficiency", "fraction", "speed-up over the increase of `count` or `threads`"),
        *_interval("serial_share", "fraction", "part of the time that more of `count` or `threads` do not shorten"),
        Column("smallest", NUMBER, "ratio", "smallest ratio of a pair", "least"),
        Column("largest", NUMBER, "ratio", "largest ratio of a pair", "most"),
        Column("varies", YES_NO, "", "whether the effect differs between pairs beyond noise"),
        _METRIC,
        *_interval("quality_difference", "", "mean difference of quality"),
        _CAUTIONS,
    ),
    "best": (
        _GRID,
        Column("criterion", TEXT, "", "such as fastest, first to target or cheapest"),
        Column("label", TEXT, "", "the best configuration by it"),
        Column("other", TEXT, "", "the configuration it is compared with"),
        *_interval("ratio", "ratio", "relative to that; above 1 is better"),
        *_interval("quality_difference", "", "quality minus that of the other", "quality"),
        Column("not_distinguishable", TEXT, "", "configurations not shown to be worse, separated by semicolons"),
        _CAUTIONS,
    ),
}
"""Columns of each table, with the paths of their values in a row or in its answer; the comparison also has the axes."""


def comparison(answers: Sequence[Answer]) -> DataFrame:
    """Return one row per configuration; its axes, and metrics after training, have columns by their own names."""
    made, axes = [], list(dict.fromkeys(axis for answer in answers for axis in answer.axes))
    for answer in answers:
        for each in answer.configurations:
            row = _row("comparison", answer, each, reference=_labels(answer, each.reference))
            values = {axis: each.axes[axis] for axis in axes if axis in each.axes}
            row |= {axis: v if isinstance(v, (int, float)) else format_value(v) for axis, v in values.items()}
            made.append(row | dict(each.metrics))
    grid, label, *others = TABLES["comparison"]
    described = [Column(axis, _dtype(axis, made), "", "value of this axis") for axis in axes]
    return frame(made, [grid, label, *described, *others])


def effects(answers: Sequence[Answer]) -> DataFrame:
    """Return one row per effect, the largest first."""
    made = []
    for answer in answers:
        for each in answer.effects:
            texts = {"value": format_value(each.value), "other": format_value(each.other)}
            quality = each.quality.get(answer.metric)
            serial = next((scaling.serial for scaling in answer.scalings if scaling.axis == each.axis), None)
            made.append(_row("effects", answer, each, quality_difference=quality, serial_share=serial, **texts))
    return frame(made, TABLES["effects"])


def best(answers: Sequence[Answer]) -> DataFrame:
    """Return one row per criterion."""
    made = []
    for answer in answers:
        for each in answer.best:
            own = {"label": _labels(answer, each.configuration), "other": _labels(answer, each.other)}
            own["not_distinguishable"] = _labels(answer, *each.indistinguishable, *each.unproven)
            for criterion, ratio in each.ratios.items():
                made.append(_row("best", answer, each, criterion=criterion.value, ratio=ratio, **own))
    return frame(made, TABLES["best"])


def _row(table: str, answer: Answer, row: Any, **own: Any) -> dict[str, Any]:
    """Return the values of a row of a table: its own ones, those of an object, and those of its answer."""
    values = SimpleNamespace(**{**vars(row), **own, "answer": answer, "cautions": ", ".join(row.cautions)})
    return {column.name: at(values, column.leaf or column.name) for column in TABLES[table]}


def _labels(answer: Answer, *indices: int | None) -> str:
    return "; ".join(answer.configurations[index].label for index in indices if index is not None)


def _dtype(axis: str, made: Sequence[Mapping[str, Any]]) -> str:
    """Return the type of a column of an axis."""
    values = [row[axis] for row in made if axis in row]
    kinds: dict[str, type | tuple[type, ...]] = {YES_NO: bool, WHOLE: int, NUMBER: (int, float)}
    return next((name for name, kind in kinds.items() if all(isinstance(each, kind) for each in values)), TEXT)
