"""A training run, timed: a job in, events out."""

from __future__ import annotations

import math
import os
import platform
import time
import traceback
from collections.abc import Callable, Iterator, Mapping
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np

from raybench import datasets
from raybench.datasets.base import Data, Split, hold_out
from raybench.devices import Assignment, Device, open_device
from raybench.devices.host import boot_id
from raybench.engines import BESIDE, PACKAGES, EngineParts, open_engine
from raybench.engines.pictures import is_array
from raybench.trial import events, memory
from raybench.trial.checkpoint import Checkpoints
from raybench.trial.evaluation import evaluate
from raybench.trial.events import Event
from raybench.trial.job import Job, Recipe
from raybench.trial.ledger import NANO, Ledger
from raybench.trial.phase import BUILD, DATA, EVALUATE, TRAIN, Phase
from raybench.trial.rank import here
from raybench.trial.sheet import write_sheet
from raybench.trial.writing import FULL
from raybench.workloads import WorkloadInfo, load_workload
from raybench.workloads.base import Workload

NOT_KEPT = "memory_limit was not kept: that takes Linux, and a process of the trial's own"


MADE_AT_ONCE = 4 << 30
"""Bytes of a split that is made before training; more is made batch by batch, under `input: host`."""


class Diverged(Exception):
    """The loss is not finite."""


def run(job: Job, ledger: Ledger | None = None, template_import: float = 0.0) -> Iterator[Event]:
    """Run one attempt and yield its events: `trial_started`, an `epoch_ended` each epoch, `trial_ended`.

    Where it goes on from a checkpoint, `trial_resumed` and the epochs before it come first.

    Whatever happens inside becomes the status of `trial_ended`; only what stops the process itself is left for its
    supervisor to report.

    Args:
        job: the attempt.
        ledger: the process's account, started when the process was; a new one where there is none.
        template_import: seconds that loading the framework took before this process began.
    """
    ledger = ledger or Ledger()
    device: Device | None = None
    warnings = [*job.warnings, *([] if memory.is_kept(job.memory_limit) else [NOT_KEPT])]
    info = WorkloadInfo.from_json(job.workload)
    phase = Phase(Path(job.folder))
    checkpoints = Checkpoints(job, warnings)
    status = events.COMPLETED
    error: dict[str, Any] | None = None
    try:
        device = open_assigned(job)
        yield events.trial_started(job.trial, job.attempt, **_opening(job, device))
        recipe = Recipe.from_cell(job.cell)
        workload = workload_of(job)
        engine = open_engine(job.cell["framework"], EngineParts(recipe, workload, device, ledger, job.seed))
        phase.enter(DATA)
        with ledger.section("data"):
            data = in_memory(load_data(job, workload))
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
            trained = engine.train_epoch(epoch)
            settled = _seconds_of(engine.settle)
            phase.enter(EVALUATE)
            judged, shapes = evaluate(engine, device, ledger, warnings)
            metrics = _named("train", trained.metrics) | _named("val", judged)
            sections, cpu, by_device = ledger.epoch(), ledger.epoch_cpu(), ledger.epoch_device()
            ended = events.epoch_ended(
                job.trial,
                job.attempt,
                epoch=epoch,
                steps=trained.steps,
                examples=trained.examples,
                ledger=sections,
                cpu=cpu,
                cpu_s=round(sum(cpu.values()), 6),
                settle_s={"train": settled},
                **({"device_s": by_device} if by_device else {}),
                **({"step_s": list(trained.step_s)} if trained.step_s else {}),
                **({"sections": dict(trained.sections)} if trained.sections else {}),
                metrics={name: value for name, value in metrics.items() if math.isfinite(value)},
                memory_peak_bytes=device.peak_memory(),
                recompiles=trained.new_shapes + shapes,
                precision=precision,
            )
            yield ended
            if not math.isfinite(metrics["train/loss"]):
                raise Diverged(f"the loss is {metrics['train/loss']} in epoch {epoch}")
            if recipe.stop_at_target and job.target and job.target.reached(metrics):
                break
            if epoch < recipe.epochs:
                checkpoints.after(ended, engine, ledger)
    except Diverged as caught:
        status, error = events.DIVERGED, {"type": "Diverged", "message": str(caught)}
    except Exception as caught:
        memory.lift()
        ran_out = device.is_oom(caught) if device else isinstance(caught, MemoryError)
        full = isinstance(caught, OSError) and caught.errno in FULL
        status = events.OOM if ran_out else events.LOST if full else events.FAILED
        error = describe_error(caught, phase.now, job.folder, info.file)
        if ran_out:
            peak = device.peak_memory() if device else None
            error = error | memory.describe(str(caught), peak, job.memory_limit)
    if status == events.COMPLETED and here().number == 0:
        try:
            write_sheet(workload, job.cell["framework"], engine, data.val, Path(job.folder))
        except Exception as caught:
            warnings.append(f"no picture of predictions: {type(caught).__name__}: {caught}")
    if status in (events.COMPLETED, events.DIVERGED):
        checkpoints.remove()
    sections, wall = ledger.close()
    yield events.trial_ended(
        job.trial,
        job.attempt,
        status,
        ledger=sections,
        cpu=ledger.cpu(),
        wall=wall,
        template_import=round(template_import, 6),
        warnings=warnings,
        error=error,
    )


def _seconds_of(work: Callable[[], object]) -> float:
    """How long a call takes, outside of every section."""
    begun = time.perf_counter_ns()
    work()
    return round((time.perf_counter_ns() - begun) * NANO, 9)


def describe_error(caught: BaseException, phase: str, folder: str, file: str | None) -> dict[str, Any]:
    """An exception as a record: its type, message, phase, place and whole traceback.

    The place is the innermost line of the person's own `file`, of which the trial runs a copy in `folder`; where none
    of its lines takes part, the innermost of all.
    """
    frames = [(frame.filename, frame.lineno) for frame in traceback.extract_tb(caught.__traceback__)]
    if file is not None:
        copy = str(Path(folder) / Path(file).name)
        frames = [(file, line) for name, line in frames if name == copy] or frames
    where = f"{frames[-1][0]}:{frames[-1][1]}" if frames else None
    return {
        "type": type(caught).__name__,
        "message": str(caught),
        "phase": phase,
        "where": where,
        "traceback": "".join(traceback.format_exception(caught)),
    }


def open_assigned(job: Job) -> Device:
    """The device a job was given, open; everything else is hidden from this process.

    Raises:
        RuntimeError: it is not the hardware that was planned for.
    """
    wanted, rank = job.cell["device"], here()
    devices = wanted.get("devices", 1) // rank.count
    threads = max(1, wanted["threads"] // rank.count)
    assignment = Assignment(rank.share(job.cores), rank.share(job.visible), threads, devices)
    device = open_device(wanted["kind"], job.cell["framework"], assignment)
    device.hide_others()
    device.open(job.cell["settings"]["precision"])
    found = device.describe()
    if found.model != wanted["model"]:
        raise RuntimeError(f"planned for {wanted['model']!r}, but this is {found.model!r}")
    return device


def _opening(job: Job, device: Device) -> dict[str, Any]:
    package = PACKAGES[job.cell["framework"]]
    hardware = device.describe()
    return {
        "seed": job.seed,
        "repeat": job.repeat,
        "cell": job.cell,
        **job.labels,
        "host": {"name": platform.node(), "boot": boot_id(), "kernel": platform.release(), "pid": os.getpid()},
        "versions": {
            "python": platform.python_version(),
            **{name: metadata.version(name) for name in (package, *BESIDE.get(package, ()))},
            "raybench": _own_version(),
            **job.versions,
        },
        "hardware": {"memory_bytes": hardware.memory_bytes, "driver": hardware.driver},
        "fairness": {**device.fairness(), **_of_ranks(job, device), "exclusive": job.exclusive},
    }


def _of_ranks(job: Job, device: Device) -> dict[str, Any]:
    """The conditions of all ranks together, where there are several; what the device tells is of this one."""
    count = here().count
    if count == 1:
        return {}
    threads = device.fairness()["threads"]
    together = {"threads": count * threads, "threads_per_rank": threads, "ranks": count, "visible": job.visible}
    return together | ({"cores": job.cores} if job.cores else {})


def _own_version() -> str:
    from raybench import __version__

    return __version__


def _named(prefix: str, values: Mapping[str, float]) -> dict[str, float]:
    return {f"{prefix}/{name}": float(value) for name, value in values.items()}


def workload_of(job: Job) -> Workload:
    """What a job trains, with the model that its cell has chosen. A person's file is run here.

    Raises:
        WorkloadError: what the file makes is not a `Workload`.
        Exception: whatever the person's file raises.
    """
    workload = load_workload(WorkloadInfo.from_json(job.workload), Path(job.folder))
    return workload.with_options(job.cell["settings"].get("model", {}))


def load_data(job: Job, workload: Workload) -> Data:
    """Both splits of a workload's data, as its model takes them, held out and cut as the job says.

    Raises:
        DataError: a file is missing or damaged.
        ValueError: there are fewer examples than the job asks for.
    """
    root = Path(job.data_root)
    data = workload.data(root) if workload.data else datasets.get(str(workload.dataset)).load(root)
    data = workload.prepare_data(data)
    if workload.held_out:
        data = hold_out(data.train, workload.held_out)
    wanted = dict(job.cell["data"]["examples"])
    if "smoke" in job.cell:  # of a person's own data nobody knew how many there are
        wanted = {name: min(wanted[name], len(split)) for name, split in vars(data).items()}
    return Data(_cut(data.train, wanted["train"], "training"), _cut(data.val, wanted["val"], "validation"))


def in_memory(data: Data, most: int = MADE_AT_ONCE) -> Data:
    """Data whose examples are made as they are read, made at once where they take no more than so many bytes."""

    def made(split: Split) -> Split:
        lazy = not is_array(split.inputs) and split.inputs.nbytes + split.targets.nbytes <= most
        return Split(np.asarray(split.inputs), np.asarray(split.targets)) if lazy else split

    return Data(made(data.train), made(data.val))


def _cut(split: Any, wanted: int | None, what: str) -> Any:
    if wanted is None:
        return split
    if wanted > len(split):
        raise ValueError(f"{wanted} {what} examples asked for, and there are {len(split)}")
    return split.first(wanted)
