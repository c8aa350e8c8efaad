"""Checkpoints of a long trial, in files that contain only arrays and JSON.

A checkpoint is one NumPy archive per rank: the files that the training saved, as bytes, and a JSON header with the
trial, the events of the completed epochs and the state of the ledger. It is written to a temporary file in the folder
of checkpoints, which is next to the folders of the trial's attempts, and then renamed; the last two are kept until the
trial is complete. Reading one runs no code (`allow_pickle=False`). A checkpoint that is damaged, or belongs to another
trial, is not used, and a warning reports it.
"""

from __future__ import annotations

import json
import os
import platform
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import numpy as np

from raybench.core import events
from raybench.core.events import Event
from raybench.core.job import Job
from raybench.core.ledger import Ledger
from raybench.core.rank import current_rank
from raybench.datasets.splits import Array
from raybench.training.trial import SavedState

FOLDER = "checkpoints"
"""Folder of checkpoints, next to the folders of a trial's attempts."""

KEPT_CHECKPOINTS = 2
"""Number of checkpoints kept.

If the last one is damaged, training resumes from the one before."""

ABOUT = "about"
"""Name of the JSON header (as bytes) among an archive's arrays."""


@dataclass(frozen=True)
class Checkpoint:
    """A checkpoint that was read and is complete.

    Attributes:
        epochs: the `epoch_ended` events of its epochs, from the first.
        ledger: `Ledger.state()` when it was made.
        gaps: the epochs after which training was resumed in another process.
        attempt: the attempt that made it.
        arrays: the content of each file of the training.
    """

    epochs: Sequence[Event]
    ledger: Mapping[str, Any]
    gaps: Sequence[int]
    attempt: int
    arrays: Mapping[str, Array]


class Checkpoints:
    """The checkpoints of one trial, for one of its attempts.

    Args:
        job: the attempt.
        warnings: the list to which errors are added; no error here ends a trial.
    """

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
                checkpoint = self._read(epoch)
            except Exception as error:  # damaged, or without the part of a rank
                self._warnings.append(f"checkpoint of epoch {epoch} not used: {type(error).__name__}: {error}")
                continue
            try:
                _load_state(state, checkpoint.arrays)
            except ValueError as error:
                self._warnings.append(f"checkpoint of epoch {epoch} not used: {error}")
                continue
            ledger.go_on(checkpoint.ledger)
            return self._go_on(checkpoint, epoch)
        if due:
            self._warnings.append(f"no checkpoint of epoch {due} on {platform.node()}; restarted from epoch 1")
        return []

    def _go_on(self, saved: Checkpoint, epoch: int) -> list[Event]:
        job = self._job
        self._told, self._gaps = list(saved.epochs), [*saved.gaps, epoch]
        resumed = events.trial_resumed(job.trial, job.attempt, epoch=epoch, gaps=self._gaps, of_attempt=saved.attempt)
        replayed = [
            {**event, "attempt": job.attempt, "of_attempt": event.get("of_attempt", event["attempt"])}
            for event in self._told
        ]
        return [resumed, *replayed]

    def after(self, epoch: Event, state: SavedState, ledger: Ledger) -> None:
        """Make a checkpoint after an epoch, if one is due.

        Not called after the last epoch.
        """
        interval = self._job.checkpoint_every
        if not interval:
            return
        self._told.append(epoch)
        if epoch["epoch"] % interval:
            return
        number = epoch["epoch"]
        with ledger.section("checkpoint"):
            try:
                self._write(number, _save_state(state), ledger)
            except Exception as error:  # full disk, out of memory, a model without tensors: training goes on
                reason = getattr(error, "strerror", None) or f"{type(error).__name__}: {error}"
                self._warnings.append(f"checkpoint of epoch {number} not written: {reason}")
                return
            for stale_epoch in sorted(self._epochs())[:-KEPT_CHECKPOINTS]:
                self._path(stale_epoch).unlink(missing_ok=True)

    def remove(self) -> None:
        """Remove the checkpoints, which the trial no longer needs."""
        for path in self._folder.glob(f"*.rank-{current_rank().number}.npz*"):
            path.unlink(missing_ok=True)
        with suppress(OSError):
            self._folder.rmdir()

    def _path(self, epoch: int, rank: int | None = None) -> Path:
        return self._folder / f"epoch-{epoch:06}.rank-{current_rank().number if rank is None else rank}.npz"

    def _epochs(self) -> list[int]:
        """Epochs of this rank's checkpoints, from their file names."""
        names = [path.name.split(".")[0] for path in self._folder.glob(f"epoch-*.rank-{current_rank().number}.npz")]
        return [int(number) for name in names if (number := name.removeprefix("epoch-")).isdecimal()]

    def _write(self, epoch: int, arrays: Mapping[str, Array], ledger: Ledger) -> None:
        """Write a checkpoint to a temporary file and rename it, so that a file with its final name is complete."""
        about = {
            "attempt": self._job.attempt,
            "gaps": self._gaps,
            "ledger": ledger.state(),
            "told": self._told,
        }
        header = np.frombuffer(json.dumps(about, allow_nan=False).encode(), np.uint8)
        path = self._path(epoch)
        temporary = path.with_suffix(".npz-unfinished")
        self._folder.mkdir(parents=True, exist_ok=True)
        with temporary.open("wb") as file:
            np.savez(file, **cast(Any, {ABOUT: header, **arrays}))
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)

    def _read(self, epoch: int) -> Checkpoint:
        """Read the checkpoint of an epoch, with the parts of all ranks, which have to use the same one."""
        parts = [_load(self._path(epoch, rank)) for rank in range(current_rank().count)]
        header, own = parts[current_rank().number]
        arrays = {name: array for _, files in (*parts[1:], parts[0]) for name, array in files.items()} | own
        return Checkpoint(header["told"], header["ledger"], header["gaps"], header["attempt"], arrays)


def _save_state(state: SavedState) -> dict[str, Array]:
    """The content of each file that the training saves.

    Raises:
        ValueError: it saves none.
    """
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        state.save(root / "state")
        paths = [path for path in sorted(root.rglob("*")) if path.is_file()]
        if not paths and not current_rank().number:  # the others may leave that to rank 0
            raise ValueError("the function that trial.checkpoint was given wrote nothing at its path")
        return {path.relative_to(root).as_posix(): np.fromfile(path, np.uint8) for path in paths}


def _load_state(state: SavedState, arrays: Mapping[str, Array]) -> None:
    """Write the files again, and let the training load them."""
    with tempfile.TemporaryDirectory() as folder:
        for name, content in arrays.items():
            path = Path(folder) / name
            path.parent.mkdir(parents=True, exist_ok=True)
            content.tofile(path)
        state.load(Path(folder) / "state")


def _load(path: Path) -> tuple[dict[str, Any], dict[str, Array]]:
    """Read the header and the arrays of a file, and verify the checksum of every part of it."""
    with np.load(path, allow_pickle=False) as archive:
        arrays = {name: archive[name] for name in archive.files}
    return json.loads(arrays.pop(ABOUT).tobytes()), arrays
