"""Checkpoints of a long trial.

A checkpoint is one folder per rank: what the training saved, and a JSON file with the events of the completed epochs
and the state of the ledger. It is written under a temporary name in the folder of
checkpoints, which is next to the folders of the trial's attempts, and then renamed; the last two are kept until the
trial is complete. One that cannot be loaded is not used, and a warning reports it.
"""

from __future__ import annotations

import json
import platform
import shutil
from contextlib import suppress
from pathlib import Path
from typing import Any

from raybench.core import events
from raybench.core.events import Event
from raybench.core.job import Job
from raybench.core.ledger import Ledger
from raybench.core.rank import current_rank
from raybench.training.trial import SavedState

FOLDER = "checkpoints"  # folder of checkpoints, next to the folders of a trial's attempts

KEPT_CHECKPOINTS = 2
"""Number of checkpoints kept.

If the last one is damaged, training resumes from the one before."""

ABOUT, STATE = "about.json", "state"
"""Names in the folder of a checkpoint: the JSON file, and the path that the training is given."""


class Checkpoints:
    """The checkpoints of one trial, for one of its attempts; an error becomes a warning, and ends no trial."""

    def __init__(self, job: Job, warnings: list[str]) -> None:
        self._job, self._warnings = job, warnings
        self._folder = Path(job.folder).parent / FOLDER
        self._told: list[Event] = []
        self._gaps: list[int] = []

    def resume(self, state: SavedState, ledger: Ledger) -> list[Event]:
        """Restore a training and the ledger from the last usable checkpoint.

        The time of this process so far was needed because the previous one was lost, and is charged to `checkpoint`.

        Returns:
            `trial_resumed`, then the completed epochs as those of this attempt; empty if training starts from scratch.
        """
        job = self._job
        if not job.checkpoint_every:
            return []
        if job.resume is None:
            self.remove()
            return []
        due = job.resume // job.checkpoint_every * job.checkpoint_every
        for epoch in sorted(self._epochs(), reverse=True):
            try:
                about = self._read(epoch)
                rank_state = self._path(epoch) / STATE
                state.load(rank_state if rank_state.exists() else self._path(epoch, rank=0) / STATE)
            except Exception as error:  # damaged, without the part of a rank, or of another model
                self._warnings.append(f"checkpoint of epoch {epoch} not used: {error}")
                continue
            ledger.go_on(about["ledger"])
            self._told, self._gaps = about["told"], [*about["gaps"], epoch]
            facts = {"epoch": epoch, "gaps": self._gaps, "of_attempt": about["attempt"]}
            replayed = [{"of_attempt": event["attempt"], **event, "attempt": job.attempt} for event in self._told]
            return [events.trial_resumed(job.trial, job.attempt, **facts), *replayed]
        if due:
            self._warnings.append(f"no checkpoint of epoch {due} on {platform.node()}; restarted from epoch 1")
        return []

    def after(self, epoch: Event, state: SavedState, ledger: Ledger) -> None:
        """Make a checkpoint after an epoch that is not the last, if one is due."""
        interval = self._job.checkpoint_every
        if not interval:
            return
        self._told.append(epoch)
        if epoch["epoch"] % interval:
            return
        number = epoch["epoch"]
        with ledger.section("checkpoint"):
            try:
                self._write(number, state, ledger)
            except Exception as error:  # full disk, out of memory, a model without tensors: training goes on
                reason = getattr(error, "strerror", None) or f"{type(error).__name__}: {error}"
                self._warnings.append(f"checkpoint of epoch {number} not written: {reason}")
                return
            for stale_epoch in sorted(self._epochs())[:-KEPT_CHECKPOINTS]:
                shutil.rmtree(self._path(stale_epoch), ignore_errors=True)

    def remove(self) -> None:
        """Remove the checkpoints, which the trial no longer needs."""
        for path in self._folder.glob(f"*.rank-{current_rank().number}*"):
            shutil.rmtree(path, ignore_errors=True)
        with suppress(OSError):
            self._folder.rmdir()

    def _path(self, epoch: int, rank: int | None = None) -> Path:
        return self._folder / f"epoch-{epoch:06}.rank-{current_rank().number if rank is None else rank}"

    def _epochs(self) -> list[int]:
        """Epochs of this rank's checkpoints, from their names."""
        names = [path.name.split(".")[0] for path in self._folder.glob(f"epoch-*.rank-{current_rank().number}")]
        return [int(number) for name in names if (number := name.removeprefix("epoch-")).isdecimal()]

    def _write(self, epoch: int, state: SavedState, ledger: Ledger) -> None:
        """Write a checkpoint under a temporary name and rename it, so that one with its final name is complete."""
        path = self._path(epoch)
        temporary = path.with_name(f"{path.name}-unfinished")
        shutil.rmtree(temporary, ignore_errors=True)
        temporary.mkdir(parents=True)
        state.save(temporary / STATE)
        about = {
            "attempt": self._job.attempt,
            "gaps": self._gaps,
            "ledger": ledger.state(),
            "told": self._told,
        }
        if not (temporary / STATE).exists() and not current_rank().number:  # other ranks may leave that to rank 0
            raise ValueError("the save function given to trial.checkpoint wrote nothing to its path")
        (temporary / ABOUT).write_text(json.dumps(about, allow_nan=False))
        shutil.rmtree(path, ignore_errors=True)
        temporary.replace(path)

    def _read(self, epoch: int) -> dict[str, Any]:
        """Read what a checkpoint says, and check that all ranks, which have to use the same, have it."""
        for rank in range(current_rank().count):
            json.loads((self._path(epoch, rank) / ABOUT).read_text())
        about: dict[str, Any] = json.loads((self._path(epoch) / ABOUT).read_text())
        return about
