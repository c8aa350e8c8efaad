"""The events of a trial's epochs."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Set
from pathlib import Path
from typing import Any

from raybench.core import events
from raybench.core.events import Event
from raybench.core.job import Job
from raybench.core.ledger import Ledger
from raybench.core.rank import current_rank
from raybench.core.status import TrialStatus
from raybench.devices import Device
from raybench.devices.energy import EnergyMeter
from raybench.devices.host import usable_cores
from raybench.training.epoch_record import add_counts
from raybench.training.trial import Recorder, SavedState, Trial, TrialOptions
from raybench.trial.checkpoint import Checkpoints
from raybench.workloads import WorkloadInfo

Send = Callable[[Event], object]

OUTPUT_FOLDER = "output"  # subfolder of the attempt's folder for files of the function


def options_of(job: Job) -> TrialOptions:
    """The options of a job's training; an engine makes batches of as many steps as it has to take."""
    settings, rank, own_loop = job.cell.settings, current_rank(), job.cell.has_own_loop
    return TrialOptions(
        epochs=(settings.epochs if own_loop or not settings.epochs else math.ceil(settings.epochs)) or None,
        budget=job.budget,
        read_joules=joules_reader(job),
        data_dir=Path(job.data_root),
        output_dir=Path(job.folder).absolute() / OUTPUT_FOLDER,
        steps_per_epoch=settings.steps_per_epoch or None if own_loop else None,
        target=job.target,
        stop_at_target=job.cell.stop_at_target is not None,
        seed=job.seed,
        rank=rank.number,
        world_size=rank.count,
    )


def joules_reader(job: Job) -> Callable[[], float] | None:
    """The function that reads the energy counters of a job's device; None without a budget of energy.

    Raises:
        Unavailable: the device has none that can be read here.
    """
    if not job.budget or job.budget.joules is None:
        return None
    meter = EnergyMeter(job.cell.device.kind, job.visible, job.cores or usable_cores())
    meter.device_joules()
    return meter.device_joules


class TrialJournal(Recorder):
    """Sends what a trial reports as events.

    The event of the last epoch is sent at the end, as metrics may be logged after the loop.

    Attributes:
        device: whose peak of memory is recorded, once it is open.
    """

    def __init__(
        self,
        job: Job,
        send: Send,
        ledger: Ledger,
        checkpoints: Checkpoints,
        warnings: list[str],
        device: Device | None = None,
    ) -> None:
        self._job, self._send, self.device, self._ledger = job, send, device, ledger
        self._checkpoints, self._warnings = checkpoints, warnings
        self._peak = 0
        self._state: SavedState | None = None
        self._last: Event | None = None
        self._logged_before: Set[str] = frozenset()

    def begin(self, state: SavedState | None) -> int:
        """Load the state of an earlier attempt, if there is one."""
        if state is None:
            if self._job.checkpoint_every:
                self.warn("checkpoint_every was ignored: the function does not call trial.checkpoint(save, load)")
            return 0
        self._state = state
        resumed = self._checkpoints.resume(state, self._ledger)
        for event in resumed:
            self._send(event)
        self.counted_before = counts = dict[str, float]()
        for event in resumed:
            add_counts(counts, event)
        self._logged_before = {name for event in resumed for name in event.get("metrics", ())}
        return max(0, len(resumed) - 1)

    def epoch_ended(self, fields: dict[str, Any], more: bool) -> None:
        """Send an epoch, and make a checkpoint if one is due."""
        if self.device:  # it does not fall if the user's function resets the framework's statistics
            self._peak = max(self._peak, self.device.peak_memory())
            fields = fields | {"memory_peak_bytes": self._peak}
            retries = self.device.alloc_retries()
            fields |= {} if retries is None else {"alloc_retries": retries}
        event = events.epoch_ended(self._job.trial, self._job.attempt, **fields)
        if not more:
            self._last = event
            return
        self._send(event)
        if self._state:
            self._checkpoints.after(event, self._state, self._ledger)

    def decide(self, epoch: int, stop: bool) -> bool:
        """Let rank 0 decide whether training ends with an epoch."""
        return bool(current_rank().meet(stop))

    def logged_later(self, metrics: Mapping[str, float]) -> None:
        """Add metrics to the last epoch."""
        if self._last:
            self._last["metrics"] |= metrics

    def warn(self, message: str) -> None:
        """Add a warning to the end of the trial."""
        if message not in self._warnings:
            self._warnings.append(message)

    def misuse(self, trial: Trial, info: WorkloadInfo) -> dict[str, Any] | None:
        """The error of a training that ended without what is needed of it, or None."""
        message, target, logged = None, self._job.target, trial.logged | self._logged_before
        if not trial.ended_epochs:
            message = f"{info.name} ended without an epoch: write `for epoch in trial.epochs():` around its loop"
        elif target and target.metric not in logged and not trial.rank:  # others may leave logging to rank 0
            names = ", ".join(sorted(logged)) or "nothing"
            message = f"the target's metric {target.metric!r} was never logged; trial.log had {names}"
        message = message or trial._loop.misuse()
        if not message:
            return None
        where = {"where": info.place} if info.place else {}
        return {"type": "UsageError", "message": message, "phase": "train", **where}

    def end(self, status: TrialStatus) -> None:
        """Send the last epoch, and remove the checkpoints unless a later attempt may need them."""
        if self._last:
            self._send(self._last)
            self._last = None
        if status in (TrialStatus.COMPLETED, TrialStatus.DIVERGED):
            self._checkpoints.remove()
