"""A timed training run, from job to events."""

from __future__ import annotations

import math
import os
import platform
import time
import traceback
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from importlib import metadata
from pathlib import Path
from typing import Any

from raybench import datasets
from raybench.core import events, memory
from raybench.core.cell import COMMAND
from raybench.core.events import Event
from raybench.core.files import FULL
from raybench.core.job import Job, Recipe, StopRule
from raybench.core.ledger import NANO, Ledger
from raybench.core.rank import current_rank
from raybench.core.status import TrialStatus
from raybench.core.version import __version__
from raybench.datasets.splits import Data, hold_out
from raybench.devices import Assignment, Device, open_device
from raybench.devices.host import boot_id, machine_id
from raybench.devices.program import open_for_program
from raybench.engines import FRAMEWORKS, EngineParts, open_engine
from raybench.training.epoch_record import Diverged
from raybench.trial.checkpoint import Checkpoints
from raybench.trial.evaluation import evaluate
from raybench.trial.phase import BUILD, DATA, EVALUATE, TRAIN, Phase
from raybench.workloads import WorkloadInfo, load_workload
from raybench.workloads.base import Workload
from raybench.workloads.own_files import record_late_modules

NOT_KEPT = "memory_limit was ignored: it needs Linux and a separate trial process"


APPLIED = ("fp32", "tf32")
"""Precisions that are set for a loop of the user; any other is its own affair."""


def run(job: Job, ledger: Ledger | None = None, template_import: float = 0.0) -> Iterator[Event]:
    """Run one attempt and yield its events: `trial_started`, `epoch_ended`, `trial_ended`.

    If it resumes from a checkpoint, `trial_resumed` and the earlier epochs come first.

    Any error becomes the status of `trial_ended`; only the death of the process itself is left for its supervisor to
    report.

    Args:
        job: the attempt.
        ledger: the process's ledger, started when the process was; None: a new one.
        template_import: seconds that loading the framework took before this process began.
    """
    ledger = ledger or Ledger()
    device: Device | None = None
    warnings = [*job.warnings, *([] if memory.limit_applies(job.memory_limit) else [NOT_KEPT])]
    info = WorkloadInfo.from_json(job.workload)
    phase = Phase(Path(job.folder))
    checkpoints = Checkpoints(job, warnings)
    status = TrialStatus.COMPLETED
    error: dict[str, Any] | None = None
    try:
        device = open_assigned(job)
        yield events.trial_started(job.trial, job.attempt, **opening(job, device))
        recipe = Recipe.from_cell(job.cell)
        rule = StopRule(job.target) if job.target and recipe.stop_at_target else None
        workload = workload_of(job)
        engine = open_engine(job.cell.framework, EngineParts(recipe, workload, device, ledger, job.seed))
        phase.enter(DATA)
        with ledger.section("data"):
            data = load_data(job, workload)
            engine.load(data)
        phase.enter(BUILD)
        with ledger.section("build"):
            engine.build()
        precision = engine.precision()
        resumed = checkpoints.resume(engine, ledger)
        yield from resumed
        for epoch in range(max(1, len(resumed)), math.ceil(recipe.epochs) + 1):
            ledger.begin_epoch()
            phase.enter(TRAIN)
            training = engine.train_epoch(epoch)
            settle_s = _seconds_of(engine.settle)
            phase.enter(EVALUATE)
            val_metrics, shapes = evaluate(engine, device, ledger, warnings)
            metrics = _named("train", training.metrics) | _named("val", val_metrics)
            sections, cpu, by_device = ledger.epoch(), ledger.epoch_cpu(), ledger.epoch_device()
            event = events.epoch_ended(
                job.trial,
                job.attempt,
                epoch=epoch,
                steps=training.steps,
                examples=training.examples,
                ledger=sections,
                cpu=cpu,
                cpu_s=round(sum(cpu.values()), 6),
                settle_s={"train": settle_s},
                **({"device_s": by_device} if by_device else {}),
                **({"step_s": list(training.step_s)} if training.step_s else {}),
                metrics={name: value for name, value in metrics.items() if math.isfinite(value)},
                **({"memory_peak_bytes": device.peak_memory()} if training.peak_known else {}),
                recompiles=training.new_shapes + shapes,
                precision=precision,
            )
            yield event
            if not math.isfinite(metrics["train/loss"]):
                raise Diverged(f"the loss is {metrics['train/loss']} in epoch {epoch}")
            if rule and rule.ends_with(metrics):
                break
            if epoch < recipe.epochs:
                checkpoints.after(event, engine, ledger)
        if info.file:
            warnings.extend(record_late_modules(job))
    except (Exception, SystemExit) as exc:  # not KeyboardInterrupt, which in the driver's process is the user's
        status, error = failure(exc, device, phase, job)
    if status in (TrialStatus.COMPLETED, TrialStatus.DIVERGED):
        checkpoints.remove()
    sections, wall_s = ledger.close()
    cpu = ledger.cpu()
    yield ended(job, status, error, warnings, sections, cpu, wall_s, template_import)


def ended(
    job: Job,
    status: TrialStatus,
    error: Mapping[str, Any] | None,
    warnings: Sequence[str],
    sections: Mapping[str, float],
    cpu: Mapping[str, float],
    wall_s: float,
    template_import: float,
) -> Event:
    """The last event of a trial."""
    return events.trial_ended(
        job.trial,
        job.attempt,
        status,
        ledger=sections,
        **({"cpu": cpu} if cpu else {}),
        wall=wall_s,
        template_import=round(template_import, 6),
        warnings=warnings,
        error=error,
    )


def failure(exc: BaseException, device: Device | None, phase: Phase, job: Job) -> tuple[TrialStatus, dict[str, Any]]:
    """The status of a trial that an exception ended, and its record."""
    if isinstance(exc, Diverged):
        return TrialStatus.DIVERGED, {"type": "Diverged", "message": str(exc)}
    memory.remove_limit()
    is_oom = _is_oom(exc, device)
    error = describe_error(exc, phase.now, job)
    status = TrialStatus.OOM if is_oom else TrialStatus.LOST if error.get("disk_full") else TrialStatus.FAILED
    if is_oom:
        peak = device.peak_memory() if device else None
        error = error | memory.describe(message_of(exc), peak, job.memory_limit)
    return status, error


def _seconds_of(work: Callable[[], object]) -> float:
    """Seconds that a call takes, outside of all ledger sections."""
    start_ns = time.perf_counter_ns()
    work()
    return round((time.perf_counter_ns() - start_ns) * NANO, 9)


def _is_oom(exc: BaseException, device: Device | None) -> bool:
    try:
        return device.is_oom(exc) if device else isinstance(exc, MemoryError)
    except Exception:  # reading the exception's message failed
        return False


def message_of(exc: BaseException) -> str:
    """The message of an exception as encodable text.

    If `str()` of it fails, a note that says so.
    """
    try:
        text = f"the code called sys.exit({exc.code!r})" if isinstance(exc, SystemExit) else str(exc)
    except BaseException as error:
        text = f"(no message: str() of this exception raised {type(error).__name__})"
    return _encodable(text)


def _encodable(text: str) -> str:
    """Escape lone surrogates, which cannot be written to a file."""
    return text.encode("utf-8", errors="backslashreplace").decode("utf-8")


def describe_error(exc: BaseException, phase: str, job: Job) -> dict[str, Any]:
    """A record of an exception.

    It has the type, message, phase, location and whole traceback, and `disk_full` if the disk is full.

    The location is the innermost line in the user's folder; if there is none in the traceback, the innermost of all.
    """
    frames = [(frame.filename, frame.lineno) for frame in traceback.extract_tb(exc.__traceback__)]
    if folder := job.workload["folder"]:
        root = f"{job.code_folder}{os.sep}"
        own = [(file.removeprefix(root), line) for file, line in frames if file.startswith(root)]
        frames = [(str(Path(folder, name)), line) for name, line in own if "site-packages" not in name] or frames
    location = f"{frames[-1][0]}:{frames[-1][1]}" if frames else None
    return {
        "type": type(exc).__name__,
        "message": message_of(exc),
        "phase": phase,
        "where": location,
        "traceback": _encodable("".join(traceback.format_exception(exc))),
        **({"disk_full": True} if isinstance(exc, OSError) and exc.errno in FULL else {}),
    }


def open_assigned(job: Job) -> Device:
    """Open the assigned device, and hide all others from this process.

    Raises:
        RuntimeError: the hardware is not the planned one.
    """
    planned, rank = job.cell.device, current_rank()
    devices = (planned.devices or 1) // rank.count
    threads = max(1, planned.threads // rank.count)
    own_loop = job.cell.has_own_loop
    assignment = Assignment(rank.share(job.cores), rank.share(job.visible), threads, devices, own_loop)
    if job.cell.workload.form == COMMAND and not job.check:
        device: Device = open_for_program(planned.kind, replace(assignment, threads=max(1, threads // devices)))
    else:
        device = open_device(planned.kind, job.cell.framework, assignment)
    device.hide_others()
    precision = job.cell.settings.precision
    device.open("" if own_loop and precision not in APPLIED else precision)
    device.hardware = device.describe()
    if device.hardware.model != planned.model:
        raise RuntimeError(f"planned for {planned.model!r}, but this is {device.hardware.model!r}")
    return device


def opening(job: Job, device: Device) -> dict[str, Any]:
    """What the first event of a trial says of its process."""
    framework = FRAMEWORKS[job.cell.framework]
    libraries = [framework.package, *framework.other_packages, *_distributions(job.cell.engine.libraries or ())]
    return {
        "run": Path(job.folder).name,
        "seed": job.seed,
        "repeat": job.repeat,
        "cell": job.cell.to_json(),
        **job.labels,
        "host": {
            "name": platform.node(),
            "machine_id": machine_id(),
            "boot": boot_id(),
            "kernel": platform.release(),
            "pid": os.getpid(),
        },
        "versions": {
            "python": platform.python_version(),
            **{name: metadata.version(name) for name in libraries},
            "raybench": __version__,
            **job.versions,
        },
        "hardware": {"memory_bytes": device.hardware.memory_bytes, "driver": device.hardware.driver},
        "runtime_conditions": {
            **device.runtime_conditions(),
            **_of_ranks(job, device),
            "exclusive": job.exclusive,
        },
    }


def _distributions(modules: Iterable[str]) -> list[str]:
    """The distributions of modules."""
    by_module = metadata.packages_distributions() if modules else {}
    return [by_module[name][0] for name in modules if name in by_module]


def _of_ranks(job: Job, device: Device) -> dict[str, Any]:
    """Runtime conditions of all ranks together, if there are several.

    The device reports only those of this rank.
    """
    is_command = job.cell.workload.form == COMMAND
    count = job.cell.device.devices or 1 if is_command else current_rank().count
    if count == 1:
        return {}
    threads = device.runtime_conditions()["threads"]
    conditions = {"threads": count * threads, "threads_per_rank": threads, "ranks": count, "visible": job.visible}
    return conditions | ({"cores": job.cores} if job.cores else {})


def _named(prefix: str, values: Mapping[str, float]) -> dict[str, float]:
    return {f"{prefix}/{name}": float(value) for name, value in values.items()}


def workload_of(job: Job) -> Workload:
    """Load the workload of a job, with the model options of its cell; a user's file is run here."""
    workload: Workload = load_workload(WorkloadInfo.from_json(job.workload), job.code_folder)
    return workload.with_options(job.cell.settings.model)


def load_data(job: Job, workload: Workload) -> Data:
    """Load both splits of a workload's data for a job.

    They are prepared, held out and reduced as the job specifies.

    Raises:
        DataError: a file is missing or damaged.
        TypeError: a function of the workload returns something else than `Data`.
        ValueError: there are fewer examples than the job asks for.
    """
    root = Path(job.data_root)
    if workload.data:
        data = workload.data(root)
    else:  # the plan may have put a synthetic data set in the place of the workload's own
        data = datasets.get(str(WorkloadInfo.from_json(job.workload).dataset)).load(root)
    data = _checked(workload.prepare_data(_checked(data, "data")), "prepare")
    if workload.held_out:
        data = hold_out(data.train, workload.held_out)
    counts = vars(job.cell.data.examples)
    return Data(_cut(data.train, counts["train"], "training"), _cut(data.val, counts["val"], "validation"))


def _checked(data: Any, function: str) -> Data:
    if not isinstance(data, Data):
        message = f"the workload's function {function} returns a {type(data).__name__}, not a raybench.Data"
        raise TypeError(f"{message}: return Data(train=Split(inputs, targets), val=Split(inputs, targets))")
    return data


def _cut(split: Any, count: int | None, role: str) -> Any:
    if count is None:
        return split
    if count > len(split):
        raise ValueError(f"{count} {role} examples are not available; there are {len(split)}")
    return split.first(count)
