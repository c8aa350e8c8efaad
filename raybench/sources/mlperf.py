"""A result file of MLPerf Training, of one run: lines that begin with `:::MLLOG`.

A row is an evaluation. Its time is that since `run_start`, with evaluations, as MLPerf counts it; that of the last row
is the time of `run_stop`.
"""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path
from typing import Any

from raybench.core.status import TrialStatus
from raybench.errors import FileError, Problem
from raybench.sources.rows import Table

MARK = re.compile(r"\s*(?:\d+:\s*)?:::MLLOG")
"""The beginning of a line, which Slurm may write the number of a process before."""

LOSSES = ("llama", "gpt", "flux", "stable_diffusion")
"""Beginnings of the names of benchmarks whose `eval_accuracy` is a loss."""

_SETTINGS = {"global_batch_size": "batch_size", "seed": "seed", "submission_benchmark": "workload"}


def read(path: Path) -> Table:
    """Read one run.

    Raises:
        FileError: a line is damaged, or the run or its evaluations are missing.
    """
    values: dict[str, Any] = {"status": TrialStatus.KILLED}
    rows: list[list[Any]] = []
    target, begin_ms = None, 0
    for number, line in enumerate(path.read_text(encoding="utf-8", errors="replace").split("\n"), 1):
        if not (mark := MARK.match(line)):
            continue
        try:
            entry = json.loads(line[mark.end() :])
            key, value, at_ms, details = (
                entry["key"],
                entry["value"],
                int(entry["time_ms"]),
                entry.get("metadata") or {},
            )
            if key in ("eval_accuracy", "target_accuracy"):
                value = float(value)
        except (ValueError, KeyError, TypeError):
            raise FileError([Problem(str(path), number, 1, "", "a damaged line of MLPerf")]) from None
        if key in _SETTINGS:
            values.setdefault(_SETTINGS[key], value)
        elif key == "target_accuracy":
            target = value
        elif key == "submission_platform":
            values["device"] = value
        elif key == "run_start" and not begin_ms:
            begin_ms, values["started"] = at_ms, datetime.fromtimestamp(at_ms / 1e3, UTC).isoformat()
        elif key == "eval_accuracy" and begin_ms:
            rows.append([number, (at_ms - begin_ms) / 1e3, details.get("samples_count"), value])
        elif key == "run_stop" and rows:
            values["status"] = TrialStatus.COMPLETED if details.get("status") == "success" else TrialStatus.FAILED
            rows[-1][1] = (at_ms - begin_ms) / 1e3
    if not rows:
        raise FileError([Problem(str(path), 1, 1, "", "no run_start with an eval_accuracy after it")])
    is_loss = str(values.get("workload", "")).startswith(LOSSES)
    metric = "val/loss" if is_loss else "val/accuracy"
    lines, elapsed_s, counts, scores = map(list, zip(*rows, strict=True))
    columns = {"epoch": [*range(1, len(rows) + 1)], "elapsed_s": elapsed_s, metric: scores}
    if all(isinstance(count, int) for count in counts):
        columns["examples"] = [after - before for before, after in pairwise([0, *counts])]
    if target is not None:
        values |= {"target_metric": metric, "target_at_most" if is_loss else "target_at_least": target}
    if path.parent.name == values.get("workload"):  # SUBMITTER/results/SYSTEM/BENCHMARK/result_0.txt
        values["device"] = path.parent.parent.name
    table = Table(path, columns, lines)
    table.add({**values, "grid": values.get("workload")})
    return table
