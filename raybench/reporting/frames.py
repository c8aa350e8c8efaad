"""The answer as tables of pandas: the comparison, the effects and the best configurations.

Each column is declared once, with its type, unit, meaning and value.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from raybench.analysis.answer import Answer, Best, Configuration, Criterion, Effect
from raybench.core.text import format_value
from raybench.results.columns import NUMBER, TEXT, WHOLE, YES_NO, Column
from raybench.sources.result_tables import frame

if TYPE_CHECKING:
    from pandas import DataFrame


Value = Callable[[Answer, Any], Any]
Field = tuple[Column, Value]
"""A column and the function that gives its value in a row."""


def _at(path: str) -> Value:
    """The value at a path of attributes of a row, such as `to_target.reached`; None if one is missing or empty."""

    def value(_: Answer, row: Any) -> Any:
        for name in path.split("."):
            row = getattr(row, name, None)
        return None if row == "" else row

    return value


def _field(name: str, dtype: str, unit: str, meaning: str, value: str | Value = "") -> Field:
    """A column; its value is a function of a row, or a path of attributes, by default its name."""
    return Column(name, dtype, unit, meaning), value if callable(value) else _at(value or name)


def _interval(prefix: str, unit: str, meaning: str, value: str | Value = "") -> Iterator[Field]:
    """Yield the columns of a ratio, a difference or a summary and of the ends of its interval."""
    find = value if callable(value) else _at(value or prefix)

    def part(name: str) -> Value:
        return lambda answer, row: getattr(find(answer, row), name, None)

    stem = f"{prefix}_" if prefix != "ratio" else ""
    yield _field(prefix, NUMBER, unit, meaning, part("value"))
    for end, name in (("lower", "low"), ("upper", "high")):
        meaning = f"{end} end of its 95% interval"
        yield _field(f"{stem}{name}", NUMBER, unit, meaning, part(name))


def _label(answer: Answer, index: int | None) -> str | None:
    return None if index is None else answer.configurations[index].label


def _marks(_: Answer, row: Configuration | Effect | Best) -> str | None:
    return ", ".join(row.cautions) or None


def _ties(answer: Answer, row: tuple[Best, Criterion]) -> str | None:
    return "; ".join(str(_label(answer, index)) for index in (*row[0].indistinguishable, *row[0].unproven)) or None


_CAUTIONS = _field("cautions", TEXT, "", "marks of the cautions that concern it, separated by commas", _marks)

_COMPARISON = (
    _field("label", TEXT, "", "the configuration's values on the axes that vary"),
    _field("reference", TEXT, "", "the configuration it is compared with", lambda a, row: _label(a, row.reference)),
    _field("rank", WHOLE, "", "by quality with a budget, else by time to the target, else by time; from 1"),
    _field("planned", WHOLE, "runs", "requested runs"),
    _field("completed", WHOLE, "runs", "completed runs, which all numbers are of"),
    _field("skip", TEXT, "", "the reason why it cannot run; missing if it can"),
    _field("unit", TEXT, "", "the unit of work of times, prices and energies", lambda a, _: a.unit.label),
    *_interval("time_s", "s", "steady time per unit, geometric mean over runs", "seconds"),
    _field("rate_unit", TEXT, "", "what `rate` counts, such as tokens", lambda a, _: a.unit.counted or None),
    *_interval("rate", "1/s", "what is counted per second, such as tokens; geometric mean"),
    *_interval("ratio", "ratio", "speed relative to the reference; above 1 is faster"),
    _field("metric", TEXT, "", "the metric of quality, such as val/accuracy", lambda a, _: a.metric or None),
    *_interval("quality", "", "the metric after training, mean over runs"),
    *_interval("quality_difference", "", "quality minus that of the reference"),
    _field("reached", WHOLE, "runs", "runs that reached the target", "to_target.reached"),
    _field("tried", WHOLE, "runs", "runs that tried to reach the target", "to_target.tried"),
    _field("to_target_s", NUMBER, "s", "expected time to the target, with restarts", "to_target.expected.value"),
    *_interval("to_target_ratio", "ratio", "speed to the target relative to the reference", "to_target.ratio"),
    _field("currency", TEXT, "", "of the prices, such as USD", lambda a, _: a.currency),
    _field("price", NUMBER, "currency", "price of a unit of work"),
    _field("total_price", NUMBER, "currency", "price of a whole run, median over runs"),
    _field("to_target_price", NUMBER, "currency", "expected price to the target", "to_target.price"),
    _field("energy_j", NUMBER, "J", "energy of the device per unit of work"),
    *_interval("mfu", "fraction", "model FLOP/s over the measured peak, mean over runs", "mfu.share"),
    _field("datasheet_mfu", NUMBER, "fraction", "model FLOP/s over the data sheet's peak", "mfu.datasheet"),
    _field("communication", NUMBER, "fraction", "of a step's time for the exchange of gradients"),
    _field("limited_by", TEXT, "", "compute, memory, input or overhead"),
    _CAUTIONS,
)

_EFFECTS = (
    _field("axis", TEXT, "", "the axis"),
    _field("value", TEXT, "", "its value", lambda _, row: format_value(row.value)),
    _field("other", TEXT, "", "the baseline's value", lambda _, row: format_value(row.other)),
    _field("pairs", WHOLE, "pairs", "pairs of configurations that differ in it alone", "sets"),
    _field("runs", WHOLE, "runs", "smallest number of runs of a configuration in them"),
    *_interval("ratio", "ratio", "geometric mean of their speeds; above 1 is faster", "speed"),
    *_interval("to_target_ratio", "ratio", "the same of the times to the target", "to_target"),
    *_interval("efficiency", "fraction", "speed-up over the increase of `count` or `threads`"),
    _field("smallest", NUMBER, "ratio", "smallest ratio of a pair", "least"),
    _field("largest", NUMBER, "ratio", "largest ratio of a pair", "most"),
    _field("varies", YES_NO, "", "whether the effect differs between pairs beyond noise"),
    _field("metric", TEXT, "", "the metric of quality", lambda a, _: a.metric or None),
    *_interval("quality_difference", "", "mean difference of quality", lambda a, row: row.quality.get(a.metric)),
    _CAUTIONS,
)

_BEST = (
    _field("criterion", TEXT, "", "such as fastest, first to target or cheapest", lambda _, row: row[1].value),
    _field("label", TEXT, "", "the best configuration by it", lambda a, row: _label(a, row[0].configuration)),
    _field("other", TEXT, "", "the configuration it is compared with", lambda a, row: _label(a, row[0].other)),
    *_interval("ratio", "ratio", "relative to that; above 1 is better", lambda _, row: row[0].ratios[row[1]]),
    *_interval("quality_difference", "", "quality minus that of the other", lambda _, row: row[0].quality),
    _field("not_distinguishable", TEXT, "", "configurations not shown to be worse, separated by semicolons", _ties),
    _field("cautions", TEXT, "", "marks of the cautions that could change it", lambda a, row: _marks(a, row[0])),
)

_GRID = Column("grid", TEXT, "", "the grid's name")

TABLES: Mapping[str, Sequence[Column]] = {
    name: (_GRID, *(column for column, _ in fields))
    for name, fields in (("comparison", _COMPARISON), ("effects", _EFFECTS), ("best", _BEST))
}
"""Columns of each table; the axes of the grid have columns by their own names in the comparison, after the label."""


def comparison(answers: Sequence[Answer]) -> DataFrame:
    """Return one row per configuration; metrics after training, means over runs, have columns by their own names."""
    axes = list(dict.fromkeys(axis for answer in answers for axis in answer.axes))
    rows = []
    for answer in answers:
        for each in answer.configurations:
            row = _row(answer, each, _COMPARISON)
            values = {axis: each.axes[axis] for axis in axes if axis in each.axes}
            plain = {axis: v if isinstance(v, (bool, int, float)) else format_value(v) for axis, v in values.items()}
            rows.append(row | plain | dict(each.metrics))
    grid, label, *others = TABLES["comparison"]
    return frame(
        rows, [grid, label, *(Column(axis, _dtype(axis, rows), "", "value of this axis") for axis in axes), *others]
    )


def effects(answers: Sequence[Answer]) -> DataFrame:
    """Return one row per effect, the largest first."""
    return frame([_row(a, each, _EFFECTS) for a in answers for each in a.effects], TABLES["effects"])


def best(answers: Sequence[Answer]) -> DataFrame:
    """Return one row per criterion."""
    rows = [_row(a, (each, criterion), _BEST) for a in answers for each in a.best for criterion in each.ratios]
    return frame(rows, TABLES["best"])


def _row(answer: Answer, row: Any, fields: Iterable[Field]) -> dict[str, Any]:
    return {"grid": answer.grid} | {column.name: value(answer, row) for column, value in fields}


def _dtype(axis: str, rows: Sequence[Mapping[str, Any]]) -> str:
    """The type of a column of an axis."""
    values = [row[axis] for row in rows if axis in row]
    kinds: dict[str, type | tuple[type, ...]] = {YES_NO: bool, WHOLE: int, NUMBER: (int, float)}
    return next((name for name, kind in kinds.items() if all(isinstance(each, kind) for each in values)), TEXT)
