"""Files through which processes of a command report to the trial's process.

Each process that trains has one file, by its rank, to which it appends JSON lines. Files pass through shells, torchrun
and closed descriptors, and the exclusive creation of a file shows two processes that claim the same rank.
"""

from __future__ import annotations

import fcntl
import json
import os
import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

VARIABLE = "RAYBENCH_TRIAL"
"""The environment variable with the folder of these files."""

JOB, CONFLICT = "job.json", "conflict"

START_TIMEOUT = 600.0
"""Seconds that a rank whose epoch has ended waits for rank 0 to begin training."""

POLL = 0.002
"""Seconds between looks for the decision of rank 0."""


class RankConflict(RuntimeError):
    """Another process reports with the same rank."""


class Writer:
    """The file of one rank, created with its first message."""

    def __init__(self, folder: Path, rank: int, world_size: int) -> None:
        self._folder, self._rank, self._world_size = folder, rank, world_size
        self._file = -1

    @property
    def is_open(self) -> bool:
        """Return whether this process has claimed its rank."""
        return self._file >= 0

    def claim(self) -> None:
        """Create the file.

        Raises:
            RankConflict: another process has created it.
        """
        path = self._folder / f"rank-{self._rank}.jsonl"
        try:
            self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND, 0o600)
        except FileExistsError:
            other = path.read_text().partition("\n")[0]
            pid = json.loads(other).get("pid") if other.endswith("}") else "another"
            message = (
                f"two processes ({pid} and {os.getpid()}) report as rank {self._rank}: start them with torchrun, or "
                "call trial.epochs() in one of them only"
            )
            (self._folder / CONFLICT).write_text(message)
            raise RankConflict(message) from None
        fcntl.lockf(self._file, fcntl.LOCK_EX)  # until this process ends, however that is
        self.send(pid=os.getpid(), world_size=self._world_size)

    def send(self, **message: Any) -> None:
        """Append a message."""
        if not self.is_open:
            self.claim()
        os.write(self._file, json.dumps(message).encode() + b"\n")

    def decide(self, epoch: int, stop: bool) -> bool:
        """Let rank 0 decide for all ranks whether training ends with an epoch; return its decision.

        Raises:
            RuntimeError: rank 0 has ended without a decision.
            TimeoutError: rank 0 has not begun.
        """
        path = self._folder / f"decision-{epoch}"
        if self._rank == 0:
            temporary = path.with_suffix(".unfinished")
            temporary.write_text("stop" if stop else "go on")
            temporary.replace(path)
            return stop
        deadline = time.monotonic() + START_TIMEOUT
        while not path.exists():
            lives = self._rank_0_lives()
            if lives is None and time.monotonic() > deadline:
                raise TimeoutError(f"rank 0 has not begun within {START_TIMEOUT:g} s of the end of epoch {epoch}")
            if lives is False and not path.exists():
                raise RuntimeError(f"rank 0 ended before it had ended epoch {epoch}")
            time.sleep(POLL)
        return path.read_text() == "stop"

    def _rank_0_lives(self) -> bool | None:
        """Return whether the process of rank 0 runs; None if it has not begun.

        It holds the lock of its file. A process of its number may be another, or one that waits for its parent.
        """
        try:
            file = os.open(self._folder / "rank-0.jsonl", os.O_RDWR)
        except FileNotFoundError:
            return None
        try:
            if not os.fstat(file).st_size:  # not locked yet
                return None
            fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return False
        except (BlockingIOError, PermissionError):
            return True
        finally:
            os.close(file)


class Reader:
    """All files of a folder, read as they grow.

    Attributes:
        processes: the process id of each rank that has reported.
        world_size: how many ranks there are according to them.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._offsets: dict[int, int] = {}
        self.processes: dict[int, int] = {}
        self.world_size = 1

    def read(self) -> Iterator[tuple[int, Mapping[str, Any]]]:
        """Yield new messages with the rank of their process."""
        for path in sorted(self._folder.glob("rank-*.jsonl")):
            rank = int(path.stem.removeprefix("rank-"))
            offset = self._offsets.get(rank, 0)
            if path.stat().st_size == offset:
                continue
            with path.open("rb") as file:
                file.seek(offset)
                lines = file.read().split(b"\n")[:-1]
            self._offsets[rank] = offset + sum(len(line) + 1 for line in lines)
            for message in map(json.loads, lines):
                if "pid" in message:
                    self.processes[rank], self.world_size = message["pid"], message["world_size"]
                else:
                    yield rank, message

    @property
    def conflict(self) -> str:
        """The message of two processes with the same rank; empty if there are none."""
        with suppress(OSError):
            return (self._folder / CONFLICT).read_text()
        return ""
