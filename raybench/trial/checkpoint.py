"""Checkpoints of a long trial: what training goes on from, in files that hold nothing but arrays and JSON.

A checkpoint is one NumPy archive for each rank: the engine's arrays, and an account as JSON: whose it is, the events of
the epochs that are in it, and how the ledger stood. It is written beside the trial's attempts and put in its place
whole; the last two stay until the trial is complete. Reading one runs no code (`allow_pickle=False`), and one that is
damaged, or another trial's, is left aside and told.
"""

from __future__ import annotations

import json
import os
import platform
import zipfile
import zlib
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
from raybench.engines import Engine

FOLDER = "checkpoints"
"""Beside the folders of a trial's attempts."""

KEPT = 2
"""How many stay: where the last one turns out to be damaged, training goes on from the one before."""

ABOUT = "about"
"""The name of the account among an archive's arrays: bytes of JSON."""

_DAMAGE = (OSError, ValueError, KeyError, TypeError, EOFError, RecursionError, zipfile.BadZipFile, zlib.error)


@dataclass(frozen=True)
class Checkpoint:
    """One that was read and is whole.

    Attributes:
        epochs: the `epoch_ended` of every epoch that is in it, from the first.
        ledger: `Ledger.state()` when it was made.
        gaps: the epochs after which the training that led to it was begun again in another process.
        attempt: which attempt made it.
        arrays: the engine's.
    """

    epochs: Sequence[Event]
    ledger: Mapping[str, Any]
    gaps: Sequence[int]
    attempt: int
    arrays: Mapping[str, Array]


class Checkpoints:
    """Those of one trial, as one of its attempts makes and uses them.

    Args:
        job: the attempt.
        warnings: what goes wrong is added here; none of it ends a trial.
    """

    def __init__(self, job: Job, warnings: list[str]) -> None:
        self._job, self._warnings = job, warnings
        self._folder = Path(job.folder).parent / FOLDER
        self._told: list[Event] = []
        self._gaps: list[int] = []

    def resume(self, engine: Engine, ledger: Ledger) -> list[Event]:
        """Have a built engine and the ledger go on from the last checkpoint that can be used.

        What this process took up to here was needed because the one before was lost, and is charged to `checkpoint`.

        Returns:
            `trial_resumed`, then the epochs that are over, as this attempt's; nothing where training begins.
        """
        job = self._job
        if not job.checkpoint_every:
            return []
        if job.resume is None:
            self.remove()
            return []
        due = job.resume // job.checkpoint_every * job.checkpoint_every
        for epoch in sorted(self._epochs(), reverse=True):
            checkpoint = self._read(epoch)
            if checkpoint is None:
                continue
            try:
                engine.restore(checkpoint.arrays, epoch)
            except ValueError as error:
                self._warn(f"checkpoint of epoch {epoch} not used: {error}")
                continue
            ledger.go_on(checkpoint.ledger)
            return self._go_on(checkpoint, epoch)
        if due:
            self._warn(f"no checkpoint of epoch {due} to go on from on {platform.node()}: begun again from epoch 1")
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

    def after(self, epoch: Event, engine: Engine, ledger: Ledger) -> None:
        """An epoch is over and there is another one: make a checkpoint, where one is due."""
        interval = self._job.checkpoint_every
        if not interval:
            return
        self._told.append(epoch)
        if epoch["epoch"] % interval:
            return
        number = epoch["epoch"]
        with ledger.section("checkpoint"):
            try:
                self._write(number, engine.state(), ledger)
            except Exception as error:  # no disk, no memory, a model that is not made of tensors: training goes on
                reason = getattr(error, "strerror", None) or f"{type(error).__name__}: {error}"
                self._warn(f"checkpoint of epoch {number} not written: {reason}")
                return
            for stale_epoch in sorted(self._epochs())[:-KEPT]:
                self._path(stale_epoch).unlink(missing_ok=True)

    def remove(self) -> None:
        """The trial needs them no more."""
        for path in self._folder.glob(f"*.rank-{current_rank().number}.npz*"):
            path.unlink(missing_ok=True)
        with suppress(OSError):
            self._folder.rmdir()

    def _path(self, epoch: int, rank: int | None = None) -> Path:
        return self._folder / f"epoch-{epoch:06}.rank-{current_rank().number if rank is None else rank}.npz"

    def _epochs(self) -> list[int]:
        """Of this rank's checkpoints, as their names tell."""
        names = [path.name.split(".")[0] for path in self._folder.glob(f"epoch-*.rank-{current_rank().number}.npz")]
        return [int(number) for name in names if (number := name.removeprefix("epoch-")).isdecimal()]

    def _write(self, epoch: int, arrays: Mapping[str, Array], ledger: Ledger) -> None:
        """Write one beside its place, have it on the disk, then put it there: what bears the name is whole.

        Raises:
            OSError: it cannot be written; nothing of it is left.
        """
        job = self._job
        account_fields = {
            "trial": job.trial,
            "attempt": job.attempt,
            "seed": job.seed,
            "epoch": epoch,
            "gaps": self._gaps,
            "ledger": ledger.state(),
            "told": self._told,
        }
        account = np.frombuffer(json.dumps(account_fields, allow_nan=False).encode(), np.uint8)
        path = self._path(epoch)
        temporary = path.with_suffix(".npz-unfinished")
        self._folder.mkdir(parents=True, exist_ok=True)
        try:
            with temporary.open("wb") as file:
                np.savez(file, **cast(Any, {ABOUT: account, **arrays}))
                file.flush()
                os.fsync(file.fileno())
            temporary.replace(path)
        except OSError:
            with suppress(OSError):
                temporary.unlink(missing_ok=True)
            raise

    def _read(self, epoch: int) -> Checkpoint | None:
        """The checkpoint of an epoch, if every rank's part of it is whole and this trial's."""
        try:
            parts = [_load(self._path(epoch, rank)) for rank in range(current_rank().count)]
            for header, _ in parts:
                self._check(header, epoch)
        except _DAMAGE as error:
            self._warn(f"checkpoint of epoch {epoch} not used: {_in_short(error)}")
            return None
        header, arrays = parts[current_rank().number]
        return Checkpoint(header["told"], header["ledger"], header["gaps"], header["attempt"], arrays)

    def _check(self, header: Mapping[str, Any], epoch: int) -> None:
        """Look at whose account it is.

        Raises:
            ValueError: another trial's, or not what its name says.
        """
        if (header["trial"], header["seed"]) != (self._job.trial, self._job.seed):
            raise ValueError(f"it belongs to the trial {header['trial']}")
        epochs = [event["epoch"] for event in header["told"]]
        if header["epoch"] != epoch or epochs != list(range(1, epoch + 1)):
            raise ValueError("it is not what its name says")
        Ledger().go_on(header["ledger"])

    def _warn(self, message: str) -> None:
        self._warnings.append(message)


def _load(path: Path) -> tuple[dict[str, Any], dict[str, Array]]:
    """The account and the arrays of a file; reading an archive compares every part of it with its checksum."""
    if not zipfile.is_zipfile(path):
        raise ValueError("it is damaged (not a whole archive)")
    with np.load(path, allow_pickle=False) as archive:
        arrays = {name: archive[name] for name in archive.files}
    return json.loads(arrays.pop(ABOUT).tobytes()), arrays


def _in_short(error: Exception) -> str:
    if isinstance(error, FileNotFoundError):
        return "a part of it is missing"
    if isinstance(error, KeyError):
        return f"it is damaged ({error} is missing)"
    return str(error) if isinstance(error, ValueError) and str(error).startswith("it ") else f"it is damaged ({error})"
