"""A timed run of the user's own training function, from job to events."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Mapping, Set
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from raybench.core import events, memory
from raybench.core.events import Event
from raybench.core.job import Job
from raybench.core.ledger import Ledger
from raybench.core.rank import current_rank
from raybench.core.settings import MISSING
from raybench.core.status import TrialStatus
from raybench.datasets.splits import Array
from raybench.devices import Device
from raybench.engines.user_loop import open_loop
from raybench.training.clock import TrainingClock
from raybench.training.current import set_current
from raybench.training.peak_memory import PeakMemory
from raybench.training.trial import Recorder, SavedState, Trial, TrialOptions
from raybench.trial.checkpoint import Checkpoints
from raybench.trial.phase import Phase
from raybench.trial.run import NOT_KEPT, ended, failure, open_assigned, opening
from raybench.workloads import WorkloadInfo, load_workload
from raybench.workloads.own_files import record_late_modules, working_folder
from raybench.workloads.parameters import PASSED

Send = Callable[[Event], object]

OUTPUT = "output"
"""Subfolder of the attempt's folder for files of the function."""

OFFLINE = {"WANDB_MODE": "offline"}
"""Environment variables under which other trackers send nothing while training is timed."""


def run_function(job: Job, send: Send, ledger: Ledger | None = None, template_import: float = 0.0) -> None:
    """Run one attempt of a training function, and send its events as `raybench.trial.run.run` yields them.

    Events are sent from within the function, which therefore runs in the process's main thread.

    Args:
        job: the attempt.
        send: receives each event.
        ledger: the process's ledger, started when the process was; None: a new one.
        template_import: seconds that loading the framework took before this process began.
    """
    ledger = ledger or Ledger()
    device: Device | None = None
    warnings = [*job.warnings, *([] if memory.limit_applies(job.memory_limit) else [NOT_KEPT])]
    info = WorkloadInfo.from_json(job.workload)
    phase, checkpoints = Phase(Path(job.folder)), Checkpoints(job, warnings)
    recorder: TrialJournal | None = None
    status, error = TrialStatus.COMPLETED, None
    folder, copy = Path.cwd(), ExitStack()
    trial: Trial | None = None
    try:
        device = open_assigned(job)
        send(
            events.trial_started(
                job.trial, job.attempt, **opening(job, device), form=job.cell.workload.form, clock="trial"
            )
        )
        code = copy.enter_context(working_folder(job.code_folder, info.files, info.isolate))
        job = replace(job, code=str(code))
        os.chdir(job.code_folder)
        _keep_others_offline(job)
        function = load_workload(info, job.code_folder)
        loop = open_loop(job.cell.framework, device)
        peak = PeakMemory(device, loop)
        clock = TrainingClock(ledger, device, loop, phase.enter, peak)
        recorder = TrialJournal(job, send, ledger, checkpoints, warnings, peak)
        trial = Trial(options_of(job), recorder, lambda: clock)
        set_current(trial)
        try:
            function(trial, **arguments_of(info, job))
        finally:
            loop.close()
        trial.finish()
        error = misuse(trial, recorder.logged_before, info, job)
        status = TrialStatus.FAILED if error else status
        warnings.extend(record_late_modules(job))
    except (Exception, SystemExit) as exc:  # not KeyboardInterrupt, which in the driver's process is the user's
        status, error = failure(exc, device, phase, job)
    finally:
        set_current(None)
        if trial:
            trial.abandon()
        os.chdir(folder)
        copy.close()
    if recorder:
        recorder.flush(trial)
    if status in (TrialStatus.COMPLETED, TrialStatus.DIVERGED):
        checkpoints.remove()
    sections, wall_s = ledger.close()
    cpu = ledger.cpu()
    drop_unmeasured(sections, cpu)
    send(ended(job, status, error, warnings, sections, cpu, wall_s, template_import))


def drop_unmeasured(*tables: dict[str, float]) -> None:
    """Remove sections that the loop did not measure, since it did not say where they are.

    Args:
        tables: the wall time of each section, then its processor time.
    """
    for name in ("data", "input_wait"):
        if not tables[0].get(name):
            for table in tables:
                table.pop(name, None)


def _keep_others_offline(job: Job) -> None:
    """Keep the trial's process from sending results elsewhere, which takes time."""
    if job.own_process:  # otherwise the process is the driver's
        for name in [name for name in os.environ if name.startswith("MLFLOW_")]:
            del os.environ[name]
        os.environ.update(OFFLINE)


def options_of(job: Job) -> TrialOptions:
    """The options of a job's training."""
    settings, rank = job.cell.settings, current_rank()
    return TrialOptions(
        epochs=settings.epochs or None,
        data_dir=Path(job.data_root),
        output_dir=Path(job.folder).absolute() / OUTPUT,
        steps_per_epoch=settings.steps_per_epoch or None,
        target=job.target,
        stop_at_target=job.cell.stop_at_target is not None,
        seed=job.seed,
        rank=rank.number,
        world_size=rank.count,
    )


def arguments_of(info: WorkloadInfo, job: Job) -> dict[str, Any]:
    """The keyword arguments of the function; those that are its defaults are left to it."""
    cell = job.cell
    others = {"framework": cell.framework, "threads": cell.device.threads}
    arguments = {}
    for name, parameter in info.parameters.items():
        if name in PASSED:
            value = others[name] if name in others else getattr(cell.settings, name)
        else:
            value = (cell.params or {}).get(name, MISSING)
        if value is not MISSING and not (parameter.known and value == parameter.default):
            arguments[name] = value
    return arguments


def misuse(trial: Trial, logged_before: Set[str], info: WorkloadInfo, job: Job) -> dict[str, Any] | None:
    """The error of a training that ended without what is needed of it, or None.

    Args:
        logged_before: the metrics of earlier attempts from whose checkpoint training went on.
    """
    message, logged = None, trial.logged | logged_before
    if not trial.ended_epochs:
        message = f"{info.name} ended without an epoch: write `for epoch in trial.epochs():` around its loop"
    elif job.target and job.target.metric not in logged:
        names = ", ".join(sorted(logged)) or "nothing"
        message = f"the target's metric {job.target.metric!r} was never logged; trial.log had {names}"
    if message is None:
        return None
    where = {"where": f"{info.file}:{info.function_line}"} if info.is_function else {}
    return {"type": "UsageError", "message": message, "phase": "train", **where}


class TrialJournal(Recorder):
    """Sends what a trial reports as events.

    The event of the last epoch is sent at the end, as metrics may be logged after the loop.

    Attributes:
        peak: the peak of the memory, once the clock is open.
        logged_before: the names of metrics in the epochs of earlier attempts.
    """

    def __init__(
        self,
        job: Job,
        send: Send,
        ledger: Ledger,
        checkpoints: Checkpoints,
        warnings: list[str],
        peak: PeakMemory | None = None,
    ) -> None:
        self._job, self._send, self.peak, self._ledger = job, send, peak, ledger
        self._checkpoints, self._warnings = checkpoints, warnings
        self._state: _UserState | None = None
        self._last: Event | None = None
        self.logged_before: Set[str] = frozenset()

    def begin(self, state: SavedState | None) -> int:
        """Load the state of an earlier attempt, if there is one."""
        if state is None:
            if self._job.checkpoint_every:
                self.warn("checkpoint_every was ignored: the function does not call trial.checkpoint(save, load)")
            return 0
        self._state = _UserState(state)
        resumed = self._checkpoints.resume(self._state, self._ledger)
        for event in resumed:
            self._send(event)
        self.logged_before = {name for event in resumed for name in event.get("metrics", ())}
        return max(0, len(resumed) - 1)

    def epoch_ended(self, fields: dict[str, Any], more: bool) -> None:
        """Send an epoch, and make a checkpoint if one is due."""
        peak = self.peak.now(ended=not more) if self.peak else None
        measured = fields if peak is None else fields | {"memory_peak_bytes": peak}
        event = events.epoch_ended(self._job.trial, self._job.attempt, **measured)
        if not more:
            self._last = event
            return
        self._send(event)
        if self._state:
            self._checkpoints.after(event, self._state, self._ledger)

    def logged_later(self, metrics: Mapping[str, float]) -> None:
        """Add metrics to the last epoch."""
        if self._last:
            self._last["metrics"] |= metrics

    def warn(self, message: str) -> None:
        """Add a warning to the end of the trial."""
        if message not in self._warnings:
            self._warnings.append(message)

    def flush(self, trial: Trial | None) -> None:
        """Send the last epoch, with the evaluations after it."""
        if self._last:
            evaluations = trial.last_evaluations if trial else []
            self._send(self._last | ({"evaluations": evaluations} if evaluations else {}))
            self._last = None


class _UserState:
    """The state of a training in files that the user's functions write and read, as arrays of bytes."""

    def __init__(self, functions: SavedState) -> None:
        self._functions = functions

    def state(self) -> Mapping[str, Array]:
        """The content of each file that the user's function writes.

        Raises:
            ValueError: it writes none.
        """
        with tempfile.TemporaryDirectory() as folder:
            root = Path(folder)
            self._functions.save(root / "state")
            paths = [path for path in sorted(root.rglob("*")) if path.is_file()]
            if not paths:
                raise ValueError("the function that trial.checkpoint was given wrote nothing at its path")
            return {path.relative_to(root).as_posix(): np.fromfile(path, np.uint8) for path in paths}

    def restore(self, state: Mapping[str, Array], epochs: int) -> None:
        """Write the files again, and let the user's function read them."""
        with tempfile.TemporaryDirectory() as folder:
            for name, content in state.items():
                path = Path(folder) / name
                path.parent.mkdir(parents=True, exist_ok=True)
                content.tofile(path)
            self._functions.load(Path(folder) / "state")
