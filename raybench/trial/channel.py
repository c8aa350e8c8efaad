"""Files through which processes of a command report to the trial's process.

Each process that trains has one file, to which it appends JSON lines. Files pass through
shells, torchrun and closed descriptors.
"""

from __future__ import annotations

import fcntl
import json
import os
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

VARIABLE = "RAYBENCH_TRIAL"  # the environment variable with the folder of these files

JOB = "job.json"

RANK_START_SECONDS = 30.0  # seconds in which rank 0 has to begin to report, or the others do not wait for its decision
DECISION_POLL_SECONDS = 0.002  # time between looks for the decision of rank 0


class Writer:
    """The file of one rank, created with its first message."""

    def __init__(self, folder: Path, rank: int, world_size: int) -> None:
        self._folder, self._rank, self._world_size = folder, rank, world_size
        self._file = -1

    @property
    def is_open(self) -> bool:
        """Return whether this process has begun to report."""
        return self._file >= 0

    def open(self) -> None:
        """Create the file, locked until this process ends, however that is."""
        path = self._folder / f"rank-{self._rank}.{self._world_size}.{os.getpid()}.jsonl"
        unlocked = path.with_suffix(".unlocked")
        self._file = os.open(unlocked, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        fcntl.lockf(self._file, fcntl.LOCK_EX)
        unlocked.rename(path)

    def send(self, **message: Any) -> None:
        """Append a message."""
        if not self.is_open:
            self.open()
        os.write(self._file, json.dumps(message).encode() + b"\n")

    def decide(self, epoch: int, stop: bool) -> bool:
        """Let rank 0 decide for all ranks whether training ends with an epoch; return its decision."""
        path = self._folder / f"decision-{epoch}"
        if self._rank == 0:
            temporary = path.with_suffix(".unfinished")
            temporary.write_text("stop" if stop else "go on")
            temporary.replace(path)
            return stop
        deadline = time.monotonic() + RANK_START_SECONDS
        while not path.exists():
            if self._rank_0_has_ended() and not path.exists():
                raise RuntimeError(f"rank 0 ended before it had ended epoch {epoch}")
            if time.monotonic() > deadline and not any(self._folder.glob("rank-0.*")):
                raise RuntimeError(
                    "rank 0 does not report its epochs, and it decides when training ends: call "
                    "raybench.current_trial() in every rank, or at least in rank 0"
                )
            time.sleep(DECISION_POLL_SECONDS)
        return path.read_text() == "stop"

    def _rank_0_has_ended(self) -> bool:
        for path in self._folder.glob("rank-0.*.jsonl"):
            with path.open("r+b") as file:
                try:
                    fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                except (BlockingIOError, PermissionError):
                    return False
            return True
        return False


class Reader:
    """All files of a folder, read as they grow.

    Attributes:
        processes: the process id of each rank that has reported.
        world_size: how many ranks there are according to them.
        conflict: the message of two processes with the same rank; empty if there are none.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._offsets: dict[int, int] = {}
        self.processes: dict[int, int] = {}
        self.world_size = 1
        self.conflict = ""

    def read(self) -> Iterator[tuple[int, Mapping[str, Any]]]:
        """Yield new messages with the rank of their process."""
        for path in sorted(self._folder.glob("rank-*.jsonl")):
            rank, self.world_size, pid = map(int, path.stem.removeprefix("rank-").split("."))
            first = self.processes.setdefault(rank, pid)
            if first != pid:
                self.conflict = (
                    f"two processes ({first} and {pid}) report as rank {rank}: start them with torchrun (without "
                    "restarts), or call trial.epochs() in one of them only"
                )
                continue
            with path.open("rb") as file:
                file.seek(self._offsets.get(rank, 0))
                lines = file.read().split(b"\n")[:-1]
            self._offsets[rank] = self._offsets.get(rank, 0) + sum(len(line) + 1 for line in lines)
            yield from ((rank, json.loads(line)) for line in lines)
