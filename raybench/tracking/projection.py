"""What a grid looks like as an MLflow experiment, and one attempt as one run of it: names, parameters, metrics, tags,
status. It needs no MLflow."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any

from raybench.analysis import rules
from raybench.analysis.findings import NOTES, Finding, codes, findings
from raybench.analysis.results import Attempt, Epoch
from raybench.analysis.roofline import roofline
from raybench.identity import SMOKE, is_smoke, leaves, shown_name
from raybench.plan import short
from raybench.trial import events

TRIAL, ATTEMPT, STATUS, GRID = "raybench.trial_id", "raybench.attempt", "raybench.status", "raybench.grid"
SUMMARY, FINDINGS, DESCRIPTION = "raybench.summary", "raybench.findings", "mlflow.note.content"
PROFILE, HOST, TARGET = "raybench.device", "raybench.host", "raybench.target"
SMOKE_RUN = "raybench.smoke"
BOUND_BY, DECAY_PROOF = "raybench.bound_by", "raybench.decay_proof"
RESUMED = "raybench.resumed_after"

ATTEMPT_ID = "raybench.attempt_id"
"""Which attempt a run is of (`attempt_id`): two machines of one model have trials of the same identity."""

EXECUTION, DRIVER, HEARTBEAT = "raybench.execution", "raybench.driver", "raybench.heartbeat"
"""Of a trial's run, the execution it belongs to; of an execution's, the process that drives it and its last sign of
life, UTC."""

CLOSED_BY = "raybench.closed_by"
"""A run that another driver has ended, since its own had gone; its own may still go on with it."""

EPOCH_TIME = "time/epoch_s"
"""Every epoch that is in MLflow has this metric."""

THROUGHPUT, MEMORY = "throughput/examples_per_s", "memory/peak_bytes"
SECTIONS = "sections/"
"""How the names of metrics begin that are seconds of an epoch in one section of its steps."""

EFFECTIVE = "grid.json"
"""What an execution leaves of its grid beside the file: every setting as it held."""

RUNNING = "running"
PARAMETER_LENGTH, TAG_LENGTH = 6000, 8000
NAME_LENGTH = 250
DIGEST_LENGTH = 36

NOTE = """Training runs of the raybench grid {grid}: one run for each attempt at a trial, \
and one run “grid {grid}” for each execution of the grid.

Each epoch (step = epoch, from 1):
- `time/epoch_s`: seconds of the epoch = compile + train + waiting for input; `time/train_s`, `time/compile_s`: two of \
its parts; `time/evaluate_s`: the evaluation after it, which is not in it
- `throughput/examples_per_s`: training examples ÷ `time/epoch_s`
- `train/*`, `val/*`: loss and accuracy (a fraction) on the training and the validation data
- `memory/peak_bytes`: the most memory of the device, or of the process where the device is the CPU
- `sections/*_s`, where the grid asks for `sections`: seconds of the epoch in each section of its steps. The device \
was waited for between them, which takes time: such runs have no `summary/*_s`

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
nothing is wrong); the tag `raybench.decay_proof` says it in words
- `roofline/*`: the work of one example in a step of training (`train_flops_per_example`, \
`train_bytes_per_example`), what steady epochs achieve of it a second, that beside what probes of the device reach \
(`compute_share`, `memory_share`), and the part of the time that waits for input (`input_share`); the tag \
`raybench.bound_by` says what held the run up, `overhead` that it was not the device
- the tag `raybench.findings` names what there is to doubt of a run; the run's description says it, with remedies, and \
`comparison.json` of the run “grid {grid}” has what only shows beside other runs, too
"""
"""The description of an experiment, in Markdown; its page shows the first paragraph until a person unfolds it."""

SMOKE_NOTE = """**Smoke runs**: the grid {grid}, cut to a few steps on a CPU to see that it runs; no run of it \
says how fast or how well anything learns. The parameters `smoke.*` of a run say what it stands for.

"""

VIEW = "raybench"
VIEW_NAME = "Times and accuracy"
VIEW_PARAMETERS = ("device.kind", "settings.batch_size", "settings.weight_decay")
VIEW_METRICS = ("summary/steady_epoch_s", "summary/best_val_accuracy", "summary/total_s")

FINISHED = events.RESULTS
"""Ends that MLflow shows as FINISHED: whatever is a result."""


@dataclass(frozen=True)
class Summary:
    """What one execution of a grid comes to, as a run of its own.

    Attributes:
        execution: names the execution; the same one is written once.
        files: from a file's name to its text: the grid file, the plan, the comparison.
        counts: from a status to how many trials ended so.
        started, ended: when, UTC, as in the journal.
    """

    execution: str
    files: Mapping[str, str]
    counts: Mapping[str, int]
    started: str | None = None
    ended: str | None = None


def experiment_tags(grid: str, now: int) -> dict[str, str]:
    """What makes MLflow's pages fit a grid: a description, training runs as what to open on, and a saved view.

    The table of runs shows no parameters and no metrics unless it is told to, which the view does: fastest first, what
    most grids vary, and what came of it. It is in the list of views, and opens with `?viewStateShareKey=raybench`.

    Args:
        grid: the grid's name.
        now: milliseconds since 1970, when the view is made.
    """
    names = {f"params.`{name}`": name for name in VIEW_PARAMETERS} | {
        f"metrics.`{name}`": name for name in VIEW_METRICS
    }
    # Pixels for whole names: by default what tells the runs of a grid apart is cut off.
    widths = {"attributes.`Run Name`": 270, "runDateAndNestInfo": 130}
    widths |= {column: 12 + 7 * len(name) for column, name in names.items()}
    state = {
        "orderByKey": f"metrics.`{VIEW_METRICS[0]}`",
        "orderByAsc": True,
        "selectedColumns": list(names),
        "columnOrder": list(widths),
        "columnWidths": widths,
    }
    view = {"name": VIEW_NAME, "createdAt": now, "updatedAt": now, "state": json.dumps(state)}
    smoke = SMOKE_NOTE.format(grid=grid.removesuffix(SMOKE)) if is_smoke(grid) else ""
    return smoke_tags(grid) | {
        DESCRIPTION: smoke + NOTE.format(grid=grid),
        "mlflow.experimentKind": "custom_model_development",
        f"mlflow.sharedViewState.{VIEW}": json.dumps(view),
    }


def smoke_tags(grid: str) -> dict[str, str]:
    """What marks the experiment and every run of a grid that was cut to see that it runs."""
    return {SMOKE_RUN: "true"} if is_smoke(grid) else {}


def run_name(attempt: Attempt) -> str:
    """`katnoria_cnn cpu torch b256 wd5e-4 r0`, or the label the driver gave it; `a2` behind it is a second attempt."""
    again = f" a{attempt.attempt}" if attempt.attempt > 1 else ""
    if attempt.label or not attempt.cell:
        return (attempt.label or attempt.trial) + again
    cell = dict(leaves(attempt.cell))
    parts = [
        shown_name(attempt.cell),
        attempt.profile or cell.get("device.kind"),
        cell.get("framework"),
        f"b{cell.get('settings.batch_size')}",
        f"wd{short(cell.get('settings.weight_decay'))}",
        f"r{attempt.repeat}",
    ]
    return " ".join(str(part) for part in parts if part) + again


def attempt_id(attempt: Attempt) -> str:
    """What tells an attempt from every other in the world: 16 hex digits of its trial, its number, when it was first
    heard of, and the process that ran it. A journal gives the same one each time, wherever it is read."""
    if attempt.known_as:
        return attempt.known_as
    process = [attempt.host.get(name) for name in ("name", "boot", "pid")]
    told = json.dumps([*attempt.key, _first_heard_of(attempt), *process], default=str)
    return hashlib.sha256(told.encode()).hexdigest()[:16]


def is_told_apart(attempt: Attempt) -> bool:
    """Whether enough is known of an attempt for its `attempt_id` to stay.

    Of one that was killed before it had started there is its end alone, and what was audited may be told before that.
    """
    return attempt.status is not None or _first_heard_of(attempt) is not None


def _first_heard_of(attempt: Attempt) -> str | None:
    return attempt.started or (attempt.epochs[0].t if attempt.epochs else attempt.ended)


def parameters(attempt: Attempt) -> dict[str, str]:
    """Every leaf of the cell by its dotted name, the repeat, and the trial's own seed; all but texts as JSON."""
    told: dict[str, Any] = {**dict(leaves(attempt.cell)), "repeat": attempt.repeat}
    if attempt.seed is not None:
        told["seed"] = attempt.seed
    texts = {name: value if isinstance(value, str) else json.dumps(value) for name, value in told.items()}
    return {_name(name): text[:PARAMETER_LENGTH] for name, text in texts.items()}


def epoch_metrics(epoch: Epoch) -> dict[str, float]:
    """An epoch's times in seconds, its throughput, its metrics, the device's peak memory; `EPOCH_TIME` comes last."""
    seconds = rules.epoch_seconds(epoch)
    found = {f"time/{name}_s": epoch.ledger.get(name, 0.0) for name in ("train", "evaluate", "compile")}
    if seconds > 0:
        found[THROUGHPUT] = epoch.examples / seconds
    found |= {f"{SECTIONS}{name}_s": took for name, took in epoch.sections.items()}
    found |= {_name(name): value for name, value in epoch.metrics.items()}
    if epoch.memory_peak_bytes is not None:
        found[MEMORY] = float(epoch.memory_peak_bytes)
    return found | {EPOCH_TIME: seconds}


def summary_metrics(attempt: Attempt) -> dict[str, float]:
    """What an ended attempt comes to; what it did not live to see is left out."""
    found = {
        "summary/steady_epoch_s": rules.steady(attempt),
        "summary/total_s": rules.total(attempt),
        "summary/best_val_accuracy": attempt.best("val/accuracy"),
        "summary/time_to_target_s": rules.time_to_target(attempt, attempt.target) if attempt.target else None,
        "summary/decay_factor": factor if isinstance(factor := attempt.decay_proof.get("factor"), float) else None,
    }
    if attempt.status == events.OOM and attempt.error:
        sizes = {name: attempt.error.get(f"{name}_bytes") for name in ("asked", "peak", "limit")}
        found |= {f"oom/{name}_bytes": float(size) for name, size in sizes.items() if isinstance(size, int)}
    return {name: value for name, value in found.items() if value is not None} | roofline_metrics(attempt)


def roofline_metrics(attempt: Attempt) -> dict[str, float]:
    """What an attempt asked of its device and what it got; nothing where that is not known."""
    found = roofline(attempt)
    if found is None:
        return {}
    return {
        "roofline/train_flops_per_example": found.train_flops,
        "roofline/train_bytes_per_example": found.train_bytes,
        "roofline/flops_per_s": found.flops_per_s,
        "roofline/bytes_per_s": found.bytes_per_s,
        "roofline/compute_share": found.compute,
        "roofline/memory_share": found.memory,
        "roofline/input_share": found.input,
    } | {f"roofline/probe_{name}_per_s": rate for name, rate in attempt.roofline["probes"].items()}


def tags(attempt: Attempt, grid: str) -> dict[str, str]:
    """What runs are found by."""
    cell = dict(leaves(attempt.cell))
    found = {
        GRID: attempt.grid or grid,
        "raybench.cell_id": attempt.cell_id,
        TRIAL: attempt.trial,
        ATTEMPT: str(attempt.attempt),
        ATTEMPT_ID: attempt_id(attempt),
        STATUS: attempt.status or RUNNING,
    }
    further = {"raybench.device_kind": cell.get("device.kind"), "raybench.device_name": cell.get("device.model")}
    further |= {PROFILE: attempt.profile, HOST: attempt.host.get("name")}
    further[DECAY_PROOF] = attempt.decay_proof.get("says")
    further["raybench.error_phase"] = (attempt.error or {}).get("phase")
    further["raybench.warnings"] = "; ".join(attempt.warnings)[:TAG_LENGTH] or None
    further[RESUMED] = ", ".join(map(str, attempt.gaps)) or None
    further[TARGET] = json.dumps(asdict(attempt.target)) if attempt.target else None
    if attempt.status is not None and (found_out := roofline(attempt)):
        further[BOUND_BY] = found_out.bound_by
    if attempt.status is not None and (doubts := findings(attempt)):
        further |= {FINDINGS: codes(attempt), DESCRIPTION: description(doubts)}
    return found | smoke_tags(grid) | {name: str(value) for name, value in further.items() if value is not None}


def description(doubts: Sequence[Finding]) -> str:
    """Findings in Markdown, as the run's page shows them."""
    return "\n".join(
        f"- {'note' if finding.code in NOTES else 'doubt'}: **{finding.name}**: {finding.says}; {finding.remedy}"
        for finding in doubts
    )


_DESCRIBED = re.compile(r"- (?:note|doubt): \*\*.*?\*\*: (.*); (.*)")


def described(codes: str | None, text: str | None) -> tuple[Finding, ...]:
    """The findings of a run as its tags have them (`description`), without numbers; none where they do not fit."""
    names, lines = (codes or "").split(","), list(map(_DESCRIBED.fullmatch, (text or "").splitlines()))
    if len(names) != len(lines):
        return ()
    return tuple(Finding(name, line[1], line[2], {}) for name, line in zip(names, lines, strict=True) if name and line)


def state(status: str) -> str:
    """MLflow's own status of a run that ended so: FINISHED for every result, KILLED, or FAILED."""
    if status in FINISHED:
        return "FINISHED"
    return "KILLED" if status == events.KILLED else "FAILED"


def data_set(attempt: Attempt) -> tuple[str, str] | None:
    """Name and digest of what it trained on; None where its start was lost."""
    cell = dict(leaves(attempt.cell))
    name = cell.get("data.name")
    return (str(name)[:NAME_LENGTH], str(cell.get("data.digest") or "unknown")[:DIGEST_LENGTH]) if name else None


def milliseconds(*times: str | None) -> int | None:
    """The first of these times of a journal that is one, in milliseconds since 1970; None where none is."""
    for told in times:
        try:
            return round(datetime.fromisoformat(told or "").timestamp() * 1000)
        except (ValueError, OverflowError):
            continue
    return None


def _name(name: str) -> str:
    """A name MLflow takes: what it does not allow becomes `_`, and what a path would make of it is gone."""
    parts = re.sub(r"[^\w.\- /]", "_", name).split("/")
    return "/".join(part for part in parts if part not in ("", ".", ".."))[:NAME_LENGTH] or "_"
