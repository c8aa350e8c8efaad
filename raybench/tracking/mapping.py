"""Mapping of a grid to an MLflow experiment and of attempts to runs.

It covers names, parameters, metrics, tags and status, and does not need MLflow.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Sequence
from dataclasses import asdict
from datetime import datetime
from typing import Any

from raybench.analysis.diagnostics.diagnose import Finding, finding_codes, findings
from raybench.analysis.diagnostics.finding import only_a_note
from raybench.checks.roofline.judge import roofline
from raybench.core.identity import COMPARE, INLINE, SMOKE, is_inline, is_smoke
from raybench.core.status import TrialStatus
from raybench.core.text import format_value
from raybench.results import energy, timing
from raybench.results.attempt import Attempt
from raybench.results.epoch import QUANTITIES, Epoch

TRIAL, ATTEMPT, STATUS, GRID = "raybench.trial_id", "raybench.attempt", "raybench.status", "raybench.grid"
SUMMARY, FINDINGS, DESCRIPTION = "raybench.summary", "raybench.findings", "mlflow.note.content"
PROFILE, HOST, TARGET = "raybench.device", "raybench.host", "raybench.target"
SMOKE_RUN = "raybench.smoke"
BOTTLENECK, DECAY_CHECK = "raybench.bottleneck", "raybench.decay_check"
RESUMED = "raybench.resumed_after"

ATTEMPT_ID = "raybench.attempt_id"
"""Tag with the id of a run's attempt (`attempt_id`). Two results folders of one grid have trials of the same name but
separate runs."""

EPOCH_TIME = "time/epoch_s"
"""A metric of every epoch that is in MLflow."""

THROUGHPUT = "throughput/examples_per_s"
METRICS = tuple(quantity for quantity in QUANTITIES if quantity.metric)
"""The measured quantities of an epoch that are metrics of every run."""
TIMES = tuple(quantity.key for quantity in METRICS if quantity.field == "ledger")
"""Ledger sections of an epoch that are metrics, as `time/NAME_s`."""
MEMORY = next(quantity.metric for quantity in METRICS if quantity.field == "memory_peak_bytes")

EFFECTIVE, PLAN = "grid.json", "plan.json"
"""Files of an execution in addition to the grid file: the effective settings, and the requested cells."""

JOURNAL, JOURNAL_BYTES = "raybench.journal", "raybench.journal_bytes"
"""Tags of an execution's run: the id of the journal whose parts it stores, and the end of the last part."""

REQUESTED = "raybench.requested"
"""Tag: whether the latest execution of the grid requests the run's trial, "true" or "false"."""

RUNNING = "running"

DEVICE_NAME = "device.name"
"""Parameter: the name of the device in the grid file."""

PARAMETER_LENGTH, TAG_LENGTH = 6000, 8000
NAME_LENGTH = 250
DIGEST_LENGTH = 36

NOTE = """Training runs of the raybench grid {grid}: one run for each attempt at a trial, \
and one run “grid {grid}” for each execution of the grid, whose artifacts are the grid file, the plan, the report and \
parts of the journal (`journal/`), which `raybench.load` and `raybench report` read.

Each epoch (step = epoch, from 1):
- `time/epoch_s`: seconds of the epoch = compile + train + waiting for input; evaluation is not in it
- `throughput/examples_per_s`: training examples ÷ `time/epoch_s`
- `train/*`, `val/*`: loss and accuracy (a fraction) on the training and the validation data
{metrics}

Each sample, about one a second (step = its number), of what went on around the trial; `samples.jsonl` has all of it:
- `system/own_cpu`, `system/other_cpu`: how many of its cores its own processes kept busy, and how many others did
- `system/mhz`, `system/rss_bytes`: the frequency of its cores, the memory of its processes
- `system/gpu_*`: clock, power and temperature of each of its GPUs

Each run that ended:
- `summary/steady_epoch_s`: the headline, the median epoch (train + waiting for input) after the warm-up epochs
- `summary/total_s`: seconds from nothing to the end, with the loading of the framework
- `summary/best_val_accuracy`, and `summary/time_to_target_s` where the grid has a target
- `oom/asked_bytes`, `oom/peak_bytes`, `oom/limit_bytes`: where memory ran out, what was asked for then, the most that \
was held, and the limit on the process; the tag `raybench.error_phase` says what the trial was doing
- `summary/decay_factor`: the multiple of the declared weight decay that acts, measured before the trials (1 where \
nothing is wrong); the tag `raybench.decay_check` says it in words
- `roofline/*`: the work of one example in a step of training (`train_flops_per_example`, \
`train_bytes_per_example`), what steady epochs achieve of it a second, that beside what probes of the device reach \
(`compute_share`, `memory_share`), and the part of the time that waits for input (`input_share`); the tag \
`raybench.bottleneck` says what held the run up, `overhead` that it was not the device
- `energy/*`, where the machine has counters: joules of the device in a steady epoch (`steady_epoch_j`), per training \
example (`example_j`), to the target (`to_target_j`) and in all epochs (`epochs_j`), with evaluation, and those of an \
accelerator's host in a steady epoch (`host_epoch_j`); the tag `raybench.energy_missing` says why one was not measured
- the tag `raybench.requested` is `false` if the grid, as it was run last, no longer asks for the trial
- the tag `raybench.findings` names the findings of a run; the run's description says it, with remedies, and \
`comparison.json` of the run “grid {grid}” has what only shows beside other runs, too
"""
"""The description of an experiment, in Markdown; MLflow shows only the first paragraph until the user expands it."""

SMOKE_NOTE = """**Smoke runs**: the grid {grid}, cut to a few steps on a CPU to see that it runs; no run of it \
says how fast or how well anything learns. The parameters `smoke.*` of a run say what it stands for.

"""

INLINE_NOTE = """**Trials of `--inline`**: they ran in the command's own process, so their times are not results of \
the grid {grid}.

"""

COMPARE_NOTE = """**Comparison** of two versions of the grid {grid}, whose trials alternate: the parameter \
`compared.version` of a run is `base` or `new`.

"""

VIEW = "raybench"
SAVED_VIEW = f"mlflow.sharedViewState.{VIEW}"
VIEW_NAME = "Times and accuracy"
VIEW_PARAMETERS = (DEVICE_NAME, "settings.batch_size", "settings.weight_decay")
VIEW_METRICS = ("summary/steady_epoch_s", "summary/best_val_accuracy", "summary/total_s")


def experiment_tags(grid: str, now: int) -> dict[str, str]:
    """Tags that configure MLflow's pages for a grid: description, view of training runs, saved view of the table.

    By default the table of runs shows no parameters or metrics. The saved view shows the parameters that most grids
    vary and the results, fastest first. It is in the list of views, and opens with `?viewStateShareKey=raybench`.

    Args:
        grid: the grid's name.
        now: creation time of the view, in milliseconds since 1970.
    """
    names = {f"params.`{name}`": name for name in VIEW_PARAMETERS} | {
        f"metrics.`{name}`": name for name in VIEW_METRICS
    }
    # Pixels, wide enough for whole names: by default the part that distinguishes a grid's runs is cut off.
    widths = {"attributes.`Run Name`": 270, "runDateAndNestInfo": 130}
    widths |= {column: 32 + 7 * len(name) for column, name in names.items()}
    state = {
        "orderByKey": f"metrics.`{VIEW_METRICS[0]}`",
        "orderByAsc": True,
        "selectedColumns": list(names),
        "columnOrder": list(widths),
        "columnWidths": widths,
    }
    view = {"name": VIEW_NAME, "createdAt": now, "updatedAt": now, "state": json.dumps(state)}
    full = grid.removesuffix(SMOKE).removesuffix(INLINE).removesuffix(COMPARE)
    notes = "".join(
        note.format(grid=full)
        for note, applies in (
            (SMOKE_NOTE, is_smoke(grid)),
            (INLINE_NOTE, is_inline(grid)),
            (COMPARE_NOTE, grid.endswith(COMPARE)),
        )
        if applies
    )
    return smoke_tags(grid) | {
        DESCRIPTION: notes + NOTE.format(grid=grid, metrics=_metric_lines()),
        "mlflow.experimentKind": "custom_model_development",
        SAVED_VIEW: json.dumps(view),
    }


def _metric_lines() -> str:
    """Descriptions of the metrics in `METRICS`, one per line."""
    return "\n".join(
        f"- `{quantity.metric}`{f' ({quantity.unit})' if quantity.unit else ''}: {quantity.meaning}"
        for quantity in METRICS
    )


def smoke_tags(grid: str) -> dict[str, str]:
    """Tags of the experiment and of every run of a smoke grid."""
    return {SMOKE_RUN: "true"} if is_smoke(grid) else {}


def run_name(attempt: Attempt) -> str:
    """Run name: the driver's label, or `katnoria_cnn cpu torch b256 wd5e-4 r0`.

    A second attempt ends in `a2`.
    """
    suffix = f" a{attempt.attempt}" if attempt.attempt > 1 else ""
    if attempt.label or not attempt.cell:
        return (attempt.label or attempt.trial) + suffix
    cell = attempt.cell.leaves()
    parts = [
        attempt.cell.shown_name,
        attempt.profile or cell.get("device.kind"),
        cell.get("framework"),
        *(
            f"{sign}{format_value(cell.get(f'settings.{name}'))}"
            for name, sign in (("batch_size", "b"), ("weight_decay", "wd"))
            if f"settings.{name}" in cell or not attempt.cell.has_own_loop
        ),
        f"r{attempt.repeat}",
    ]
    return " ".join(str(part) for part in parts if part) + suffix


def attempt_id(attempt: Attempt) -> str:
    """Globally unique id of an attempt: 16 hex digits.

    It is a digest of its trial and its run, and thus the same in every results folder to which it was exported. Without
    a recorded run it is a digest of its trial, its number, its first event's time and its process.
    """
    if attempt.run:
        return hashlib.sha256(json.dumps([attempt.trial, attempt.run]).encode()).hexdigest()[:16]
    process = [attempt.host.get(name) for name in ("name", "boot", "pid")]
    identity = json.dumps([*attempt.key, _first_time(attempt), *process], default=str)
    return hashlib.sha256(identity.encode()).hexdigest()[:16]


def is_identifiable(attempt: Attempt) -> bool:
    """Return whether an attempt's `attempt_id` is final.

    An attempt that was killed before its start event has only an end event, and perhaps an audit event before it.
    """
    return attempt.status is not None or _first_time(attempt) is not None


def _first_time(attempt: Attempt) -> str | None:
    return attempt.started or (attempt.epochs[0].t if attempt.epochs else attempt.ended)


def parameters(attempt: Attempt) -> dict[str, str]:
    """Every leaf of the cell by dotted name, device name, repeat and seed.

    All values are JSON except for texts.
    """
    values: dict[str, Any] = {**attempt.cell.leaves(), "repeat": attempt.repeat}
    if name := attempt.profile or values.get("device.kind"):
        values[DEVICE_NAME] = name
    if attempt.seed is not None:
        values["seed"] = attempt.seed
    texts = {name: value if isinstance(value, str) else json.dumps(value) for name, value in values.items()}
    return {_name(name): text[:PARAMETER_LENGTH] for name, text in texts.items()}


def epoch_metrics(epoch: Epoch) -> dict[str, float]:
    """An epoch's metrics, throughput and measured quantities; `EPOCH_TIME` comes last."""
    seconds = timing.epoch_seconds(epoch)
    metrics = {_name(name): value for name, value in epoch.metrics.items()}
    if seconds > 0:
        metrics[THROUGHPUT] = epoch.examples / seconds
    metrics |= {q.metric: float(value) for q in METRICS if (value := q.of(epoch)) is not None}
    return metrics | {EPOCH_TIME: seconds}


def summary_metrics(attempt: Attempt) -> dict[str, float]:
    """Summary metrics of an ended attempt; those that it did not reach are left out."""
    metrics = {
        "summary/steady_epoch_s": timing.steady(attempt),
        "summary/total_s": timing.total(attempt),
        "summary/best_val_accuracy": attempt.best("val/accuracy"),
        "summary/time_to_target_s": timing.time_to_target(attempt, attempt.target) if attempt.target else None,
        "summary/decay_factor": factor if isinstance(factor := attempt.decay_check.get("factor"), float) else None,
    }
    if attempt.status == TrialStatus.OOM and attempt.error:
        sizes = {name: attempt.error.get(f"{name}_bytes") for name in ("asked", "peak", "limit")}
        metrics |= {f"oom/{name}_bytes": float(size) for name, size in sizes.items() if isinstance(size, int)}
    metrics |= {
        "energy/steady_epoch_j": energy.steady(attempt),
        "energy/example_j": energy.per_example(attempt),
        "energy/to_target_j": energy.to_target(attempt),
        "energy/epochs_j": energy.total(attempt),
        "energy/host_epoch_j": energy.steady(attempt, energy.HOST),
    }
    return {name: value for name, value in metrics.items() if value is not None} | roofline_metrics(attempt)


def roofline_metrics(attempt: Attempt) -> dict[str, float]:
    """Roofline metrics of an attempt; empty if they are not known."""
    figures = roofline(attempt)
    if figures is None:
        return {}
    return {
        "roofline/train_flops_per_example": figures.train_flops,
        "roofline/train_bytes_per_example": figures.train_bytes,
        "roofline/flops_per_s": figures.flops_per_s,
        "roofline/bytes_per_s": figures.bytes_per_s,
        "roofline/compute_share": figures.compute,
        "roofline/memory_share": figures.memory,
        "roofline/input_share": figures.input,
    } | {f"roofline/probe_{name}_per_s": rate for name, rate in attempt.roofline["probes"].items()}


def tags(attempt: Attempt, grid: str) -> dict[str, str]:
    """Tags of a run, used to search for it."""
    cell = attempt.cell.leaves()
    required = {
        GRID: attempt.grid or grid,
        "raybench.cell_id": attempt.cell_id,
        TRIAL: attempt.trial,
        ATTEMPT: str(attempt.attempt),
        ATTEMPT_ID: attempt_id(attempt),
        STATUS: attempt.status or RUNNING,
        REQUESTED: "true",
    }
    optional = {"raybench.device_kind": cell.get("device.kind"), "raybench.device_name": cell.get("device.model")}
    optional |= {PROFILE: attempt.profile, HOST: attempt.host.get("name")}
    optional[DECAY_CHECK] = attempt.decay_check.get("says")
    optional["raybench.error_phase"] = (attempt.error or {}).get("phase")
    optional["raybench.warnings"] = "; ".join(attempt.warnings)[:TAG_LENGTH] or None
    optional["raybench.energy_missing"] = (energy.missing(attempt) or "")[:TAG_LENGTH] or None
    optional[RESUMED] = ", ".join(map(str, attempt.gaps)) or None
    optional[TARGET] = json.dumps(asdict(attempt.target)) if attempt.target else None
    if attempt.status is not None and (figures := roofline(attempt)):
        optional[BOTTLENECK] = figures.bottleneck
    if attempt.status is not None and (run_findings := findings(attempt)):
        optional |= {FINDINGS: finding_codes(attempt), DESCRIPTION: description(run_findings)}
    return required | smoke_tags(grid) | {name: str(value) for name, value in optional.items() if value is not None}


def description(run_findings: Sequence[Finding]) -> str:
    """Findings in Markdown, for the run's page."""
    heads = ["note" if only_a_note(finding.code) else "possible caution" for finding in run_findings]
    return "\n".join(
        f"- {head}: **{finding.name}**: {finding.says}; {finding.remedy}"
        for head, finding in zip(heads, run_findings, strict=True)
    )


def state(status: str) -> str:
    """MLflow's run status for a trial status; FAILED for an unknown one."""
    parsed = TrialStatus.parse(status)
    return parsed.mlflow_status if parsed else "FAILED"


def data_set(attempt: Attempt) -> tuple[str, str] | None:
    """Name and digest of its data set; None if its start event was lost."""
    cell = attempt.cell.leaves()
    name = cell.get("data.name")
    return (str(name)[:NAME_LENGTH], str(cell.get("data.digest") or "unknown")[:DIGEST_LENGTH]) if name else None


def read_json(text: str | None) -> Any:
    """The value of a JSON text; None if it is invalid."""
    try:
        return json.loads(text or "")
    except ValueError:
        return None


def requested_repeats(plan: Any) -> dict[str, int] | None:
    """The number of repeats of each requested cell by its id.

    None if the plan does not contain it.
    """
    try:
        return {str(cell["cell_id"]): int(cell["repeats"]) for cell in plan["wanted"]["cells"]}
    except (LookupError, TypeError, ValueError):
        return None


def milliseconds(*times: str | None) -> int | None:
    """The first valid journal time, in milliseconds since 1970; None if there is none."""
    for text in times:
        try:
            return round(datetime.fromisoformat(text or "").timestamp() * 1000)
        except (ValueError, OverflowError):
            continue
    return None


def _name(name: str) -> str:
    """A valid MLflow name: invalid characters become `_`, and path components such as `..` are removed."""
    parts = re.sub(r"[^\w.\- /]", "_", name).split("/")
    return "/".join(part for part in parts if part not in ("", ".", ".."))[:NAME_LENGTH] or "_"
