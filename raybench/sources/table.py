"""CSV files of others: a line per run, an export of Weights & Biases, or a log of Lightning's or Keras's `CSVLogger`.

Of a line per run, columns with the names of raybench's tables are those, names with the word of a metric are metrics,
and the first that is a time is that of the run. Others whose values differ, and repeat, are axes: `params.NAME`.
If none does, the first that differs is the axis.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from raybench.core.settings import PARAM
from raybench.errors import FileError
from raybench.results.epoch_table import EPOCHS
from raybench.results.run_table import CELL, OF_A_TABLE, TRIALS
from raybench.sources.epochs_csv import SYNONYMS, CsvTable, value_of
from raybench.sources.rows import KNOWN, SHOWN, TIMES, Table, metric_of

_SECONDS = {"ms": 1e-3, "min": 60.0, "minutes": 60.0, "m": 60.0, "h": 3600.0, "hours": 3600.0}
_TIME = re.compile(
    r"(?:train|training|total|wall|run|elapsed)?_?(?:time|elapsed|seconds|sec|duration|runtime|s)"
    r"(?:_?(?P<unit>ms|s|sec|seconds|m|min|minutes|h|hours))?|(?P<alone>minutes|hours)",
    re.IGNORECASE,
)
_COMPUTED = {column.name for column in (*TRIALS, *EPOCHS)} | {"cell"}
_CLOCKS = ("_runtime", "_timestamp")
_PLACES = ("epoch", "_step", "step", *_CLOCKS)
"""Columns that count the rows of a log, from the most to the least preferred."""
_NO_SETTING = re.compile(r".*_per_s(?:ec(?:ond)?)?|(?!params\.|settings\.)\w+\..*")
_MISSING = ("", "NA", "<NA>")


def read(file: CsvTable, texts: Sequence[Sequence[str]]) -> Table:
    """Return the rows of a CSV file, of which the lines are read.

    Raises:
        FileError: no column is a time or a metric, or a line is damaged.
    """
    columns = {name: [values[place].strip() for values in texts] for place, name in enumerate(file.names)}
    if not texts:
        file.problem(1, "", "no run in it")
    numbers = {name: own for name in columns if (own := _numbers(file, name, columns[name]))}
    is_log = bool({"epoch", "_step", *_CLOCKS} & columns.keys()) or file.names[0] == "step"
    if file.problems:
        raise FileError(file.problems, SHOWN)
    if any(" - " in name for name in numbers):
        table = _of_chart(file, numbers)
    else:
        table = _of_log(file, numbers) if is_log else _of_runs(file, columns, numbers)
    if not file.problems and not any("/" in name or name in TIMES for name in table.names):
        file.problem(1, "", "no column is a time or a metric; name them time_s and val_loss")
    if file.problems:
        raise FileError(file.problems, SHOWN)
    return table


def _numbers(file: CsvTable, name: str, texts: Sequence[str]) -> list[float | None]:
    """Return the numbers of a column, None for what is missing; empty if it has texts, or nothing."""
    numbers: list[float | None] = []
    invalid: list[tuple[int, str]] = []
    for line, text in zip(file.lines, texts, strict=True):
        try:
            numbers.append(None if text in _MISSING else float(text))
        except ValueError:
            invalid.append((line, text))
    if numbers and invalid and (metric_of(name) or name in _PLACES or _TIME.fullmatch(name)):
        for line, text in invalid:
            file.problem(line, name, f"{text!r} is not a number")
    return [] if invalid or all(number is None for number in numbers) else numbers


def _of_log(file: CsvTable, numbers: Mapping[str, Sequence[float | None]]) -> Table:
    """Return the rows of one run, with several lines of an epoch or step; each column has its last value of these."""
    key = next((name for name in _PLACES if name in numbers), "")
    clock = next((name for name in _CLOCKS if name in numbers), "")
    for name in file.names if not clock else ():
        if _TIME.fullmatch(name):
            file.problem(1, name, "unknown column; did you mean elapsed_s? That of one epoch is epoch_s")
    rows: dict[float, dict[str, float]] = {}
    lines: dict[float, int] = {}
    place = 0.0
    for line, *values in zip(file.lines, *numbers.values(), strict=True):
        present = {name: value for name, value in zip(numbers, values, strict=True) if value is not None}
        place = present.get(key, place)
        rows.setdefault(place, {}).update(present)
        lines[place] = line or 0
    made: dict[str, list[Any]] = {"epoch": [*range(1, len(rows) + 1)]}
    for name in numbers:
        if metric := SYNONYMS.get(name, "") or metric_of(name):
            made.setdefault(metric, [row.get(name) for row in rows.values()])
    if clock:
        begin_s = next(row[clock] for row in rows.values() if clock in row) if clock == "_timestamp" else 0.0
        last_s, made["elapsed_s"] = 0.0, []
        for row in rows.values():
            last_s = max(last_s, row.get(clock, begin_s) - begin_s)
            made["elapsed_s"].append(last_s)
    return Table(file.path, made, [*lines.values()])


def _of_chart(file: CsvTable, numbers: Mapping[str, Sequence[float | None]]) -> Table:
    """Return the rows of all runs of a chart of Weights & Biases: a column `RUN - METRIC` each, by step."""
    rows: dict[tuple[str, int], dict[str, Any]] = {}
    for name, values in numbers.items():
        trial, _, written = name.rpartition(" - ")
        if trial and (metric := metric_of(written)):  # not `RUN - METRIC__MIN`
            for line, value in zip(file.lines, values, strict=True):
                if value is not None:
                    row = rows.setdefault((trial, line), {"trial": trial, f"{PARAM}run": trial})
                    row[metric] = value
    epochs: Counter[str] = Counter()
    for row in rows.values():
        epochs[row["trial"]] += 1
        row["epoch"] = epochs[row["trial"]]
    names = dict.fromkeys(name for row in rows.values() for name in row)
    made = {name: [row.get(name) for row in rows.values()] for name in names}
    return Table(file.path, made, [line for _, line in rows])


def _of_runs(
    file: CsvTable, columns: Mapping[str, Sequence[str]], numbers: Mapping[str, Sequence[float | None]]
) -> Table:
    """Return rows that are whole runs."""
    first: dict[str, int] = {}
    for line, trial in zip(file.lines, columns.get("trial", ()), strict=False):
        if first.setdefault(trial, line) != line and "attempt" not in columns:
            message = f"{trial} again, as on line {first[trial]}; lines of epochs need a column epoch"
            file.problem(line, "trial", message)
    made: dict[str, Sequence[Any]] = {"epoch": [1] * len(file.lines)}
    others: dict[str, Sequence[Any]] = {}
    for written, texts in columns.items():
        name = {"examples_done": "examples", **SYNONYMS}.get(written, written)
        time, metric = _TIME.fullmatch(name), metric_of(name.removeprefix("last_").removeprefix("final_"))
        if name in KNOWN and (values := _converted(name, texts)):
            made[name] = values
        elif written in numbers and ("/" in name or metric):
            made.setdefault(name if "/" in name else metric, numbers[written])
        elif written in numbers and time:
            factor = _SECONDS.get((time["unit"] or time["alone"] or "").lower(), 1.0)
            made.setdefault("train_s", [None if s is None else s * factor for s in numbers[written]])
        elif not (name in _COMPUTED or _NO_SETTING.fullmatch(name)) and len({*texts}) > 1:
            others[f"{PARAM}{name.removeprefix(PARAM)}"] = _converted(f"{PARAM}{name}", texts)
    if "wall_s" in made and not made.keys() & {*TIMES}:
        made["train_s"] = made["wall_s"]
    repeated = {name: values for name, values in others.items() if len({*values}) < len(values)}
    if not repeated and not made.keys() & {*CELL, "device", "label"}:
        repeated = dict([*others.items()][:1])
    made |= repeated
    if "trial" not in made:
        made["trial"] = [f"{file.path.stem}:{line}" for line in file.lines]
    return Table(file.path, made, file.lines, OF_A_TABLE)


def _converted(name: str, texts: Sequence[str]) -> list[Any]:
    """Return the values of a column of raybench's tables; empty if one is invalid, or all are missing."""
    try:
        values = {text: value_of(name, text) for text in {*texts}}
    except ValueError:
        return []
    return [values[text] for text in texts] if any(value is not None for value in values.values()) else []
