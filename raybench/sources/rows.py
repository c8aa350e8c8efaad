"""Rows of any source as runs: a row is an epoch, with the columns of `raybench.sources.epochs_csv`."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from raybench.core.identity import digest, trial_id
from raybench.core.job import MOST_FRACTION
from raybench.core.settings import PARAM
from raybench.core.status import TrialStatus
from raybench.core.text import cut
from raybench.errors import FileError, Problem, close
from raybench.results.epoch_table import EPOCHS
from raybench.results.epochs import Epochs
from raybench.results.output_clock import OutputClock
from raybench.results.run_table import CELL, OF_A_TABLE, TRIALS, Run
from raybench.sources.durations import are_elapsed
from raybench.sources.runs import OPENING, run_of

SHOWN = 10  # maximum number of problems of a file that are printed; of more, their number is

_TARGET = ("target_metric", "target_at_least", "target_at_most")
_BETTER = ("lower_is_better", "higher_is_better")
_WHICH = {*CELL, "grid", "attempt", "repeat", "label", "host", "device", "seed"}
"""Columns that tell trials apart if there is no column `trial`."""
OF_TRIALS = {
    *(*_WHICH, *_TARGET, *_BETTER, *OPENING),
    *("trial", "status", "started", "metric", "order", "price_per_hour", "wall_s", "template_import_s", "memory_bytes"),
}
OF_EPOCHS = {column.name for column in EPOCHS} - {"grid", "trial", "attempt"}
OWN_NAME = re.compile(r"[0-9a-f]{12}-r\d+")  # format of raybench's own trial names, which contain cell and repeat

KNOWN: Mapping[str, str] = {
    column.name: column.dtype for column in (*TRIALS, *EPOCHS) if column.name in OF_TRIALS | OF_EPOCHS
}
"""The types of all columns but those of metrics and counts."""

TIMES = ("train_s", "epoch_s", "elapsed_s")  # columns for the time of an epoch, in order of preference

Repeats = dict[str, dict[int, tuple[Path, str, int, str | None]]]
"""The file, the name, the line and the host of the trial of each repeat, by cell."""


def is_of_trial(name: str) -> bool:
    """Return whether a column has one value for a trial, as its settings and the user's own parameters have."""
    return name in OF_TRIALS or name.startswith(PARAM)


class NoLog(FileError):
    """A file in which no line counts epochs or steps."""


@dataclass
class _Trial:
    """The rows of a trial, in the order of its epochs, and the values of its columns."""

    rows: list[int]
    values: dict[str, Any]


@dataclass
class Table:
    """The rows of one file: of a run that others have logged, or of several, whose columns tell them apart.

    It works on whole columns, as a file may have many lines, and collects the file's problems.

    Attributes:
        columns: those of its epochs, by name; without a column of `TIMES` no time is known.
        text: what its program has printed, in which settings are looked for; empty if `values` has them.
        values: of columns with one value in all rows.
        lines: of its file that the rows are from; empty if they are not from one each.
        clock: of its runs.
        warning: about all of them.
        guessed_time: the column of the file that `epoch_s` is from, if its name does not say of what it is the time.
        output_clock: what an epoch is, if it is not a pass over the data.
        amounts: what its epochs counted by the rates that it printed, such as `units/tokens`.
        names: of the columns, in the order of the file.
        problems: with line and column; nothing is checked further after a step that has found one.
    """

    path: Path
    columns: dict[str, Any] = field(default_factory=dict)
    text: str = ""
    values: dict[str, Any] = field(default_factory=dict)
    lines: list[int] = field(default_factory=list)
    clock: str = ""
    warning: str = ""
    guessed_time: str = ""
    output_clock: OutputClock | None = None
    amounts: Mapping[str, Sequence[float]] = field(default_factory=dict)
    names: list[str] = field(default_factory=list, init=False)
    problems: list[Problem] = field(default_factory=list, init=False)
    _trials: list[_Trial] = field(default_factory=list, init=False)

    @property
    def time(self) -> str:
        """The column for the time of an epoch; empty if there is none."""
        return next((name for name in TIMES if name in self.names), "")

    def problem(self, line: int, name: str, message: str) -> None:
        """Add a problem in a column of a line."""
        column = self.names.index(name) + 1 if name in self.names else 1
        self.problems.append(Problem(str(self.path), line, column, cut(name), message))

    def load(self, repeats: Repeats | None = None, grid: str = "") -> list[Run]:
        """Return the trials as runs.

        Args:
            repeats: those in other files; those of this file are added.
            grid: its grid, if no column names one; by default the name of the file.

        Raises:
            FileError: the rows are invalid; the message lists all problems, with line and column.
        """
        size = len(self.columns["epoch"])
        self.columns |= {name: [value] * size for name, value in self.values.items()}
        self.names, self.lines = [*self.columns], self.lines or [0] * size
        runs: list[Run] = []
        for step in (self._group, self._check_trials, self._measure):
            if not self.problems:
                step()
        if not self.problems:
            runs = list(self._runs({} if repeats is None else repeats, grid or self.path.stem))
        if self.problems:
            raise FileError(self.problems, SHOWN)
        return runs

    def _group(self) -> None:
        trial_columns = [name for name in self.names if is_of_trial(name)]
        is_named = "trial" in self.names
        settings = [name for name in trial_columns if name in _WHICH or name.startswith(PARAM)]
        which = ["grid", "trial", "attempt"] if is_named else settings
        columns = [self.columns[name] for name in which if name in self.columns]
        keys = zip(*columns, strict=True) if columns else [()] * len(self.lines)
        groups: dict[tuple[Any, ...], list[int]] = {}
        for row, key in enumerate(keys):
            groups.setdefault(key, []).append(row)
        for rows in groups.values():
            first, values = rows[0], {name: self.columns[name][rows[0]] for name in trial_columns}
            if not is_named:
                stem = self.path.stem
                values["trial"] = f"{stem}:{self.lines[first]}" if self._trials else stem
            for name in trial_columns:
                for row in rows:
                    if self.columns[name][row] != values[name]:
                        texts = (cut(str(value)) for value in (self.columns[name][row], values[name]))
                        conflict = f"{' here and '.join(texts)} on line {self.lines[first]}"
                        remedy = "; use the column repeat, or trial names that differ"
                        self.problem(self.lines[row], name, f"{conflict}: a trial has one{remedy}")
            self._trials.append(_Trial(rows, values))

    def _check_trials(self) -> None:
        """Put the epochs of each trial in order, and check that they can be those of one trial."""
        numbers, hint = self.columns["epoch"], "" if "trial" in self.names else "; add a column trial or repeat"
        from_zero = []
        for trial in self._trials:
            lines: dict[int, int] = {}
            for row in trial.rows:
                if (line := lines.setdefault(numbers[row], self.lines[row])) != self.lines[row]:
                    message = f"{numbers[row]} again: line {line} has this epoch of the same trial{hint}"
                    self.problem(self.lines[row], "epoch", message)
            from_zero += [lines[0]] if 0 in lines else []
            trial.rows.sort(key=numbers.__getitem__)
        if len(from_zero) == len(self._trials):
            self.columns["epoch"] = [number + 1 for number in numbers]
        elif from_zero:
            self.problem(from_zero[0], "epoch", "0, and other trials of the file count from 1")
        if self.guessed_time and not self.problems:
            self._guess_time()
        for trial in () if self.problems else self._trials:
            self._check_target(trial)
            self._check_gaps(trial)

    def _guess_time(self) -> None:
        """Take times for those since training began if they grow in each epoch of all trials by about the first one."""
        seconds = self.columns["epoch_s"]
        times = [[seconds[row] for row in trial.rows] for trial in self._trials if len(trial.rows) > 1]
        is_elapsed = bool(times) and all(None not in of_trial and are_elapsed(of_trial) for of_trial in times)
        text = "of each epoch; name it elapsed_s if it counts from the start of training"
        if is_elapsed:
            text = "since training began; name it epoch_s if it is that of each epoch"
            self.columns = {"elapsed_s" if n == "epoch_s" else n: values for n, values in self.columns.items()}
            self.names = [*self.columns]
        self.warning = f"Column {self.guessed_time} is taken for the seconds {text}"

    def _check_target(self, trial: _Trial) -> None:
        line, (metric, *bounds) = self.lines[min(trial.rows)], (trial.values.get(name) for name in _TARGET)
        if (name := trial.values.get("metric")) and name not in self.names:
            self.problem(line, "metric", f"there is no column {cut(name)}; {close(name, self.names) or 'add it'}")
        if metric is None:
            return
        if (bounds[0] is None) == (bounds[1] is None):
            self.problem(line, "target_metric", "needs exactly one of target_at_least and target_at_most")
        elif metric not in self.names:
            hint = close(metric, self.names) or "add it"
            self.problem(line, "target_metric", f"there is no column {cut(metric)}; {hint}")
        else:
            for name, bound in zip(_TARGET[1:], bounds, strict=True):
                if bound is not None and (message := not_fraction(metric, bound)):
                    self.problem(line, name, message)

    def _check_gaps(self, trial: _Trial) -> None:
        """Refuse missing epochs if the time of an epoch, or the time to the target, is computed from all before it."""
        numbers = enumerate((self.columns["epoch"][row] for row in trial.rows), 1)
        number, line = next(((n, self.lines[trial.rows[p - 1]]) for p, n in numbers if n != p), (0, 0))
        is_missing = number and self.clock != OF_A_TABLE  # in which an epoch is a whole run
        if is_missing and (self.time == "elapsed_s" or trial.values.get("target_metric")):
            needs = "a target" if self.time != "elapsed_s" else "elapsed_s"
            self.problem(line, "epoch", f"{number}, and an epoch before it is missing: {needs} needs all")

    def _measure(self) -> None:
        """Reduce the times of epochs to training alone, as far as the file has the other parts."""
        if not self.time:
            return
        seconds = list(self.columns[self.time])
        if self.time == "elapsed_s":
            for rows in (trial.rows for trial in self._trials):
                elapsed = [0.0, *(seconds[row] for row in rows)]
                for row, before_s, now_s in zip(rows, elapsed, elapsed[1:], strict=False):
                    seconds[row] = now_s - before_s
                    if now_s < before_s:
                        message = f"{now_s:g} after {before_s:g} in the epoch before"
                        self.problem(self.lines[row], "elapsed_s", message)
        for part in ("input_wait_s", "compile_s") if self.time != "train_s" else ():
            if part in self.columns:
                pairs = zip(seconds, self.columns[part], strict=True)
                seconds = [total_s - (part_s or 0.0) for total_s, part_s in pairs]
        self.columns["train_s"] = seconds if self.time == "train_s" else [round(max(0.0, s), 9) for s in seconds]

    def _runs(self, repeats: Repeats, grid: str) -> Iterator[Run]:
        """Yield the trials as runs; adds a problem for each repeat that two trials of a cell claim."""
        numbers = sorted({number for trial in self._trials if (number := trial.values.get("repeat")) is not None})
        columns = {name: values for name, values in self.columns.items() if name in OF_EPOCHS or "/" in name}
        losses = [values for name, values in columns.items() if name.endswith("/loss")]
        joules = columns.get("energy_j", ())
        cells: dict[tuple[Any, ...], str] = {}
        prices: dict[str, _Trial] = {}
        for trial in self._trials:
            values, rows = trial.values, trial.rows
            is_diverged = any(values[rows[-1]] != values[rows[-1]] for values in losses)
            values["grid"] = values.get("grid") or grid
            values["status"] = values.get("status") or (TrialStatus.DIVERGED if is_diverged else TrialStatus.COMPLETED)
            epochs = Epochs.of_columns({name: [values[row] for row in rows] for name, values in columns.items()})
            energies = {columns["epoch"][row]: joules[row] for row in rows if joules and joules[row] is not None}
            run = run_of(values, epochs, energies)
            run.clock, run.output_clock = self.clock, self.output_clock
            run.warnings = [self.warning] if self.warning and trial is self._trials[0] else []
            if not OWN_NAME.fullmatch(run.trial):
                identity = id(run.cell), run.profile, run.grid
                if identity not in cells:
                    tree = {"cell": run.cell.to_json(), "device": run.profile, "grid": run.grid}
                    cells[identity] = digest(tree)
                cell = cells[identity]
                self._check_price(trial, prices.setdefault(cell, trial))
                repeat = self._repeat(trial, repeats.setdefault(cell, {}), numbers)
                run.name, run.trial = run.trial, trial_id(cell, repeat)
            yield run

    def _check_price(self, trial: _Trial, earlier: _Trial) -> None:
        """Refuse two prices per hour of one configuration, which has one."""
        prices = [trial.values.get("price_per_hour"), earlier.values.get("price_per_hour")]
        if None not in prices and prices[0] != prices[1]:
            line = self.lines[min(earlier.rows)]
            message = f"{prices[0]} here and {prices[1]} on line {line} differ between equal runs"
            remedy = "add a column with what differs, such as terms, or remove it if it is the price of a run"
            self.problem(self.lines[min(trial.rows)], "price_per_hour", f"{message}; {remedy}")

    def _repeat(
        self, trial: _Trial, numbers_taken: dict[int, tuple[Path, str, int, str | None]], numbers: list[int]
    ) -> int:
        host = trial.values.get("host")
        entry = self.path, trial.values["trial"], self.lines[min(trial.rows)], host
        repeat, free = trial.values.get("repeat"), max(numbers_taken, default=-1) + 1
        earlier_numbers = (number for number, taken in numbers_taken.items() if taken[:2] == entry[:2])
        number = next(earlier_numbers, free) if repeat is None else numbers.index(repeat)
        if number in numbers_taken and (numbers_taken[number][0], numbers_taken[number][3]) != (self.path, host):
            number = free  # hosts may count their repeats alike
        _, name, line, _ = numbers_taken.setdefault(number, entry)
        if name != entry[1]:
            message = f"{repeat} again: trial {cut(repr(name))} on line {line} has it, and the same settings"
            self.problem(entry[2], "repeat", message)
        return number


def not_fraction(metric: str, number: float) -> str:
    """Return why a number cannot be the value of a metric, if it is an accuracy; empty if it can."""
    if not metric.endswith("/accuracy") or 0 <= number <= MOST_FRACTION:
        return ""
    share = f"; {number:g} % is {number / 100:g}" if 1 < number <= 100 else ""
    return f"{number:g} is not a fraction from 0 to 1{share}"


def part_taken(metric: str, text: str, metrics: Collection[str]) -> list[str]:
    """Return what is to be said if a metric counts as one of training only since a text names no part of the data."""
    part, _, name = metric.partition("/")
    is_said = part != "train" or "train" in text.lower() or name.endswith("loss") or f"val/{name}" in metrics
    return [] if is_said else [f"The {name} was taken for that on training data; name it val_{name} if it is not"]
