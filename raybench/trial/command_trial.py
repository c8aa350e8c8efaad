"""`raybench.current_trial()` in a process of the user's command: a `Trial` that reports to the trial's process."""

from __future__ import annotations

import atexit
import json
import os
import sys
import time
from pathlib import Path
from typing import Any

from raybench.core.events import Event
from raybench.core.job import Job
from raybench.core.ledger import Ledger
from raybench.core.rank import Rank, current_rank, set_rank
from raybench.core.status import TrialStatus
from raybench.engines import NONE
from raybench.engines.loop_facts import loaded_framework, open_loop
from raybench.training.clock import TrainingClock
from raybench.training.current import current_trial as local_or_current
from raybench.training.current import set_current
from raybench.training.local import program_device
from raybench.training.trial import SavedState, Trial
from raybench.trial.channel import JOB, VARIABLE, Writer
from raybench.trial.checkpoint import Checkpoints
from raybench.trial.command_run import STARTED
from raybench.trial.failure import failure
from raybench.trial.journal import TrialJournal, options_of
from raybench.workloads import read_info

GLOO_RELEASE = 0.2  # seconds in which the threads of torch's Gloo release the tensors of the last collective operation

_process: _Process | None = None


def current_trial(*, epochs: float | None = None) -> Trial:
    """Return the trial that this process runs."""
    global _process
    if _process is None:
        _process = _Process(Path(os.environ[VARIABLE]))
        set_current(_process.trial)
        atexit.register(_process.end)
    return local_or_current(epochs=epochs)


class _Process:
    def __init__(self, channel: Path) -> None:
        number, count = (int(os.environ.get(name, default)) for name, default in (("RANK", "0"), ("WORLD_SIZE", "1")))
        rank = Rank(
            number,
            count,
            int(os.environ.get("LOCAL_RANK", number)),
            int(os.environ.get("LOCAL_WORLD_SIZE", count)),
        )
        set_rank(rank)
        self._job = Job.from_json(json.loads((channel / JOB).read_text()))
        self._pid = os.getpid()
        self._ledger = Ledger(int(os.environ[STARTED]))
        self._writer = Writer(channel, rank.local_number, rank.local_count)
        self._warnings: list[str] = []
        checkpoints = Checkpoints(self._job, self._warnings)
        self._journal = _Journal(self._job, self._send, self._ledger, checkpoints, self._warnings)
        self.trial = Trial(options_of(self._job), self._journal, self._open_clock)
        self._journal.trial, self._journal.writer = self.trial, self._writer

    def _open_clock(self) -> TrainingClock:
        """Open the clock of the framework that the script has imported by now."""
        job = self._job
        framework = job.cell.framework if job.cell.framework != NONE else loaded_framework()
        of_process = 1 if current_rank().count > 1 else job.cell.device.world_size
        device = program_device(framework, job.cell.device.kind, of_process)
        loop = open_loop(framework, device)
        self._journal.device = device
        return TrainingClock(self._ledger, device, loop)

    def _send(self, event: Event) -> None:
        """Report an event, with the ledger until now, in case that this process does not end by itself."""
        self._writer.send(event=event, ledger=self._ledger.close()[0])

    def end(self) -> None:
        """Report the end of this process, when Python exits."""
        if os.getpid() != self._pid:  # a child that was forked
            return
        status, error = TrialStatus.COMPLETED, None
        exception = getattr(sys, "last_exc", None) or getattr(sys, "last_value", None)
        try:
            if exception is not None:
                raise exception
            self.trial.finish()
            if self._writer.is_open:
                error = self._journal.misuse(self.trial, read_info(self._job.workload))
                status = TrialStatus.FAILED if error else status
        except BaseException as exc:
            status, error = failure(exc, None, self._ledger.phase, self._job)
        finally:
            self.trial.abandon()
        if not self._writer.is_open and error is None:
            return  # it has not trained, such as a worker that loads data
        self._journal.end(status)
        end = {"status": status, "error": error, "warnings": self._warnings, "at": time.time_ns()}
        self._writer.send(end=end, ledger=self._ledger.close()[0])
        if current_rank().count > 1 and "torch.distributed" in sys.modules:
            # A thread that still holds a tensor when the interpreter ends aborts the process (pytorch/pytorch#190489).
            time.sleep(GLOO_RELEASE)


class _Journal(TrialJournal):
    trial: Trial
    writer: Writer

    def begin(self, state: SavedState | None) -> int:
        """Claim the rank and open the clock; load the state of an earlier attempt, if there is one."""
        if not self.writer.is_open:
            self.writer.open()
        _ = self.trial.device
        return super().begin(state)

    def epoch_ended(self, fields: dict[str, Any], more: bool) -> None:
        """Send an epoch; the last one at once too, in case that the process ends without its exit handlers."""
        super().epoch_ended(fields, more)
        if self._last:
            self.writer.send(provisional=self._last)

    def decide(self, epoch: int, stop: bool) -> bool:
        """Let rank 0 decide whether training ends with an epoch."""
        return self.writer.decide(epoch, stop)
