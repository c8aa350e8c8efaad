"""A result file of MLPerf Training: lines that begin with `:::MLLOG`, of one run.

A row is an evaluation. Its time is that since `run_start` with evaluations, as MLPerf counts it; the last one is that
of `run_stop`.
"""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from raybench.core.status import TrialStatus
from raybench.errors import FileError, Problem
from raybench.sources.rows import Table

MARK = ":::MLLOG"

LOSSES = ("llama", "gpt", "flux", "stable_diffusion")
"""Beginnings of the names of benchmarks whose `eval_accuracy` is a loss, a perplexity or a distance."""

_SETTINGS = {
    "global_batch_size": "batch_size",
    "seed": "seed",
    "submission_benchmark": "workload",
    "submission_platform": "device",
    "submission_org": "params.org",
    "opt_base_learning_rate": "params.lr",
    "gradient_accumulation_steps": "params.accumulation",
}


def read(path: Path) -> Table:
    """Read one run.

    Raises:
        FileError: a line is damaged, or the run or its evaluations are missing.
    """
    values: dict[str, Any] = {}
    columns: dict[str, list[Any]] = {"epoch": [], "elapsed_s": [], "examples": [], "metric": []}
    begin_ms, status = 0, TrialStatus.KILLED
    for number, line in enumerate(path.read_text(encoding="utf-8", errors="replace").split("\n"), 1):
        rank, _, text = line.partition(MARK)
        if not text or rank.strip(" 0123456789:"):
            continue
        try:
            entry = json.loads(text)
            key, value, at_ms, details = entry["key"], entry["value"], entry["time_ms"], entry.get("metadata") or {}
            at_ms = int(at_ms)
        except (ValueError, KeyError, TypeError):
            raise FileError([Problem(str(path), number, 1, "", "a damaged line of MLPerf")]) from None
        if key in _SETTINGS or key == "target_accuracy":
            values.setdefault(_SETTINGS.get(key, key), value)
        elif key == "run_start" and not begin_ms:
            begin_ms = at_ms
        elif key == "eval_accuracy" and begin_ms:
            row = (len(columns["epoch"]) + 1, (at_ms - begin_ms) / 1e3, details.get("samples_count"), value)
            for column, cell in zip(columns.values(), row, strict=True):
                column.append(cell)
        elif key == "run_stop" and columns["epoch"]:
            is_success = details.get("status") == "success"
            status = TrialStatus.COMPLETED if is_success else TrialStatus.FAILED
            columns["elapsed_s"][-1] = (at_ms - begin_ms) / 1e3
            values["started"] = datetime.fromtimestamp(begin_ms / 1e3, UTC).isoformat()
    if not columns["epoch"]:
        raise FileError([Problem(str(path), 0, 0, "", "no run_start with an eval_accuracy after it")])
    is_loss = str(values.get("workload", "")).startswith(LOSSES)
    metric, target = ("val/loss" if is_loss else "val/accuracy"), values.pop("target_accuracy", None)
    if target is not None:
        values |= {"target_metric": metric, "target_at_most" if is_loss else "target_at_least": target}
    columns[metric] = columns.pop("metric")
    counts = columns.pop("examples")
    if all(isinstance(count, int) for count in counts):
        columns["examples"] = [after - before for before, after in zip([0, *counts], counts, strict=False)]
    if path.parent.name == values.get("workload"):  # <submitter>/results/<system>/<benchmark>/result_0.txt
        values["device"] = path.parent.parent.name
    values["grid"] = values.get("workload")  # each has its own target
    return Table(path, columns, values={**values, "status": status})
