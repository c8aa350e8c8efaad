"""A plain CSV of epochs, with one line per epoch and trial.

Any program may write it. The first line names the columns, by the names they have in the tables
(`raybench.results.columns`):

- `trial` and `epoch`, and one of `train_s`, `epoch_s` (the whole epoch) or `elapsed_s` (since training began);
- optional columns of an epoch: `input_wait_s`, `compile_s`, `evaluate_s`, `compile_evaluate_s`, `cpu_s`,
  `device_train_s`, `device_evaluate_s`, `energy_j`, `steps`, `examples`, `peak_memory_bytes`, `recompiles`, `ended`,
  any metric by a name with a slash in it, such as `val/accuracy` (a fraction), and other counts: `units/tokens`;
- optional columns of a trial, identical on all its lines: `grid`, `attempt`, `repeat`, `status`, `label`, `host`,
  `device`, `seed`, `target_metric`, `target_at_least`, `target_at_most`, `price_per_hour`, `wall_s`,
  `template_import_s`, `data_s`, and every setting, such as `workload`, `framework`, `device_model`, `batch_size`,
  `weight_decay`.

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
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from pathlib import Path
from typing import Any

from raybench.core.identity import digest, trial_id
from raybench.core.job import Target
from raybench.core.settings import SETTINGS
from raybench.core.status import TrialStatus
from raybench.core.text import join_words
from raybench.errors import FileError, Problem, close, nearest
from raybench.results import timing
from raybench.results.attempt import Attempt
from raybench.results.columns import EPOCHS, NUMBER, TEXT, TIME, TRIALS, WHOLE, YES_NO, Column
from raybench.results.epoch import UNITS, Epoch, epoch_of_columns
from raybench.results.epochs import Epochs
from raybench.results.parsing import LARGEST
from raybench.sources.result_tables import LEAVES, Record, cell_of

SHOWN = 10
"""Maximum number of problems of a file that are printed; of more, their number is."""

_CELL = {column.name for column in LEAVES.values()}
_TARGET = ("target_metric", "target_at_least", "target_at_most")
_LEDGER = ("setup", "startup", "data", "build")
_TRIAL = ("grid", "trial", "attempt", "repeat", "status", "label", "host", "device", "seed", "price_per_hour")
_OF_TRIALS = {*_CELL, *_TARGET, *_TRIAL, "wall_s", "template_import_s", *(f"{name}_s" for name in _LEDGER)}
_OF_WHICH_TRIAL = {*_CELL, "grid", "attempt", "repeat", "label", "host", "device", "seed"}
"""Columns that tell trials apart if there is no column `trial`."""
_OF_EPOCHS = {column.name for column in EPOCHS} - {"grid", "trial", "attempt"}
OWN_NAME = re.compile(r"[0-9a-f]{12}-r\d+")
"""Format of raybench's own trial names, which contain cell and repeat."""

KNOWN: Mapping[str, Column] = {
    column.name: column for column in (*TRIALS, *EPOCHS) if column.name in _OF_TRIALS | _OF_EPOCHS
}
TIMES = ("train_s", "epoch_s", "elapsed_s")
"""Columns for the time of an epoch, in order of preference."""

SIGNED = {"target_at_least", "target_at_most", "seed"}
"""Columns that may be negative, besides metrics."""

KERAS = {
    "accuracy": "train/accuracy",
    "acc": "train/accuracy",
    "loss": "train/loss",
    "val_accuracy": "val/accuracy",
    "val_acc": "val/accuracy",
    "val_loss": "val/loss",
}
"""Column names of Keras's `CSVLogger`, with the corresponding metrics."""


@dataclass
class _Trial:
    line: int
    values: dict[str, Any]
    epochs: dict[int, Epoch] = field(default_factory=dict)
    lines: dict[int, int] = field(default_factory=dict)
    joules: dict[int, float] = field(default_factory=dict)
    last: tuple[int, bool] = (0, False)
    """Its last epoch, and whether a loss of it is not finite."""


Repeats = dict[str, dict[int, tuple[Path, _Trial]]]
"""The file and the trial of each repeat, by cell."""


def load_csv(path: Path, known: Repeats | None = None) -> list[Record]:
    """Load every trial of a CSV of epochs.

    Args:
        known: the repeats in other files; those of this file are added.

    Raises:
        FileError: it is invalid; the message lists all problems, each with line and column.
        OSError: it cannot be read.
    """
    reader = _Reader(path)
    reader.read()
    if not reader.problems and not reader.trials:
        reader.problem(1, "", "no epoch in it")
    records = [] if reader.problems else list(reader.records({} if known is None else known))
    if reader.problems:
        raise FileError(reader.problems, SHOWN)
    return records


class _Reader:
    """Parser of one file, which collects its problems."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.problems: list[Problem] = []
        self.trials: dict[tuple[Any, ...], _Trial] = {}
        self._head: list[str] = []
        self._time = ""

    def problem(self, line: int, name: str, message: str) -> None:
        """Add a problem in a column of a line."""
        column = self._head.index(name) + 1 if name in self._head else 1
        self.problems.append(Problem(str(self.path), line, column, _cut(name), message))

    def read(self) -> None:
        """Read every line."""
        with self.path.open(encoding="utf-8-sig", errors="replace", newline="") as file:
            lines = csv.reader(file)
            try:
                self._read_head([name.strip() for name in next(lines, [])])
                for values in () if self.problems else lines:
                    if any(value.strip() for value in values):
                        self._read_line(values, lines.line_num)
            except csv.Error as error:
                self.problem(lines.line_num, "", f"not CSV: {error}")
        if not self.problems:
            self._check_trials()

    def _read_head(self, names: list[str]) -> None:
        self._head = [KERAS.get(name, name) for name in names]
        if len(names) < 2:
            self.problem(1, "", "write the names of columns here, separated by commas; save the file as UTF-8")
            return
        for number, name in enumerate(self._head, 1):
            duplicate = name in self._head[: number - 1]
            rate = f"{UNITS}{name.removesuffix('_per_s')}"
            if duplicate or not (name in KNOWN or "/" in name or rate in self._head):
                message = f"there are two columns {_cut(name)}" if duplicate else _unknown(name)
                self.problems.append(Problem(str(self.path), 1, number, _cut(names[number - 1]), message))
        if "epoch" not in self._head:
            self.problem(1, "", "the column epoch is missing")
        self._time = next((name for name in TIMES if name in self._head), "")
        if not self._time:
            self.problem(1, "", "the column train_s (or epoch_s, or elapsed_s) is missing")

    def _read_line(self, values: list[str], line: int) -> None:
        problem_count = len(self.problems)
        if len(values) != len(self._head):
            self.problem(line, "", f"{len(values)} values for {len(self._head)} columns")
            return
        row: dict[str, Any] = {}
        for name, text in zip(self._head, values, strict=True):
            try:
                row[name] = _value(name, text.strip())
                if row[name] is None and name in ("trial", "epoch", self._time):
                    self.problem(line, name, "missing")
            except ValueError as error:
                self.problem(line, name, str(error))
        if len(self.problems) == problem_count:
            self._take(row, line)

    def _take(self, row: dict[str, Any], line: int) -> None:
        """Add the values of one line."""
        of_trial = {name: value for name, value in row.items() if name in _OF_TRIALS}
        if "trial" in row:
            key = row.get("grid"), row["trial"], row.get("attempt")
        else:
            key = tuple(value for name, value in of_trial.items() if name in _OF_WHICH_TRIAL)
            earlier = self.trials.get(key)
            new = f"{self.path.stem}:{line}" if self.trials else self.path.stem
            of_trial["trial"] = earlier.values["trial"] if earlier else new
        trial = self.trials.setdefault(key, _Trial(line, of_trial))
        for name, value in of_trial.items():
            if value != trial.values[name]:
                conflict = f"{_cut(str(value))} here and {_cut(str(trial.values[name]))} on line {trial.line}"
                self.problem(line, name, f"{conflict}: a trial has one")
        epoch = row["epoch"]
        if epoch in trial.epochs:
            message = f"{epoch} again: line {trial.lines[epoch]} has this epoch of the same trial"
            self.problem(
                line, "epoch", message if "trial" in self._head else f"{message}; add a column trial or repeat"
            )
        trial.lines[epoch] = line
        if row.get("energy_j") is not None:
            trial.joules[epoch] = row["energy_j"]
        trial.last = max(trial.last, (epoch, any(row[name] != row[name] for name in row if name.endswith("/loss"))))
        values = epoch_of_columns(epoch, row.get("ended"), row)
        trial.epochs[epoch] = replace(values, ledger={**values.ledger, "train": row[self._time]})

    def _check_trials(self) -> None:
        """Check the consistency of lines."""
        trials = self.trials.values()
        from_zero = [trial for trial in trials if 0 in trial.epochs]
        if len(from_zero) == len(trials):
            for trial in trials:
                trial.epochs = {number + 1: replace(e, epoch=number + 1) for number, e in trial.epochs.items()}
                trial.lines = {number + 1: line for number, line in trial.lines.items()}
                trial.joules = {number + 1: joules for number, joules in trial.joules.items()}
        elif from_zero:
            self.problem(from_zero[0].lines[0], "epoch", "0, and other trials of the file count from 1")
        for trial in trials:
            self._check_target(trial)
            self._check_gaps(trial)
            if self._time != "train_s":
                self._subtract(trial)

    def _check_target(self, trial: _Trial) -> None:
        metric, *bounds = (trial.values.get(name) for name in _TARGET)
        if metric is None:
            return
        if (bounds[0] is None) == (bounds[1] is None):
            self.problem(trial.line, "target_metric", "needs exactly one of target_at_least and target_at_most")
        elif metric not in self._head:
            hint = close(metric, self._head) or "add it"
            self.problem(trial.line, "target_metric", f"there is no column {_cut(metric)}; {hint}")
        else:
            for name, bound in zip(_TARGET[1:], bounds, strict=True):
                if bound is not None and (message := _not_fraction(metric, bound)):
                    self.problem(trial.line, name, message)

    def _check_gaps(self, trial: _Trial) -> None:
        """Refuse missing epochs if the time of an epoch, or the time to the target, is computed from all before it."""
        numbers = sorted(trial.epochs)
        number = next((each for place, each in enumerate(numbers, 1) if each != place), 0)
        if number and (self._time == "elapsed_s" or trial.values.get("target_metric")):
            needs = "a target" if self._time != "elapsed_s" else "elapsed_s"
            message = f"{number}, and an epoch before it is missing: {needs} needs all"
            self.problem(trial.lines[number], "epoch", message)

    def _subtract(self, trial: _Trial) -> None:
        """Reduce the times of epochs to training alone, as far as the file has the other parts."""
        before_s = 0.0
        for number in sorted(trial.epochs):
            epoch = trial.epochs[number]
            seconds = epoch.ledger["train"]
            if self._time == "elapsed_s":
                if seconds < before_s:
                    self.problem(
                        trial.lines[number], "elapsed_s", f"{seconds:g} after {before_s:g} in the epoch before"
                    )
                before_s, seconds = seconds, seconds - before_s
            other_s = epoch.ledger.get("input_wait", 0.0) + epoch.ledger.get("compile", 0.0)
            ledger = {**epoch.ledger, "train": round(max(0.0, seconds - other_s), 9)}
            trial.epochs[number] = replace(epoch, ledger=ledger)

    def records(self, known: Repeats) -> Iterator[Record]:
        """Return the trials as records; adds a problem for each repeat that two trials of a cell claim."""
        trials = self.trials.values()
        numbers = sorted({number for trial in trials if (number := trial.values.get("repeat")) is not None})
        for trial in trials:
            attempt = _attempt(trial, self.path.stem)
            columns: dict[str, Any] = {"price_per_hour": trial.values.get("price_per_hour"), "trial": attempt.trial}
            if not OWN_NAME.fullmatch(attempt.trial):
                cell = digest({"cell": attempt.cell.to_json(), "device": attempt.profile, "grid": attempt.grid})
                number = self._repeat(trial, known.setdefault(cell, {}), numbers)
                attempt = replace(attempt, trial=trial_id(cell, number))
            yield Record(attempt, None, columns)

    def _repeat(self, trial: _Trial, known: dict[int, tuple[Path, _Trial]], numbers: list[int]) -> int:
        """Return the repeat number of a trial in its cell."""
        name, repeat = trial.values["trial"], trial.values.get("repeat")
        own = (number for number, (path, other) in known.items() if (path, other.values["trial"]) == (self.path, name))
        free = max(known, default=-1) + 1
        number = next(own, free) if repeat is None else numbers.index(repeat)
        if number in known and known[number][0] != self.path:
            number = free
        first = known.setdefault(number, (self.path, trial))[1]
        if first.values["trial"] != name:
            other = f"trial {_cut(repr(first.values['trial']))} on line {first.line} has it, and the same settings"
            self.problem(trial.line, "repeat", f"{repeat} again: {other}")
        return number


def _attempt(trial: _Trial, grid: str) -> Attempt:
    values = trial.values
    metric, at_least, at_most = (values.get(name) for name in _TARGET)
    attempt = Attempt(
        values["trial"],
        values.get("attempt") or 1,
        cell=cell_of({name: values[name] for name in values if name in _CELL and values[name] is not None}),
        seed=values.get("seed"),
        label=values.get("label"),
        grid=values.get("grid") or grid,
        profile=values.get("device"),
        target=Target(metric, at_least, at_most) if metric else None,
        host={"name": values.get("host")},
        status=values.get("status") or (TrialStatus.DIVERGED if trial.last[1] else TrialStatus.COMPLETED),
        ledger={name: value for name in _LEDGER if (value := values.get(f"{name}_s")) is not None},
        wall=values.get("wall_s"),
        template_import=values.get("template_import_s"),
        epochs=Epochs(trial.epochs.values()),
    )
    return replace(attempt, audit={"energy": _energy(attempt, trial.joules)}) if trial.joules else attempt


def _energy(attempt: Attempt, joules: Mapping[int, float]) -> dict[str, Any]:
    """Return the summary of the energy of epochs, as a sampler writes it."""
    stretches = {
        "epochs": attempt.epochs,
        "steady": attempt.steady,
        "target": timing.until_target(attempt, attempt.target) if attempt.target else [],
    }
    sums = {
        name: {"device_j": sum(joules[each.epoch] for each in epochs), "count": len(epochs)}
        for name, epochs in stretches.items()
        if epochs and all(each.epoch in joules for each in epochs)
    }
    return {**sums, "each": {str(number): {"device_j": each} for number, each in joules.items()}}


def _value(name: str, text: str) -> Any:
    """Convert a value to its column's type; None if it is unknown.

    Raises:
        ValueError: it is invalid for that column; the message gives the reason.
    """
    dtype = KNOWN[name].dtype if name in KNOWN else NUMBER
    quoted = _cut(repr(text))
    if not text or text == "<NA>" or (text == "NA" and dtype != TEXT):
        return None
    if name == "status" and text not in list(TrialStatus):
        raise ValueError(f"{quoted} is not a status; {nearest(text, TrialStatus)}")
    if name in SETTINGS and bool in SETTINGS[name].types:
        return _boolean(text, SETTINGS[name].names)
    if dtype == TIME:
        try:
            datetime.fromisoformat(text)
        except ValueError:
            raise ValueError(f"{quoted} is not a time; write it as 2026-11-21T09:00:00Z") from None
    if dtype in (TEXT, TIME):
        return text
    if dtype == YES_NO:
        return _boolean(text)
    try:
        number = float(text)
    except ValueError:
        raise ValueError(f"{quoted} is not a number") from None
    if dtype == WHOLE and (not number.is_integer() or abs(number) >= LARGEST):
        raise ValueError(f"{quoted} is not a whole number")
    if not math.isfinite(number):
        return None if name in KNOWN or name.startswith(UNITS) else math.nan  # a metric whose value is not known
    if number < 0 and name in KNOWN and name not in SIGNED:
        raise ValueError(f"{quoted} is negative")
    if message := _not_fraction(name, number):
        raise ValueError(message)
    return int(number) if dtype == WHOLE else number


def _boolean(text: str, names: Sequence[str] = ()) -> bool | str:
    """Convert a boolean, or one of the names that a setting may have in its place."""
    if text not in names and text.lower() not in ("true", "false"):
        raise ValueError(f"{_cut(repr(text))} is not allowed; use {join_words(['true', 'false', *names], 'or')}")
    return text if text in names else text.lower() == "true"


def _unknown(name: str) -> str:
    """Return advice for an unknown column."""
    hint = close(name, KNOWN) or "a metric needs a slash in its name, such as val/accuracy; remove any other"
    return f"unknown column; {hint}"


def _not_fraction(metric: str, number: float) -> str:
    """Return why a number cannot be the value of a metric, if it is an accuracy; empty if it can."""
    if not metric.endswith("/accuracy") or 0 <= number <= 1:
        return ""
    share = f"; {number:g} % is {number / 100:g}" if 1 < number <= 100 else ""
    return f"{number:g} is not a fraction from 0 to 1{share}"


def _cut(text: str) -> str:
    return text if len(text) <= 40 else f"{text[:39]}…"
