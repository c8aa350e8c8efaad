"""A plain CSV of epochs, with one line per epoch and trial.

Any program may write it. The first line names the columns, by the names they have in the tables
(`raybench.results.run_table`):

- `trial` and `epoch`, and one of `train_s`, `epoch_s` (the whole epoch) or `elapsed_s` (since training began);
- optional columns of an epoch: `input_wait_s`, `compile_s`, `evaluate_s`, `compile_evaluate_s`, `cpu_s`,
  `device_train_s`, `device_evaluate_s`, `energy_j`, `steps`, `examples`, `peak_memory_bytes`, `recompiles`, `ended`,
  any metric by a name with a slash in it, such as `val/accuracy` (a fraction), and other counts: `units/tokens`;
- optional columns of a trial, identical on all its lines: `grid`, `attempt`, `repeat`, `status`, `label`, `host`,
  `device`, `seed`, `target_metric`, `target_at_least`, `target_at_most`, `lower_is_better` (names of metrics),
  `higher_is_better`, `price_per_hour`, `wall_s`, `template_import_s`, `data_s`, and every setting, such as `workload`,
  `framework`, `device_model`, `batch_size`, `weight_decay`; settings with other names are numbers or text: `params.lr`.

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
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from raybench.core.identity import digest, trial_id
from raybench.core.job import MOST_FRACTION
from raybench.core.settings import PARAM, SETTINGS
from raybench.core.status import TrialStatus
from raybench.core.text import join_words
from raybench.errors import FileError, Problem, close, nearest
from raybench.results.columns import NUMBER, TEXT, TIME, WHOLE, YES_NO
from raybench.results.epoch import UNITS
from raybench.results.epoch_table import EPOCHS
from raybench.results.epochs import Epochs
from raybench.results.parsing import LARGEST, LARGEST_FLOAT
from raybench.results.run_table import CELL, OPENING, TRIALS, Run, run_of

SHOWN = 10
"""Maximum number of problems of a file that are printed; of more, their number is."""

_TARGET = ("target_metric", "target_at_least", "target_at_most")
_WHICH = {*CELL, "grid", "attempt", "repeat", "label", "host", "device", "seed"}
"""Columns that tell trials apart if there is no column `trial`."""
_BETTER = ("lower_is_better", "higher_is_better")
_OF_TRIALS = {*_WHICH, *_TARGET, *_BETTER, *OPENING, "trial", "status", "price_per_hour", "wall_s", "template_import_s"}
_OF_EPOCHS = {column.name for column in EPOCHS} - {"grid", "trial", "attempt"}
OWN_NAME = re.compile(r"[0-9a-f]{12}-r\d+")
"""Format of raybench's own trial names, which contain cell and repeat."""

KNOWN: Mapping[str, str] = {
    column.name: column.dtype for column in (*TRIALS, *EPOCHS) if column.name in _OF_TRIALS | _OF_EPOCHS
}
"""The types of all columns but those of metrics and counts."""

TIMES = ("train_s", "epoch_s", "elapsed_s")
"""Columns for the time of an epoch, in order of preference."""

SIGNED = {"target_at_least", "target_at_most", "seed"}
"""Columns that may be negative, besides metrics."""

SYNONYMS = {
    "count": "device_count",
    "accuracy": "train/accuracy",
    "acc": "train/accuracy",
    "loss": "train/loss",
    "val_accuracy": "val/accuracy",
    "val_acc": "val/accuracy",
    "val_loss": "val/loss",
}
"""Names of an axis and of Keras's `CSVLogger`, with the corresponding columns."""

Repeats = dict[str, dict[int, tuple[Path, str, int, str | None]]]
"""The file, the name, the line and the host of the trial of each repeat, by cell."""


def load_csv(path: Path, known: Repeats | None = None) -> list[Run]:
    """Load every trial of a CSV of epochs.

    Args:
        known: the repeats in other files; those of this file are added.

    Raises:
        FileError: it is invalid; the message lists all problems, each with line and column.
        OSError: it cannot be read.
    """
    reader = _Reader(path)
    reader.read()
    runs = [] if reader.problems else list(reader.runs({} if known is None else known))
    if reader.problems:
        raise FileError(reader.problems, SHOWN)
    return runs


@dataclass
class _Trial:
    """The rows of a trial, in the order of its epochs, and the values of its columns."""

    rows: list[int]
    values: dict[str, Any]


class _Reader:
    """Parser of one file, which collects its problems; it works on whole columns, as a file may have many lines."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.problems: list[Problem] = []
        self._trials: list[_Trial] = []
        self._names: list[str] = []
        self._columns: dict[str, Sequence[Any]] = {}
        self._lines: list[int] = []
        self._time = ""

    def problem(self, line: int, name: str, message: str) -> None:
        """Add a problem in a column of a line."""
        column = self._names.index(name) + 1 if name in self._names else 1
        self.problems.append(Problem(str(self.path), line, column, _cut(name), message))

    def read(self) -> None:
        """Read every line; nothing is checked further after a step that has found a problem."""
        texts: list[list[str]] = []
        with self.path.open(encoding="utf-8-sig", errors="replace", newline="") as file:
            lines = csv.reader(file)
            try:
                self._read_head([name.strip() for name in next(lines, [])])
                for values in () if self.problems else lines:
                    if len(values) == len(self._names) and any(map(str.strip, values)):
                        texts.append(values)
                        self._lines.append(lines.line_num)
                    elif any(map(str.strip, values)):
                        self.problem(lines.line_num, "", f"{len(values)} values for {len(self._names)} columns")
            except csv.Error as error:
                self.problem(lines.line_num, "", f"not CSV: {error}")
        if not self.problems and not texts:
            self.problem(1, "", "no epoch in it")
        for name, column in zip(self._names, zip(*texts, strict=True), strict=False):
            self._columns[name] = self._values(name, column)
        for step in (self._group, self._check_trials, self._measure):
            if not self.problems:
                step()

    def _read_head(self, names: list[str]) -> None:
        self._names = [SYNONYMS.get(name, name) for name in names]
        if len(names) < 2:
            self.problem(1, "", "write the names of columns here, separated by commas; save the file as UTF-8")
            return
        for number, name in enumerate(self._names, 1):
            duplicate = name in self._names[: number - 1]
            rate = f"{UNITS}{name.removesuffix('_per_s')}"
            is_known = name in KNOWN or "/" in name or rate in self._names or _is_param(name)
            if duplicate or not is_known:
                message = f"there are two columns {_cut(name)}" if duplicate else _unknown(name)
                self.problems.append(Problem(str(self.path), 1, number, _cut(names[number - 1]), message))
        if "epoch" not in self._names:
            self.problem(1, "", "the column epoch is missing")
        self._time = next((name for name in TIMES if name in self._names), "")
        if not self._time:
            self.problem(1, "", "the column train_s (or epoch_s, or elapsed_s) is missing")

    def _values(self, name: str, texts: Sequence[str]) -> Sequence[Any]:
        """Convert a column; None is a missing value."""
        if KNOWN.get(name, NUMBER) == NUMBER and not _is_param(name):
            with suppress(ValueError):
                numbers = list(map(float, texts))
                ends = min(numbers), max(numbers)
                is_valid = not any(_not_fraction(name, end) for end in ends) and (ends[0] >= 0 or _is_signed(name))
                is_valid &= max(map(abs, ends)) < _largest(name)
                if is_valid and math.isfinite(sum(numbers)):
                    return numbers
        values: dict[str, Any] = {}
        problems: dict[str, str] = {}
        for text in dict.fromkeys(texts):
            try:
                values[text] = _value(name, text.strip())
                if values[text] is None and name in ("trial", "epoch", self._time):
                    problems[text] = "missing"
            except ValueError as error:
                problems[text] = str(error)
        if problems:
            for line, text in zip(self._lines, texts, strict=True):
                if text in problems:
                    self.problem(line, name, problems[text])
            return texts
        return [values[text] for text in texts]

    def _group(self) -> None:
        """Find the rows of each trial."""
        own = [name for name in self._names if name in _OF_TRIALS or _is_param(name)]
        is_named = "trial" in self._names
        which = (
            ["grid", "trial", "attempt"] if is_named else [name for name in own if name in _WHICH or _is_param(name)]
        )
        columns = [self._columns[name] for name in which if name in self._columns]
        keys = zip(*columns, strict=True) if columns else [()] * len(self._lines)
        groups: dict[tuple[Any, ...], list[int]] = {}
        for row, key in enumerate(keys):
            groups.setdefault(key, []).append(row)
        for rows in groups.values():
            first, values = rows[0], {name: self._columns[name][rows[0]] for name in own}
            if not is_named:
                stem = self.path.stem
                values["trial"] = f"{stem}:{self._lines[first]}" if self._trials else stem
            for name in own:
                for row in rows:
                    if self._columns[name][row] != values[name]:
                        texts = (_cut(str(each)) for each in (self._columns[name][row], values[name]))
                        conflict = f"{' here and '.join(texts)} on line {self._lines[first]}"
                        self.problem(self._lines[row], name, f"{conflict}: a trial has one")
            self._trials.append(_Trial(rows, values))

    def _check_trials(self) -> None:
        """Put the epochs of each trial in order, and check that they can be those of one trial."""
        numbers, hint = self._columns["epoch"], "" if "trial" in self._names else "; add a column trial or repeat"
        from_zero = []
        for trial in self._trials:
            lines: dict[int, int] = {}
            for row in trial.rows:
                if (line := lines.setdefault(numbers[row], self._lines[row])) != self._lines[row]:
                    message = f"{numbers[row]} again: line {line} has this epoch of the same trial{hint}"
                    self.problem(self._lines[row], "epoch", message)
            from_zero += [lines[0]] if 0 in lines else []
            trial.rows.sort(key=numbers.__getitem__)
        if len(from_zero) == len(self._trials):
            self._columns["epoch"] = [number + 1 for number in numbers]
        elif from_zero:
            self.problem(from_zero[0], "epoch", "0, and other trials of the file count from 1")
        for trial in () if self.problems else self._trials:
            self._check_target(trial)
            self._check_gaps(trial)

    def _check_target(self, trial: _Trial) -> None:
        line, (metric, *bounds) = self._lines[min(trial.rows)], (trial.values.get(name) for name in _TARGET)
        if metric is None:
            return
        if (bounds[0] is None) == (bounds[1] is None):
            self.problem(line, "target_metric", "needs exactly one of target_at_least and target_at_most")
        elif metric not in self._names:
            hint = close(metric, self._names) or "add it"
            self.problem(line, "target_metric", f"there is no column {_cut(metric)}; {hint}")
        else:
            for name, bound in zip(_TARGET[1:], bounds, strict=True):
                if bound is not None and (message := _not_fraction(metric, bound)):
                    self.problem(line, name, message)

    def _check_gaps(self, trial: _Trial) -> None:
        """Refuse missing epochs if the time of an epoch, or the time to the target, is computed from all before it."""
        numbers = enumerate((self._columns["epoch"][row] for row in trial.rows), 1)
        number, line = next(((n, self._lines[trial.rows[p - 1]]) for p, n in numbers if n != p), (0, 0))
        if number and (self._time == "elapsed_s" or trial.values.get("target_metric")):
            needs = "a target" if self._time != "elapsed_s" else "elapsed_s"
            self.problem(line, "epoch", f"{number}, and an epoch before it is missing: {needs} needs all")

    def _measure(self) -> None:
        """Reduce the times of epochs to training alone, as far as the file has the other parts."""
        seconds = list(self._columns[self._time])
        if self._time == "elapsed_s":
            for rows in (trial.rows for trial in self._trials):
                elapsed = [0.0, *(seconds[row] for row in rows)]
                for row, before_s, now_s in zip(rows, elapsed, elapsed[1:], strict=False):
                    seconds[row] = now_s - before_s
                    if now_s < before_s:
                        message = f"{now_s:g} after {before_s:g} in the epoch before"
                        self.problem(self._lines[row], "elapsed_s", message)
        for part in ("input_wait_s", "compile_s") if self._time != "train_s" else ():
            if part in self._columns:
                pairs = zip(seconds, self._columns[part], strict=True)
                seconds = [own - (other or 0.0) for own, other in pairs]
        self._columns["train_s"] = seconds if self._time == "train_s" else [round(max(0.0, s), 9) for s in seconds]

    def runs(self, known: Repeats) -> Iterator[Run]:
        """Yield the trials as runs; adds a problem for each repeat that two trials of a cell claim."""
        numbers = sorted({number for each in self._trials if (number := each.values.get("repeat")) is not None})
        columns = {name: own for name, own in self._columns.items() if name in _OF_EPOCHS or "/" in name}
        losses = [own for name, own in columns.items() if name.endswith("/loss")]
        joules = columns.get("energy_j", ())
        cells: dict[tuple[Any, ...], str] = {}
        for trial in self._trials:
            values, rows = trial.values, trial.rows
            is_diverged = any(own[rows[-1]] != own[rows[-1]] for own in losses)
            values["grid"] = values.get("grid") or self.path.stem
            values["status"] = values.get("status") or (TrialStatus.DIVERGED if is_diverged else TrialStatus.COMPLETED)
            epochs = Epochs.of_columns({name: [own[row] for row in rows] for name, own in columns.items()})
            energies = {columns["epoch"][row]: joules[row] for row in rows if joules and joules[row] is not None}
            run = run_of(values, epochs, energies)
            if not OWN_NAME.fullmatch(run.trial):
                identity = id(run.cell), run.profile, run.grid
                if identity not in cells:
                    tree = {"cell": run.cell.to_json(), "device": run.profile, "grid": run.grid}
                    cells[identity] = digest(tree)
                cell = cells[identity]
                run.name, run.trial = (
                    run.trial,
                    trial_id(cell, self._repeat(trial, known.setdefault(cell, {}), numbers)),
                )
            yield run

    def _repeat(self, trial: _Trial, known: dict[int, tuple[Path, str, int, str | None]], numbers: list[int]) -> int:
        """Return the repeat number of a trial in its cell."""
        host = trial.values.get("host")
        own = self.path, trial.values["trial"], self._lines[min(trial.rows)], host
        repeat, free = trial.values.get("repeat"), max(known, default=-1) + 1
        same = (number for number, each in known.items() if each[:2] == own[:2])
        number = next(same, free) if repeat is None else numbers.index(repeat)
        if number in known and (known[number][0], known[number][3]) != (self.path, host):
            number = free  # hosts may count their repeats alike
        _, name, line, _ = known.setdefault(number, own)
        if name != own[1]:
            message = f"{repeat} again: trial {_cut(repr(name))} on line {line} has it, and the same settings"
            self.problem(own[2], "repeat", message)
        return number


def _value(name: str, text: str) -> Any:
    """Convert a value to its column's type; None if it is unknown.

    Raises:
        ValueError: it is invalid for that column; the message gives the reason.
    """
    dtype, quoted = KNOWN.get(name, NUMBER), _cut(repr(text))
    if not text or text == "<NA>" or (text == "NA" and dtype != TEXT):
        return None
    if _is_param(name):
        with suppress(ValueError):
            number = float(text)
            return int(number) if text.isdecimal() else number if math.isfinite(number) else text
        return text
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
    if message := _not_fraction(name, number):
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
        raise ValueError(f"{_cut(repr(text))} is not {kind}") from None


def _boolean(text: str, names: Sequence[str] = ()) -> bool | str:
    """Convert a boolean, or one of the names that a setting may have in its place."""
    if text not in names and text.lower() not in ("true", "false"):
        raise ValueError(f"{_cut(repr(text))} is not allowed; use {join_words(['true', 'false', *names], 'or')}")
    return text if text in names else text.lower() == "true"


def _is_param(name: str) -> bool:
    """Return whether a column has a setting that raybench does not name."""
    return name.startswith(PARAM) and name != PARAM


def _unknown(name: str) -> str:
    """Return advice for an unknown column."""
    forms = f"name a metric like val/accuracy, and a setting {PARAM}{name}"
    return f"unknown column; {' Else '.join(filter(None, (close(name, KNOWN), forms)))}"


def _not_fraction(metric: str, number: float) -> str:
    """Return why a number cannot be the value of a metric, if it is an accuracy; empty if it can."""
    if not metric.endswith("/accuracy") or 0 <= number <= MOST_FRACTION:
        return ""
    share = f"; {number:g} % is {number / 100:g}" if 1 < number <= 100 else ""
    return f"{number:g} is not a fraction from 0 to 1{share}"


def _cut(text: str) -> str:
    return text if len(text) <= 40 else f"{text[:39]}…"
