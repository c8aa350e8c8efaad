"""Names and values of a run in MLflow: parameters, metrics, tags and status; does not need MLflow."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Any

from raybench.core.settings import PARAM
from raybench.core.status import TrialStatus
from raybench.results.epoch_table import EPOCHS, epoch_columns
from raybench.results.run_table import TRIALS, Run

GRID, TRIAL, ATTEMPT, RUN, STATUS = (
    "raybench.grid",
    "raybench.trial",
    "raybench.attempt",
    "raybench.run",
    "raybench.status",
)
HOST, HARDWARE, ERROR = "raybench.host", "raybench.hardware", "raybench.error"
EXECUTION = "raybench.execution"  # tag of a run that has what one execution of a grid was asked for, and its report
EPOCH_TIME = "time/epoch_s"  # a metric of every epoch

RUNNING = "running"
MAX_PARAMETER, MAX_TAG, MAX_NAME = 6000, 5000, 250  # maximum characters in MLflow

NOTE = """Runs of the raybench grid {grid}: one for each attempt at a trial. Its artifact is the file of the attempt, \
which `raybench.load` and `raybench report` read. The runs “grid {grid}” have what each execution was asked for.

Each epoch (step = epoch, from 1): `time/epoch_s` is training without evaluation; `throughput/examples_per_s` is \
examples per second of training without compilation, and so for other units; `memory/peak_bytes` is of the device.

At the end: `summary/steady_epoch_s` is the median epoch after the warm-up, `summary/examples_per_s` the rate of these \
epochs, and so for other units; `summary/total_s` is the whole process; `summary/mfu` is the share of the measured peak.
"""


def experiment_tags(grid: str) -> dict[str, str]:
    """Tags of a grid's experiment: its kind, without which MLflow opens its pages for language models, and a note."""
    return {"mlflow.experimentKind": "custom_model_development", "mlflow.note.content": NOTE.format(grid=grid)}


def run_name(run: Run) -> str:
    """The label of a run; a second attempt ends in `a2`."""
    return (run.label or run.trial) + (f" a{run.attempt}" if run.attempt > 1 else "")


def parameters(run: Run) -> dict[str, str]:
    """Settings and parameters of a run, its device, workload, data, framework, repeat, seed; JSON, except texts."""
    leaves = run.cell.leaves
    values = {name: value for name, value in leaves.items() if name.startswith(("settings.", PARAM))}
    values = {name: value for name, value in values.items() if value is not False and value not in (None, [])}
    values |= {column.name: leaves.get(column.leaf) for column in Run.of_cell if column.name in NAMED}
    values |= {name: getattr(run, name) for name in ("device", "repeat", "seed")}
    texts = ((name, value if isinstance(value, str) else json.dumps(value)) for name, value in values.items())
    return {_name(name): text[:MAX_PARAMETER] for name, text in texts if text != "null"}


NAMED = ("replicas", "workload", "data", "framework", "framework_version")
"""Columns of a cell that are parameters by their own names."""


def epoch_metrics(run: Run) -> Iterator[tuple[int, dict[str, float]]]:
    """Yield each epoch's number and metrics: time, rates, memory, what its loop reports; `EPOCH_TIME` comes last."""
    names = {column.name: column.mlflow for column in EPOCHS if column.mlflow}
    names |= {f"{unit}_per_s": f"throughput/{unit}_per_s" for unit in run.epochs.names("units")}
    of_epochs = epoch_columns(run)
    columns = {
        names.get(name, name): values
        for name, values in of_epochs.items()
        if "/" in name or (name in names and any(values))
    }
    columns[EPOCH_TIME] = columns.pop(EPOCH_TIME, of_epochs["epoch_s"])
    for place, number in enumerate(run.epochs.column("epoch")):
        values = ((name, values[place]) for name, values in columns.items())
        yield number, {_name(name): float(value) for name, value in values if value is not None}


def summary_metrics(run: Run) -> dict[str, float]:
    """The metrics of a run that has ended; those that are not known are left out."""
    metrics = {column.mlflow: column.value(run) for column in TRIALS if column.mlflow}
    rates = {_name(f"summary/{unit}_per_s"): rate for unit, rate in run.rates.items()}
    return {name: value for name, value in metrics.items() if value is not None} | rates


def tags(run: Run, grid: str) -> dict[str, str]:
    """The tags of a run, by which it is found."""
    texts: Mapping[str, Any] = {
        GRID: run.grid or grid,
        TRIAL: run.trial,
        ATTEMPT: run.attempt,
        RUN: run.run,
        STATUS: run.status or RUNNING,
        HOST: run.host_name,
        HARDWARE: run.cell.device.model or None,
        ERROR: run.error_text,
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
