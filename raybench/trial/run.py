"""A timed training, from job to events."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

from raybench import datasets
from raybench.core import events, memory
from raybench.core.job import Job, Recipe
from raybench.core.ledger import Ledger
from raybench.core.rank import current_rank
from raybench.core.status import TrialStatus
from raybench.datasets.splits import Data, hold_out
from raybench.devices import Device
from raybench.engines.base import Engine, EngineParts
from raybench.engines.loop_facts import LoopFacts, open_loop
from raybench.errors import DataError
from raybench.training.clock import TrainingClock
from raybench.training.current import set_current
from raybench.training.declared import DeclaredTraining
from raybench.training.trial import Trial
from raybench.trial.checkpoint import Checkpoints
from raybench.trial.failure import end_event, failure
from raybench.trial.journal import Send, TrialJournal, options_of
from raybench.trial.opening import keep_others_offline, open_assigned, opening
from raybench.workloads import WorkloadInfo, load_workload, read_info
from raybench.workloads.base import Workload
from raybench.workloads.info import FunctionInfo
from raybench.workloads.own_files import working_folder

NOT_KEPT = "memory_limit was ignored: it needs Linux and a separate trial process"


def run(job: Job, send: Send, ledger: Ledger | None = None) -> None:
    """Run one attempt and send its events: `trial_started`, `epoch_ended`, `trial_ended`.

    If it resumes from a checkpoint, `trial_resumed` and the earlier epochs come first. Any error becomes the status of
    `trial_ended`; only the death of the process itself is left for its supervisor to report.
    """
    ledger = ledger or Ledger()
    device: Device | None = None
    warnings = [*job.warnings, *([] if memory.limit_applies(job.memory_limit) else [NOT_KEPT])]
    info = read_info(job.workload)
    journal: TrialJournal | None = None
    trial: Trial | None = None
    engine: Engine | None = None
    status, error = TrialStatus.COMPLETED, None
    folder, copy = Path.cwd(), ExitStack()
    try:
        device = open_assigned(job)
        send(events.trial_started(job.trial, job.attempt, **opening(job, device)))
        if info.file:
            code = copy.enter_context(working_folder(job.code_folder, info.files, info.isolate))
            job = replace(job, code=str(code))
            os.chdir(job.code_folder)
        keep_others_offline(job)
        train = training_of(job, info)
        loop = open_loop(job.cell.framework, device)
        clock = TrainingClock(ledger, device, loop)
        journal = TrialJournal(job, send, ledger, Checkpoints(job, warnings), warnings, device)
        trial = Trial(options_of(job), journal, lambda: clock)
        set_current(trial)
        try:
            engine = train(trial, device, loop)
        finally:
            loop.close()
        trial.finish()
        error = journal.misuse(trial, info)
        status = TrialStatus.FAILED if error else status
    except (Exception, SystemExit) as exc:  # not KeyboardInterrupt, which in the driver's process is the user's
        status, error = failure(exc, device, ledger.phase, job)
    finally:
        set_current(None)
        if trial:
            trial.abandon()
        os.chdir(folder)
        copy.close()
    if journal:
        journal.end(status)
    sections, wall_s = ledger.close()
    drop_unmeasured(sections)
    event = end_event(job, status, error, wall_s, ledger.loading_s, sections, warnings)
    if engine and status == TrialStatus.COMPLETED and current_rank().count > 1:
        send({**event, "event": events.TRAINED})
        try:
            event["communication"] = engine.communication()
        except Exception as exc:
            status, error = failure(exc, device, "communication", job)
            event |= {"status": status, "error": error}
    send(event)


def training_of(job: Job, info: WorkloadInfo) -> Callable[[Trial, Device, LoopFacts], Engine | None]:
    """The training of a job: the user's own function, or that of a declared workload, which returns its engine."""
    if isinstance(info, FunctionInfo):
        function, arguments = load_workload(info, job.code_folder), info.keywords(job.cell)

        def call(trial: Trial, device: Device, loop: LoopFacts) -> None:
            function(trial, **arguments)

        return call
    workload = workload_of(job)

    def train(trial: Trial, device: Device, loop: LoopFacts) -> Engine:
        parts = EngineParts(Recipe.from_cell(job.cell), workload, device, loop, job.seed)
        training = DeclaredTraining(trial, job.cell.framework, parts)
        training.run(lambda: load_data(job, workload))
        return training.engine

    return train


def drop_unmeasured(sections: dict[str, float]) -> None:
    """Remove sections that the loop did not measure, since it did not say where they are."""
    for name in ("data", "input_wait"):
        if not sections.get(name):
            sections.pop(name, None)


def workload_of(job: Job) -> Workload:
    """Load the workload of a job, with the model options of its cell; a user's file is run here."""
    workload: Workload = load_workload(read_info(job.workload), job.code_folder)
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
        dataset = datasets.get(str(read_info(job.workload).dataset))
        if dataset.generator and dataset.official_digest != job.cell.data.digest:
            raise DataError(f"{dataset.name} is not the same in the trial's environment: {dataset.hint}")
        data = dataset.load(root)
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
