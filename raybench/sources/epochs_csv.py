"""A plain CSV of epochs: a line for each epoch of each trial, from whatever wrote it.

The first line names the columns, by the names they have in the tables (`raybench.analysis.columns`):

- `trial` and `epoch` (from 1), and `train_s`, or `epoch_s` where nobody knows the parts of an epoch;
- further of an epoch: `input_wait_s`, `compile_s`, `evaluate_s`, `cpu_s`, `device_train_s`, `device_evaluate_s`,
  `steps`, `examples`, `peak_memory_bytes`, `recompiles`, `ended`, and any metric by a name with a slash in it, such as
  `val/accuracy` (a fraction);
- of a trial, the same on all its lines: `grid`, `attempt`, `repeat`, `status`, `label`, `host`, `device`, `seed`,
  `target_metric`, `target_at_least`, `target_at_most`, `price_per_hour`, `wall_s`, `template_import_s`, `data_s`, and
  every setting, such as `workload`, `framework`, `device_model`, `batch_size`, `weight_decay`.

Whatever else the table of epochs has follows from these and is passed over. A place where nothing stands is a value
that nobody knows. Trials with the same settings on the same device are repeats of one cell, in their order, unless
their names end in `-r0`, `-r1`, … or there is a column `repeat`.
"""

from __future__ import annotations

import csv
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from raybench.analysis.columns import EPOCHS, NUMBER, TEXT, TIME, TRIALS, WHOLE, YES_NO, Column
from raybench.analysis.results import Attempt, Epoch
from raybench.analysis.tables import LEAVES, Record, cell_of
from raybench.analysis.told import LARGEST
from raybench.errors import FileError, Problem, nearest
from raybench.identity import digest
from raybench.trial import events
from raybench.trial.job import Target

_SECTIONS = ("train", "input_wait", "compile", "evaluate")
_CELL = {column.name for column in LEAVES.values()}
_TARGET = ("target_metric", "target_at_least", "target_at_most")
_LEDGER = ("setup", "data", "build")
_TRIAL = ("grid", "trial", "attempt", "repeat", "status", "label", "host", "device", "seed", "price_per_hour")
_OF_TRIALS = {*_CELL, *_TARGET, *_TRIAL, "wall_s", "template_import_s", *(f"{name}_s" for name in _LEDGER)}
_OF_EPOCHS = {column.name for column in EPOCHS} - {"grid", "trial", "attempt"}
KNOWN: Mapping[str, Column] = {
    column.name: column for column in (*TRIALS, *EPOCHS) if column.name in _OF_TRIALS | _OF_EPOCHS
}


@dataclass
class _Trial:
    line: int
    told: dict[str, Any]
    epochs: dict[int, Epoch] = field(default_factory=dict)


def of_csv(path: Path) -> list[Record]:
    """Every trial of a CSV of epochs.

    Raises:
        FileError: with everything that is wrong with it, each with its line and column.
        OSError: it cannot be read.
    """
    problems: list[Problem] = []
    trials: dict[tuple[Any, ...], _Trial] = {}
    with path.open(encoding="utf-8-sig", errors="replace", newline="") as file:
        lines = csv.reader(file)
        head = [name.strip() for name in next(lines, [])]
        problems += _head(head, str(path))
        if not problems:
            for values in lines:
                if any(value.strip() for value in values):
                    problems += _line(head, values, lines.line_num, str(path), trials)
    if not problems and not trials:
        problems.append(Problem(str(path), 1, 1, "", "no epoch in it"))
    if problems:
        raise FileError(problems)
    return _records(trials, path)


def _head(head: list[str], file: str) -> list[Problem]:
    found = []
    for number, name in enumerate(head, 1):
        if name in head[: number - 1]:
            found.append(Problem(file, 1, number, name, "said twice"))
        elif name not in KNOWN and "/" not in name:
            hint = f"{nearest(name, KNOWN)}" if name else "give it a name"
            found.append(
                Problem(file, 1, number, name, f"no column of epochs; {hint}; a metric has a slash in its name")
            )
    for name in ("trial", "epoch"):
        if name not in head:
            found.append(Problem(file, 1, 1, "", f"the column {name} is missing"))
    if not {"train_s", "epoch_s"} & set(head):
        found.append(Problem(file, 1, 1, "", "the column train_s (or epoch_s) is missing"))
    return found


def _line(
    head: list[str], values: list[str], line: int, file: str, trials: dict[tuple[Any, ...], _Trial]
) -> list[Problem]:
    """Take in one line; what is wrong with it."""
    if len(values) != len(head):
        return [Problem(file, line, 1, "", f"{len(values)} values for {len(head)} columns")]
    found: list[Problem] = []
    told: dict[str, Any] = {}
    for number, (name, text) in enumerate(zip(head, values, strict=True), 1):
        dtype = KNOWN[name].dtype if name in KNOWN else NUMBER
        try:
            told[name] = _value(text.strip(), dtype)
        except ValueError as error:
            found.append(Problem(file, line, number, name, f"{text.strip()[:60]!r} is {error}"))
            continue
        if name.endswith("/accuracy") and told[name] is not None and not 0 <= told[name] <= 1:
            share = f"; {told[name]:g} % is {told[name] / 100:g}" if 1 < told[name] <= 100 else ""
            found.append(Problem(file, line, number, name, f"{text.strip()} is no share from 0 to 1{share}"))
    for name in ("trial", "epoch"):
        if told.get(name, "") is None:
            found.append(Problem(file, line, head.index(name) + 1, name, "missing"))
    seconds = told["train_s"] if told.get("train_s") is not None else told.get("epoch_s")
    if found:
        return found
    if seconds is None or seconds < 0 or told["epoch"] < 1:
        where = "epoch" if told["epoch"] < 1 else "train_s" if "train_s" in head else "epoch_s"
        return [
            Problem(file, line, head.index(where) + 1, where, "wanted a number that is not negative, from 1 for epoch")
        ]
    of_trial = {name: value for name, value in told.items() if name in _OF_TRIALS}
    key = (told.get("grid"), told["trial"], told.get("attempt"))
    trial = trials.setdefault(key, _Trial(line, of_trial))
    for name, value in of_trial.items():
        if value != trial.told[name]:
            message = f"{value!r} here and {trial.told[name]!r} on line {trial.line}: a trial has one"
            found.append(Problem(file, line, head.index(name) + 1, name, message))
    if told["epoch"] in trial.epochs:
        found.append(Problem(file, line, head.index("epoch") + 1, "epoch", f"{told['epoch']} again, of the same trial"))
    trial.epochs[told["epoch"]] = Epoch(
        epoch=told["epoch"],
        t=told.get("ended"),
        steps=told.get("steps") or 0,
        examples=told.get("examples") or 0,
        ledger={name: value for name in _SECTIONS if (value := told.get(f"{name}_s")) is not None} | {"train": seconds},
        cpu_s=told.get("cpu_s"),
        device_s={name: value for name in ("train", "evaluate") if (value := told.get(f"device_{name}_s")) is not None},
        metrics={name: value for name, value in told.items() if "/" in name and value is not None},
        memory_peak_bytes=told.get("peak_memory_bytes"),
        recompiles=told.get("recompiles"),
    )
    return found


def _value(text: str, dtype: str) -> Any:
    if not text or text == "<NA>":
        return None
    if dtype in (TEXT, TIME):
        return text
    if dtype == YES_NO:
        if text.lower() not in ("true", "false"):
            raise ValueError("neither true nor false")
        return text.lower() == "true"
    try:
        number = float(text)
    except ValueError:
        raise ValueError("no number") from None
    if dtype == WHOLE:
        if not number.is_integer() or abs(number) >= LARGEST:
            raise ValueError("no whole number")
        return int(number)
    if not math.isfinite(number):
        return None  # NaN is how many programs write that nothing is known
    return number


def _records(trials: Mapping[tuple[Any, ...], _Trial], path: Path) -> list[Record]:
    repeats: dict[str, int] = {}
    found = []
    for trial in trials.values():
        told = trial.told
        cell = cell_of({name: told[name] for name in told if name in _CELL and told[name] is not None})
        metric, at_least, at_most = (told.get(name) for name in _TARGET)
        target = Target(str(metric), at_least, at_most) if metric else None
        attempt = Attempt(
            told["trial"],
            told.get("attempt") or 1,
            cell=cell,
            seed=told.get("seed"),
            label=told.get("label"),
            grid=told.get("grid") or path.stem,
            profile=told.get("device"),
            target=target,
            host={"name": told.get("host")},
            status=told.get("status") or events.COMPLETED,
            ledger={name: value for name in _LEDGER if (value := told.get(f"{name}_s")) is not None},
            wall=told.get("wall_s"),
            template_import=told.get("template_import_s"),
            _epochs=trial.epochs,
        )
        known: dict[str, Any] = {"price_per_hour": told.get("price_per_hour")}
        if not attempt.trial.rpartition("-r")[2].isdecimal() or "-r" not in attempt.trial:
            known["cell"] = digest({"cell": cell, "device": told.get("device"), "grid": told.get("grid")})
            repeats[known["cell"]] = known["repeat"] = repeats.get(known["cell"], -1) + 1
        if told.get("repeat") is not None:
            known["repeat"] = told["repeat"]
        found.append(Record(attempt, None, known))
    return found
