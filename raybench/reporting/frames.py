"""Results as tables of pandas: trials and epochs, the comparison, the effects and the best configurations."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from raybench.analysis.answer import Answer
from raybench.analysis.findings.finding import Finding
from raybench.core.text import format_value
from raybench.results.columns import NUMBER, TEXT, TIME, WHOLE, YES_NO, Column
from raybench.results.epoch_table import EPOCHS, epoch_columns
from raybench.results.run_table import REPORTED, TRIALS, Run, cell_row

if TYPE_CHECKING:
    from pandas import DataFrame, Series


def _column(name: str, dtype: str, unit: str, meaning: str, path: str = "") -> Column[Any]:
    """A column with the path of its value in a row of an answer, by default its name."""
    return Column(dtype, unit, meaning, path or name, name=name)


def _interval(name: str, unit: str, meaning: str, path: str = "") -> Iterator[Column[Any]]:
    """Yield the columns of a ratio, a difference or a summary and of the ends of its interval."""
    path, stem = path or name, f"{name}_" if name != "ratio" else ""
    yield _column(name, NUMBER, unit, meaning, f"{path}.value")
    for side, end in (("lower", "low"), ("upper", "high")):
        yield _column(f"{stem}{end}", NUMBER, unit, f"{side} end of its 95% interval", f"{path}.{end}")


_GRID = _column("grid", TEXT, "", "the grid's name", "answer.grid")
_METRIC = _column("metric", TEXT, "", "the metric of quality, such as val/accuracy", "answer.metric")
_CAUTIONS = _column("cautions", TEXT, "", "marks of the cautions that concern it, separated by commas")

TABLES: Mapping[str, Sequence[Column[Any]]] = {
    "comparison": (
        _GRID,
        _column("label", TEXT, "", "the configuration's values on the axes that vary"),
        _column("reference", TEXT, "", "the configuration it is compared with"),
        _column("rank", WHOLE, "", "by quality with a budget, else by time to the target, else by time; from 1"),
        _column("planned", WHOLE, "runs", "requested runs"),
        _column("completed", WHOLE, "runs", "completed runs, which all numbers are of"),
        _column("skip", TEXT, "", "the reason why it cannot run; missing if it can"),
        _column("unit", TEXT, "", "the unit of work of times, prices and energies", "answer.unit.label"),
        *_interval("time_s", "s", "steady time per unit, geometric mean over runs", "seconds"),
        _column("rate_unit", TEXT, "", "what `rate` counts, such as tokens", "answer.unit.counted"),
        _column("machines", WHOLE, "machines", "machines of its completed runs; 0 if not known"),
        *_interval("rate", "1/s", "what is counted per second, such as tokens; geometric mean"),
        *_interval("ratio", "ratio", "speed relative to the reference; above 1 is faster"),
        _METRIC,
        *_interval("quality", "", "the metric after training, mean over runs"),
        *_interval("quality_difference", "", "quality minus that of the reference"),
        _column("reached", WHOLE, "runs", "runs that reached the target", "to_target.reached"),
        _column("tried", WHOLE, "runs", "runs that tried to reach the target", "to_target.tried"),
        _column("to_target_s", NUMBER, "s", "expected time to the target, with restarts", "to_target.expected.value"),
        *_interval("to_target_ratio", "ratio", "speed to the target relative to the reference", "to_target.ratio"),
        _column("currency", TEXT, "", "of the prices, such as USD", "answer.currency"),
        *_interval("price", "currency", "price of a unit of work"),
        _column("total_price", NUMBER, "currency", "price of a whole run, median over runs"),
        *_interval("to_target_price", "currency", "expected price to the target", "to_target.price"),
        _column("energy_j", NUMBER, "J", "energy of the device per unit of work"),
        *_interval("mfu", "fraction", "model FLOP/s over the measured peak, mean over runs", "mfu.share"),
        _column("datasheet_mfu", NUMBER, "fraction", "model FLOP/s over the data sheet's peak", "mfu.datasheet"),
        _column("communication", NUMBER, "fraction", "of a step's time for the exchange of gradients"),
        *(_column(c.name, NUMBER, c.unit, f"{c.meaning}; median over runs", f"medians.{c.name}") for c in REPORTED),
        _column("limited_by", TEXT, "", "compute, memory, input, communication or overhead"),
        _CAUTIONS,
    ),
    "effects": (
        _GRID,
        _column("axis", TEXT, "", "the axis"),
        _column("value", TEXT, "", "its value"),
        _column("other", TEXT, "", "the baseline's value"),
        _column("pairs", WHOLE, "pairs", "pairs of configurations that differ in it alone", "sets"),
        _column("runs", WHOLE, "runs", "smallest number of runs of a configuration in them"),
        *_interval("ratio", "ratio", "geometric mean of their speeds; above 1 is faster", "speed"),
        *_interval("to_target_ratio", "ratio", "the same of the times to the target", "to_target"),
        *_interval("efficiency", "fraction", "speed-up over the increase of `count` or `threads`"),
        *_interval("serial_share", "fraction", "part of the time that more of `count` or `threads` do not shorten"),
        _column("smallest", NUMBER, "ratio", "smallest ratio of a pair", "least"),
        _column("largest", NUMBER, "ratio", "largest ratio of a pair", "most"),
        _column("varies", YES_NO, "", "whether the effect differs between pairs beyond noise"),
        _METRIC,
        *_interval("quality_difference", "", "mean difference of quality"),
        _CAUTIONS,
    ),
    "best": (
        _GRID,
        _column("criterion", TEXT, "", "such as fastest, first to target or cheapest"),
        _column("verdict", TEXT, "", "better, equal, undecided or one run each; missing if it is the only one"),
        _column("label", TEXT, "", "the best configuration by it"),
        _column("other", TEXT, "", "the configuration it is compared with"),
        *_interval("ratio", "ratio", "relative to that; above 1 is better"),
        *_interval("quality_difference", "", "quality minus that of the other", "quality"),
        _column("not_distinguishable", TEXT, "", "configurations not shown to be worse, separated by semicolons"),
        _CAUTIONS,
    ),
}
"""Columns of each table, with the paths of their values in a row or in its answer; the comparison also has the axes."""


def comparison(answers: Sequence[Answer]) -> DataFrame:
    """Return one row per configuration; its axes, and metrics after training, have columns by their own names."""
    rows, axes = [], list(dict.fromkeys(axis for answer in answers for axis in answer.axes))
    for answer in answers:
        for configuration in answer.configurations:
            row = _row("comparison", answer, configuration, reference=_labels(answer, configuration.reference))
            values = {axis: configuration.axes[axis] for axis in axes if axis in configuration.axes}
            row |= {axis: v if isinstance(v, (int, float)) else format_value(v) for axis, v in values.items()}
            rows.append(row | dict(configuration.metrics))
    grid, label, *further = TABLES["comparison"]
    described = [_column(axis, _dtype(axis, rows), "", "value of this axis") for axis in axes]
    return frame(rows, [grid, label, *described, *further])


def effects(answers: Sequence[Answer]) -> DataFrame:
    """Return one row per effect, the largest first."""
    rows = []
    for answer in answers:
        for effect in answer.effects:
            texts = {"value": format_value(effect.value), "other": format_value(effect.other)}
            quality = effect.quality.get(answer.metric)
            serial = next((scaling.serial for scaling in answer.scalings if scaling.axis == effect.axis), None)
            rows.append(_row("effects", answer, effect, quality_difference=quality, serial_share=serial, **texts))
    return frame(rows, TABLES["effects"])


def best(answers: Sequence[Answer]) -> DataFrame:
    """Return one row per criterion."""
    rows = []
    for answer in answers:
        for result in answer.best:
            labels = {"label": _labels(answer, result.configuration), "other": _labels(answer, result.other)}
            labels["not_distinguishable"] = _labels(answer, *result.indistinguishable, *result.unproven)
            for criterion, ratio in result.ratios.items():
                rows.append(_row("best", answer, result, criterion=criterion.value, ratio=ratio, **labels))
    return frame(rows, TABLES["best"])


def _row(table: str, answer: Answer, row: Any, **more: Any) -> dict[str, Any]:
    """Return the values of a row of a table: `more`, those of an object, and those of its answer."""
    values = SimpleNamespace(**{**vars(row), **more, "answer": answer, "cautions": ", ".join(row.cautions)})
    return {column.name: column.value(values) for column in TABLES[table]}


def _labels(answer: Answer, *indices: int | None) -> str:
    return "; ".join(answer.configurations[index].label for index in indices if index is not None)


def _dtype(axis: str, rows: Sequence[Mapping[str, Any]]) -> str:
    values = [row[axis] for row in rows if axis in row]
    kinds: dict[str, type | tuple[type, ...]] = {YES_NO: bool, WHOLE: int, NUMBER: (int, float)}
    return next((name for name, kind in kinds.items() if all(isinstance(value, kind) for value in values)), TEXT)


def trials(runs: Sequence[Run], findings: Mapping[int, Sequence[Finding]]) -> DataFrame:
    """Return one row per run, with the codes of its findings (`raybench.analysis.findings.finding.findings`)."""
    described = [column for column in TRIALS if not column.leaf]
    cells: dict[int, dict[str, Any]] = {}
    rows = []
    for run in runs:
        if id(run.cell) not in cells:  # its runs share it
            cells[id(run.cell)] = cell_row(run.cell)
        metrics = {} if run.is_diverged else run.last_metrics
        row = {f"last_{name.replace('/', '_')}": value for name, value in metrics.items()}
        row |= {f"{unit}_per_s": rate for unit, rate in run.rates.items()} | cells[id(run.cell)]
        row |= {column.name: column.value(run) for column in described}
        codes = ",".join(finding.code for finding in findings[id(run)])
        rows.append(row | {"trial": run.name or run.trial, "findings": codes or None if run.status else None})
    return frame(rows, TRIALS)


def epochs(runs: Sequence[Run]) -> DataFrame:
    """Return one row per epoch of each run."""
    columns, sizes = list(map(epoch_columns, runs)), [len(run.epochs) for run in runs]
    values = {
        name: [value for part, size in zip(columns, sizes, strict=True) for value in part.get(name) or [None] * size]
        for name in dict.fromkeys(chain.from_iterable(columns))
    }
    return _typed(values, sum(sizes), EPOCHS)


def frame(rows: Sequence[Mapping[str, Any]], described: Iterable[Column[Any]]) -> DataFrame:
    """Return a frame with every described column, typed, then all other columns."""
    names = dict.fromkeys(chain.from_iterable(rows))
    return _typed({name: [row.get(name) for row in rows] for name in names}, len(rows), described)


def _typed(values: Mapping[str, Sequence[Any]], size: int, described: Iterable[Column[Any]]) -> DataFrame:
    from pandas import DataFrame

    types = {column.name: column.dtype for column in described}
    for name, column in values.items():
        if name not in types:
            types[name] = TEXT if any(isinstance(value, str) for value in column) else NUMBER
    return DataFrame({name: _series(values.get(name, [None] * size), dtype) for name, dtype in types.items()})


def _series(values: Sequence[Any], dtype: str) -> Series:
    """Return a typed column; values of other types, as in a file that was edited by hand, become missing."""
    from pandas import Series, to_datetime, to_numeric

    series = Series(values, dtype=object)
    if dtype == TIME:
        return to_datetime(series, format="ISO8601", utc=True, errors="coerce").astype(dtype)
    try:
        return series.astype(dtype)
    except (ValueError, TypeError, OverflowError):
        if dtype == YES_NO:
            return Series([value if isinstance(value, bool) else None for value in values], dtype=dtype)
        numbers = to_numeric(series, errors="coerce").astype("float64")
        return numbers if dtype == NUMBER else numbers.where(numbers % 1 == 0).astype(dtype)
