"""Names and values of a run in MLflow: parameters, metrics, tags and status; does not need MLflow."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from raybench.core.labels import configuration_label
from raybench.core.settings import PARAM
from raybench.core.status import TrialStatus
from raybench.results.epoch_table import EPOCHS, epoch_columns
from raybench.results.folder import REPORT
from raybench.results.run_table import TRIALS, Run, moment

if TYPE_CHECKING:
    from raybench.analysis.answer import Answer

GRID, TRIAL, ATTEMPT, RUN, STATUS = (
    "raybench.grid",
    "raybench.trial",
    "raybench.attempt",
    "raybench.run",
    "raybench.status",
)
HOST, HARDWARE, ERROR = "raybench.host", "raybench.hardware", "raybench.error"
EXECUTION = "raybench.execution"  # tag of a run that has what one execution of a grid was asked for, and its report
CONFIGURATION = "configuration"  # tag that all repeats of a configuration share
KIND, TRAINING = "mlflow.experimentKind", "custom_model_development"
NOTE = "mlflow.note.content"  # MLflow's tag of a description
EPOCH_TIME = "time/epoch_s"  # a metric of every epoch

RUNNING = "running"
MAX_PARAMETER, MAX_TAG, MAX_NAME = 6000, 5000, 250  # maximum characters in MLflow

EXPERIMENT_NOTE = """Runs of the raybench grid {grid}: one for each attempt at a trial. **Group by `configuration`** \
shows the means of its repeats; the parameters `axes.…` are what varies. The newest run “grid {grid}” has the answer \
with its intervals, and the report.

The artifact of a run is the file of its attempt, which `raybench.load` and `raybench report` read.

Each epoch (step = epoch, from 1): `time/epoch_s` is training without evaluation; `throughput/examples_per_s` is \
examples per second of training without compilation, and so for other units; `memory/peak_bytes` is of the device.

At the end: `summary/steady_epoch_s` is the median epoch after the warm-up, `summary/examples_per_s` the rate of these \
epochs, and so for other units; `summary/total_s` is the whole process; `summary/mfu` is the share of the measured peak.
"""


def experiment_tags(grid: str) -> dict[str, str]:
    """Tags of a grid's experiment: its kind, without which MLflow opens its pages for language models, and a note."""
    return {KIND: TRAINING, NOTE: EXPERIMENT_NOTE.format(grid=grid)}


def run_name(run: Run, axes: Mapping[str, Any]) -> str:
    """The label of a run, without axes that do not vary; further attempts are numbered."""
    name = configuration_label(axes, axes) + _repeat(run) if axes else run.label or run.trial
    return name + (f", attempt {run.attempt}" if run.attempt > 1 else "")


def configuration_names(run: Run, axes: Mapping[str, Any]) -> Iterator[str]:
    """Yield the name of a run's configuration, and those to take if a different configuration has that one."""
    name = configuration_label(axes, axes) or (run.label or run.cell_id).removesuffix(_repeat(run))
    yield name
    if run.cell.device.model:
        yield f"{name} ({run.cell.device.model})"
    yield f"{name} ({run.cell_id})"


def _repeat(run: Run) -> str:
    return f", repeat {run.repeat + 1}"


@dataclass(frozen=True)
class Result:
    """What the run of a command shows: its answer, also as Markdown, and the page of its report."""

    answer: Answer
    text: str
    page: str

    @property
    def note(self) -> str:
        """The text, as far as MLflow keeps it."""
        rest = f"\n\nThe rest is in {REPORT}, under Artifacts."
        whole_lines = self.text[: MAX_TAG - len(rest)].rpartition("\n")[0]
        return self.text if len(self.text) <= MAX_TAG else whole_lines + rest

    @property
    def metrics(self) -> dict[str, float]:
        """The speed of each configuration relative to its reference, and the ends of its 95% interval."""
        values: dict[str, float] = {}
        for row in self.answer.configurations:
            if row.ratio and row.reference is not None:
                name = _name(f"speed/{row.label.replace(', ', ' ')}")
                ends = {name: row.ratio.value, f"{name} low": row.ratio.low, f"{name} high": row.ratio.high}
                values |= {name: value for name, value in ends.items() if value is not None}
        return values


def parameters(run: Run, axes: Mapping[str, Any]) -> dict[str, str]:
    """Parameters of a run: its values on the axes that vary, all settings, and what it ran on; JSON, except texts."""
    leaves = run.cell.leaves
    values = {name: value for name, value in leaves.items() if name.startswith(("settings.", PARAM))}
    values = {name: value for name, value in values.items() if value is not False and value not in (None, [])}
    values |= {column.name: leaves.get(column.leaf) for column in Run.of_cell if column.name in NAMED}
    values |= {"device": run.device, "repeat": run.repeat + 1, "seed": run.seed}
    values |= {f"axes.{name}": value for name, value in axes.items()}
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
    return next((round(seconds * 1000) for seconds in map(moment, times) if seconds is not None), None)


def _name(name: str) -> str:
    """A valid MLflow name: invalid characters become `_`, and path components such as `..` are removed."""
    parts = re.sub(r"[^\w.\- /]", "_", name).split("/")
    return "/".join(part for part in parts if part not in ("", ".", ".."))[:MAX_NAME] or "_"
