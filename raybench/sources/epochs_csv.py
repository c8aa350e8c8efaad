"""A plain CSV of epochs, with one line per epoch and trial.

Any program may write it. The first line names the columns, by the names they have in the tables
(`raybench.results.run_table`):

- `trial` and `epoch`, and one of `train_s`, `epoch_s` (the whole epoch) or `elapsed_s` (since training began);
- optional columns of an epoch: `input_wait_s`, `compile_s`, `evaluate_s`, `compile_evaluate_s`, `cpu_s`,
  `device_train_s`, `device_evaluate_s`, `energy_j`, `steps`, `examples`, `peak_memory_bytes`, `recompiles`,
  `alloc_retries`, `ended`,
  any metric by a name with a slash in it, such as `val/accuracy` (a fraction), and other counts: `units/tokens`;
- optional columns of a trial, identical on all its lines: `grid`, `attempt`, `repeat`, `status`, `label`, `host`,
  `device`, `seed`, `order`, `metric`, `target_metric`, `target_at_least`, `target_at_most`, `lower_is_better` (names of
  metrics), `higher_is_better`, `price_per_hour`, `wall_s`, `template_import_s`, `data_s`, `memory_bytes`, and every
  setting, such as
  `workload`, `framework`, `device_model`, `batch_size`, `weight_decay`, `budget_s`, `nodes`, `version`;
  settings with other names are numbers or text: `params.lr`. `count`, `date` and `price` are short for
  `device_count`, `started` and `price_per_hour`; `hostname`, `machine`, `node` and `server` are the host, `gpu` is the
  device, and `run` the repeat (a number) or the trial.

Without the column `trial`, lines with the same settings, device, host, seed and repeat are one trial. Epochs are
numbered from 1, or from 0 as in Keras's `CSVLogger`; its names `accuracy`, `acc`, `loss`, `val_accuracy`, `val_acc` and
`val_loss` are read as `train/accuracy` and so on.

Other columns of the table of epochs are computed from these and ignored here. An empty field or NA is a missing value;
so is NaN, except in a metric. Without a status, a trial is complete, or diverged if a loss of its last epoch is NaN or
infinite. Trials with the same settings on the same device are repeats of one cell, numbered by their order or by the
column `repeat`; several attempts at one trial are one repeat, and the last one counts.
"""

from __future__ import annotations

import csv
import math
import re
from collections.abc import Callable, Sequence
from contextlib import suppress
from datetime import datetime
from typing import Any

from raybench.core.settings import PARAM, SETTINGS
from raybench.core.status import TrialStatus
from raybench.core.text import cut, join_words
from raybench.errors import Problem, close, nearest
from raybench.results.columns import NUMBER, TEXT, TIME, WHOLE, YES_NO
from raybench.results.epoch import UNITS
from raybench.results.parsing import LARGEST, LARGEST_FLOAT
from raybench.sources.rows import KNOWN, TIMES, Table, not_fraction

SIGNED = {"target_at_least", "target_at_most", "seed"}  # columns that may be negative, besides metrics

ALIASES = {
    **dict.fromkeys(("hostname", "host_name", "machine", "node", "server"), "host"),
    "count": "device_count",
    "date": "started",
    "price": "price_per_hour",
    "accuracy": "train/accuracy",
    "acc": "train/accuracy",
    "loss": "train/loss",
    "val_accuracy": "val/accuracy",
    "val_acc": "val/accuracy",
    "val_loss": "val/loss",
}
"""Names that columns may also have: those of Keras's `CSVLogger`, and short ones."""
_OF_EPOCHS = {
    **dict.fromkeys(("gpu", "accelerator"), "device"),
    **dict.fromkeys(("seconds", "time_s", "time", "epoch_seconds"), "epoch_s"),
}
"""Further ones in a CSV of epochs."""
_HOURLY = re.compile(
    r"(?=.*(?:price|cost|usd|dollar|\$))(?:(?:price|cost|rate)_?)?(?:(?:usd|dollars?|\$)_?)?(?:/gpu)?(?:_?per_|/)?h(?:(?:ou)?r)?"
    r"|hourly_(?:price|cost|rate)(?:_usd|_\$)?",
    re.IGNORECASE,
)
"""Names of a price per hour, after signs have become `_`: `$/hr`, `price_usd_per_hour`."""


def alias(name: str) -> str:
    """Return raybench's name of a column."""
    is_hourly = _HOURLY.fullmatch(re.sub(r"[^\w$/]+", "_", name).strip("_"))
    known = name.lower() if name.lower() in KNOWN else name  # Seed
    return "price_per_hour" if is_hourly else ALIASES.get(name.lower(), known)


def is_of_others(names: Sequence[str]) -> bool:
    """Return whether the columns of a CSV are not those of a CSV of epochs (`raybench.sources.table`)."""
    is_lightning = {"epoch", "step"} <= {*names}
    is_export = bool({"_runtime", "_timestamp"} & {*names})
    return len(names) > 1 and ("epoch" not in names or is_lightning or is_export)


class CsvTable(Table):
    """The rows of a CSV file."""

    def read_lines(self) -> list[list[str]]:
        """Read the names of the columns and the values of each line, as text."""
        texts: list[list[str]] = []
        with self.path.open(encoding="utf-8-sig", errors="replace", newline="") as file:
            first = file.readline()
            file.seek(0)
            is_semicolon = ";" in first and "," not in first
            lines = csv.reader(file, delimiter=";" if is_semicolon else ",")
            try:
                self.names = [name.strip() for name in next(lines, [])]
                for values in lines:
                    if is_semicolon:
                        values = [re.sub(r"^(-?\d+),(\d+)$", r"\1.\2", text.strip()) for text in values]
                    if len(values) == len(self.names) and any(map(str.strip, values)):
                        texts.append(values)
                        self.lines.append(lines.line_num)
                    elif any(map(str.strip, values)):
                        self.problem(lines.line_num, "", f"{len(values)} values for {len(self.names)} columns")
            except csv.Error as error:
                self.problem(lines.line_num, "", f"not CSV: {error}")
        return texts

    def convert(self, texts: Sequence[Sequence[str]]) -> None:
        """Check the names of the columns, and convert their values."""
        written, names = self.names, dict(_OF_EPOCHS)
        if "run" in written:
            runs = [values[written.index("run")].strip() for values in texts]
            names["run"] = "repeat" if all(map(str.isdecimal, runs)) else "trial"
        self.names = [alias(name if names.get(name) in written else names.get(name, name)) for name in written]
        if read := [name for name in written if names.get(name) == "epoch_s" and "epoch_s" in self.names]:
            self.guessed_time = read[0]
        self._check_head(written)
        if not self.problems and not texts:
            self.problem(1, "", "no epoch in it")
        # Values of a column whose name is wrong say nothing that its name does not.
        for name, column in zip(self.names, zip(*texts, strict=True), strict=False) if not self.problems else ():
            self.columns[name] = self._values(name, column)

    def _check_head(self, names: list[str]) -> None:
        if len(names) < 2:
            self.problem(1, "", "write the names of columns here, separated by commas; save the file as UTF-8")
            return
        for number, name in enumerate(self.names, 1):
            duplicate = name in self.names[: number - 1]
            rate = f"{UNITS}{name.removesuffix('_per_s')}"
            is_free = "/" in name or name.startswith(PARAM)
            if duplicate or not (is_free or name in KNOWN or rate in self.names):
                message = f"there are two columns {cut(name)}" if duplicate else _unknown(name)
                self.problems.append(Problem(str(self.path), 1, number, cut(names[number - 1]), message))
        if "epoch" not in self.names:
            self.problem(1, "", "the column epoch is missing")
        if not self.time and not any("/" in name for name in self.names):
            self.problem(1, "", "the column train_s (or epoch_s, or elapsed_s) is missing, and there is no metric")

    def _values(self, name: str, texts: Sequence[str]) -> Sequence[Any]:
        """Convert a column; None is a missing value."""
        if name.startswith(PARAM):
            return as_parameters(texts)
        if KNOWN.get(name, NUMBER) == NUMBER:
            with suppress(ValueError):
                numbers = list(map(float, texts))
                ends = min(numbers), max(numbers)
                is_valid = not any(not_fraction(name, end) for end in ends) and (ends[0] >= 0 or _is_signed(name))
                is_valid &= max(map(abs, ends)) < _largest(name)
                if is_valid and math.isfinite(sum(numbers)):
                    return numbers
        values: dict[str, Any] = {}
        problems: dict[str, str] = {}
        for text in dict.fromkeys(texts):
            try:
                values[text] = value_of(name, text.strip())
                if values[text] is None and name in ("trial", "epoch", self.time):
                    problems[text] = "missing"
            except ValueError as error:
                problems[text] = str(error)
        if problems:
            for line, text in zip(self.lines, texts, strict=True):
                if text in problems:
                    self.problem(line, name, problems[text])
            return texts
        return [values[text] for text in texts]


def as_parameters(texts: Sequence[str]) -> Sequence[Any]:
    """Return the values of a parameter: whole numbers, numbers or, if one of them is neither, texts."""
    for convert in (int, float):
        with suppress(ValueError):
            return [convert(text) if text.strip() else None for text in texts]
    return [text.strip() or None for text in texts]


def value_of(name: str, text: str) -> Any:
    """Convert a value to its column's type; None if it is unknown.

    Raises:
        ValueError: it is invalid for that column; the message gives the reason.
    """
    dtype, quoted = KNOWN.get(name, NUMBER), cut(repr(text))
    if not text or text == "<NA>" or (text == "NA" and dtype != TEXT):
        return None
    if name == "status" and text not in list(TrialStatus):
        raise ValueError(f"{quoted} is not a status; {nearest(text, TrialStatus)}")
    if name in SETTINGS and bool in SETTINGS[name].types:
        return _boolean(text, SETTINGS[name].names)
    if dtype == TIME:
        _convert(datetime.fromisoformat, text, "a time; write it as 2026-11-21T09:00:00Z")
    if dtype in (TEXT, TIME):
        return text
    if dtype == YES_NO:
        return _boolean(text)
    number = _convert(float, text, "a number")
    if dtype == WHOLE and (not number.is_integer() or abs(number) >= LARGEST):
        raise ValueError(f"{quoted} is not a whole number")
    if not math.isfinite(number):
        return None if name in KNOWN or name.startswith(UNITS) else math.nan  # a metric whose value is not known
    if abs(number) >= _largest(name):
        raise ValueError(f"{quoted} is too large")
    if number < 0 and not _is_signed(name):
        raise ValueError(f"{quoted} is negative")
    if message := not_fraction(name, number):
        raise ValueError(message)
    return int(number) if dtype == WHOLE else number


def _largest(name: str) -> float:
    """Return the upper limit of a column: sums and squares of smaller numbers do not overflow."""
    return LARGEST if name in KNOWN else LARGEST_FLOAT


def _is_signed(name: str) -> bool:
    return name in SIGNED or name not in KNOWN


def _convert(convert: Callable[[str], Any], text: str, kind: str) -> Any:
    try:
        return convert(text)
    except ValueError:
        raise ValueError(f"{cut(repr(text))} is not {kind}") from None


def _boolean(text: str, names: Sequence[str] = ()) -> bool | str:
    """Convert a boolean, or one of the names that a setting may have in its place."""
    if text not in names and text.lower() not in ("true", "false"):
        raise ValueError(f"{cut(repr(text))} is not allowed; use {join_words(['true', 'false', *names], 'or')}")
    return text if text in names else text.lower() == "true"


def _unknown(name: str) -> str:
    """Return advice for an unknown column."""
    if re.search("sec|time|duration", name, re.IGNORECASE):
        return f"unknown column; the seconds of an epoch are {join_words(TIMES, 'or')}"
    forms = f"name a metric like val/accuracy, and a setting {PARAM}{name}"
    return f"unknown column; {' Else '.join(filter(None, (close(name, [*KNOWN, *ALIASES]), forms)))}"
