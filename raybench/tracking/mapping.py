"""Names and values of an attempt in MLflow: parameters, metrics, tags and status; does not need MLflow."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from raybench.analysis.bottleneck import utilization
from raybench.core.settings import PARAM
from raybench.core.status import TrialStatus
from raybench.results import energy, timing
from raybench.results.attempt import Attempt
from raybench.results.epoch import UNITS, Epoch

GRID, TRIAL, ATTEMPT, RUN, STATUS = (
    "raybench.grid",
    "raybench.trial",
    "raybench.attempt",
    "raybench.run",
    "raybench.status",
)
HOST, HARDWARE, ERROR = "raybench.host", "raybench.hardware", "raybench.error"
EXECUTION = "raybench.execution"
"""Tag of a run that has what one execution of a grid was asked for, and its report."""

EPOCH_TIME = "time/epoch_s"
"""A metric of every epoch."""

RUNNING = "running"
MAX_PARAMETER, MAX_TAG, MAX_NAME = 6000, 5000, 250
"""Maximum characters in MLflow."""

NOTE = """Runs of the raybench grid {grid}: one for each attempt at a trial. Its artifact is the file of the attempt, \
which `raybench.load` and `raybench report` read. The runs “grid {grid}” have what each execution was asked for.

Each epoch (step = epoch, from 1): `time/epoch_s` is training without evaluation; `throughput/examples_per_s` is \
examples ÷ `time/epoch_s`, and so are the rates of other units; `memory/peak_bytes` is of the device.

At the end: `summary/steady_epoch_s` is the median epoch after the warm-up, `summary/examples_per_s` the rate of these \
epochs, and so for other units; `summary/total_s` is the whole process; `summary/mfu` is the share of the measured peak.
"""


def experiment_tags(grid: str) -> dict[str, str]:
    """Tags of a grid's experiment: its kind, without which MLflow opens its pages for language models, and a note."""
    return {"mlflow.experimentKind": "custom_model_development", "mlflow.note.content": NOTE.format(grid=grid)}


def run_name(attempt: Attempt) -> str:
    """The label of an attempt; a second attempt ends in `a2`."""
    return (attempt.label or attempt.trial) + (f" a{attempt.attempt}" if attempt.attempt > 1 else "")


def parameters(attempt: Attempt) -> dict[str, str]:
    """Settings and parameters of a run, its device, workload, data, framework, repeat, seed; JSON, except texts."""
    cell = attempt.cell
    leaves = cell.leaves
    values = {name: value for name, value in leaves.items() if name.startswith(("settings.", PARAM))}
    values = {name: value for name, value in values.items() if value is not False and value not in (None, [])}
    values |= {
        "device": attempt.profile or leaves.get("device.kind"),
        "replicas": leaves.get("device.replicas"),
        "workload": leaves.get("workload.name"),
        "data": leaves.get("data.name"),
        "framework": leaves.get("framework"),
        "framework_version": leaves.get("engine.framework_version"),
        "repeat": attempt.repeat,
        "seed": attempt.seed,
    }
    texts = {
        name: value if isinstance(value, str) else json.dumps(value)
        for name, value in values.items()
        if value is not None
    }
    return {_name(name): text[:MAX_PARAMETER] for name, text in texts.items()}


def epoch_metrics(epoch: Epoch) -> dict[str, float]:
    """The metrics of an epoch: its time, rates, memory, and what its loop reports; `EPOCH_TIME` comes last."""
    seconds = timing.epoch_seconds(epoch)
    metrics = dict(epoch.metrics)
    metrics |= {f"{UNITS}{name}": count for name, count in epoch.units.items()}
    if seconds > 0:
        metrics |= {f"throughput/{name}_per_s": count / seconds for name, count in epoch.counts.items()}
    sections = ("compile", "evaluate")
    metrics |= {f"time/{name}_s": epoch.ledger[name] for name in sections if name in epoch.ledger}
    if epoch.memory_peak_bytes is not None:
        metrics["memory/peak_bytes"] = epoch.memory_peak_bytes
    return {_name(name): float(value) for name, value in metrics.items()} | {EPOCH_TIME: seconds}


def summary_metrics(attempt: Attempt) -> dict[str, float]:
    """The metrics of an attempt that has ended; those that are not known are left out."""
    metrics = {
        "summary/steady_epoch_s": timing.steady(attempt),
        "summary/total_s": timing.total(attempt),
        "summary/best_val_accuracy": attempt.best("val/accuracy"),
        "summary/time_to_target_s": timing.time_to_target(attempt, attempt.target) if attempt.target else None,
        "summary/steady_energy_j": energy.steady(attempt),
        "summary/mfu": used.mfu if (used := utilization(attempt)) else None,
    }
    rates = {_name(f"summary/{unit}_per_s"): rate for unit, rate in timing.rates(attempt).items()}
    return {name: value for name, value in metrics.items() if value is not None} | rates


def tags(attempt: Attempt, grid: str) -> dict[str, str]:
    """The tags of a run, by which it is found."""
    texts: Mapping[str, Any] = {
        GRID: attempt.grid or grid,
        TRIAL: attempt.trial,
        ATTEMPT: attempt.attempt,
        RUN: attempt.run,
        STATUS: attempt.status or RUNNING,
        HOST: attempt.host.get("name"),
        HARDWARE: attempt.cell.leaves.get("device.model"),
        ERROR: attempt.error_text or None,
    }
    return {name: str(value)[:MAX_TAG] for name, value in texts.items() if value is not None}


def mlflow_status(status: str) -> str:
    """MLflow's run status for the status of a trial; FAILED for an unknown one."""
    parsed = TrialStatus.parse(status)
    if parsed and parsed.is_result:
        return "FINISHED"
    return "KILLED" if parsed is TrialStatus.KILLED else "FAILED"


def milliseconds(*times: str | None) -> int | None:
    """The first valid time, in milliseconds since 1970; None if there is none."""
    for text in times:
        try:
            return round(datetime.fromisoformat(text or "").timestamp() * 1000)
        except (ValueError, OverflowError):
            continue
    return None


def _name(name: str) -> str:
    """A valid MLflow name: invalid characters become `_`, and path components such as `..` are removed."""
    parts = re.sub(r"[^\w.\- /]", "_", name).split("/")
    return "/".join(part for part in parts if part not in ("", ".", ".."))[:MAX_NAME] or "_"
