"""`trainer_state.json` of Hugging Face's `Trainer`: its log of losses and metrics, without the times of single steps.

The seconds of the whole training (`train_runtime`), if it has ended and was not resumed, are spread over the logged
steps.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from pathlib import Path
from statistics import median
from typing import Any

from raybench.errors import FileError, Problem
from raybench.results.output_clock import OutputClock
from raybench.sources.rows import Table

NAME = "trainer_state.json"
_NO_METRICS = re.compile(
    r"epoch|step|total_flos|.*_(?:runtime|per_second)|learning_rate|grad_norm|num_input_tokens_seen"
)


def read(path: Path) -> Table:
    """Read the log of one run; a row is a logged step.

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
    rows: dict[int, dict[str, float]] = {}
    runtime_s = None
    for entry in entries:
        runtime_s = entry.get("train_runtime", runtime_s)
        rows.setdefault(entry["step"], {}).update(
            {_metric(name): value for name, value in entry.items() if _is_metric(name, value)}
        )
    if not rows:
        raise FileError([Problem(str(path), 1, 1, "log_history", "no step in it")])
    steps, names = sorted(rows), dict.fromkeys(name for row in rows.values() for name in row)
    counts = [after - before for before, after in zip([0, *steps], steps, strict=False)]
    columns: dict[str, list[Any]] = {name: [rows[step].get(name) for step in steps] for name in names}
    columns |= {"epoch": [*range(1, len(steps) + 1)], "steps": counts}
    # That of a resumed training is of its last part alone, while the file lists the evaluations of all parts.
    if runtime_s and steps[-1] and runtime_s >= sum(entry.get("eval_runtime", 0.0) for entry in entries):
        columns["train_s"] = [runtime_s * count / steps[-1] for count in counts]
    batch = state.get("train_batch_size")
    clock = OutputClock(shown="step N", label="step", step=median(counts))
    return Table(path, columns, values={"batch_size": batch} if isinstance(batch, int) else {}, output_clock=clock)


def last_states(paths: Iterable[Path]) -> list[Path]:
    """Return the state of each run: that of its folder, else that of its last checkpoint."""
    runs: dict[Path, list[tuple[float, Path]]] = {}
    for path in paths:
        number = re.fullmatch(r"checkpoint-(\d+)", path.parent.name)
        folder = path.parent.parent if number else path.parent
        runs.setdefault(folder, []).append((float(number[1]) if number else float("inf"), path))
    return [max(states)[1] for states in runs.values()]


def _is_metric(name: str, value: object) -> bool:
    return isinstance(value, (int, float)) and not _NO_METRICS.fullmatch(name)


def _metric(name: str) -> str:
    part, _, rest = name.partition("_")
    return f"val/{rest}" if part == "eval" else f"train/{rest}" if part == "train" else f"train/{name}"
