"""`trainer_state.json` of Hugging Face's `Trainer`, as one row: the whole training, with its last value of each metric.

Its times are those of the whole (`train_runtime`), with evaluations; single steps have none. A training that has not
ended, or was resumed, has no times.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from pathlib import Path

from raybench.errors import FileError, Problem
from raybench.results.run_table import OF_A_TABLE
from raybench.sources.rows import Table, metric_of

NAME = "trainer_state.json"


def read(path: Path) -> Table:
    """Read one run.

    Raises:
        FileError: it is not such a file, or has no log.
    """
    try:
        state = json.loads(path.read_text(encoding="utf-8"))
        entries = [entry for entry in state["log_history"] if isinstance(entry["step"], int)]
    except json.JSONDecodeError as error:
        raise FileError([Problem(str(path), error.lineno, error.colno, "", f"not JSON: {error.msg}")]) from None
    except (KeyError, TypeError, UnicodeDecodeError):
        raise FileError([Problem(str(path), 1, 1, "", "not the state of a Trainer: no log_history")]) from None
    last = {name: value for entry in entries for name, value in entry.items() if isinstance(value, (int, float))}
    metrics = {metric: value for name, value in last.items() if (metric := metric_of(name)) and name != "train_loss"}
    if not metrics:
        raise FileError([Problem(str(path), 1, 1, "log_history", "no metric in it")])
    columns: dict[str, list[float]] = {"epoch": [1], **{name: [value] for name, value in metrics.items()}}
    columns["units/steps"] = [last["step"]]
    runtime_s = last.get("train_runtime")
    # That of a resumed training is of its last part alone, while the file lists the evaluations of all parts.
    if runtime_s and runtime_s < sum(entry.get("eval_runtime", 0.0) for entry in entries):
        runtime_s = None
    if runtime_s:
        columns["train_s"] = [runtime_s]
    if runtime_s and (rate := last.get("train_samples_per_second")):
        columns["examples"] = [round(runtime_s * rate)]
    return Table(path, columns, [1], OF_A_TABLE)


def last_states(paths: Iterable[Path]) -> list[Path]:
    """Return the state of each run: that of its folder, else that of its last checkpoint."""
    runs: dict[Path, list[tuple[float, Path]]] = {}
    for path in paths:
        number = re.fullmatch(r"checkpoint-(\d+)", path.parent.name)
        folder = path.parent.parent if number else path.parent
        runs.setdefault(folder, []).append((float(number[1]) if number else float("inf"), path))
    return [max(states)[1] for states in runs.values()]
