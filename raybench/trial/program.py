"""A program of the user in a process group of its own: its output as it comes, its end, and all that it leaves."""

from __future__ import annotations

import fcntl
import os
import resource
import selectors
import signal
import subprocess
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from raybench.core.process_guard import GROUP, PARENT, STATE, TICKS, processes
from raybench.output.transcript import COLORS, LINE_ENDS

TERMINATION_SECONDS = 10.0  # seconds from SIGTERM to SIGKILL
SETTLE_SECONDS = 1.0  # seconds in which children may end after their parent
POLL_SECONDS = 0.1  # most seconds between two looks for the end of a program

GATHER_SECONDS = 0.002
"""Seconds between two readings of an output that comes without a pause, so that a reading costs less than a line."""

PIPE_BYTES, TAIL_BYTES = 1 << 20, 1 << 16
"""Size of a pipe, so that the program does not wait for its reader, and of the end of the output that is kept."""


def children_cpu_s() -> float:
    """Processor seconds of the children of this process that have ended, and of theirs."""
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


Chunk = tuple[int, bytes, int]
"""Part of an output: the stream (0 or 1), the bytes (none at its end), and the time of reading in nanoseconds."""


class Program:
    """A running program, whose descendants are found by a variable of its environment, the marker.

    Attributes:
        pid: its process id.
        tail: the end of its output.
        ended_ns: when it ended; 0 while it runs.
    """

    def __init__(self, arguments: Sequence[str], environ: Mapping[str, str], folder: Path, marker: str) -> None:
        self._mark = f"{marker}={environ[marker]}".encode()
        self._process = subprocess.Popen(
            arguments,
            cwd=folder,
            env=environ,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            process_group=0,
        )
        self.pid, self.ended_ns, self.tail = self._process.pid, 0, b""
        self._waiter = threading.Thread(target=self._wait, daemon=True)
        self._waiter.start()
        self._selector = selectors.DefaultSelector()
        assert self._process.stdout and self._process.stderr
        self._streams = (self._process.stdout, self._process.stderr)
        self._read_s = 0.0
        for number, stream in enumerate(self._streams):
            self._selector.register(stream, selectors.EVENT_READ, number)
            if hasattr(fcntl, "F_SETPIPE_SZ"):
                with suppress(OSError):  # the user's limit
                    fcntl.fcntl(stream, fcntl.F_SETPIPE_SZ, PIPE_BYTES)

    def _wait(self) -> None:
        self._process.wait()
        self.ended_ns = time.perf_counter_ns()

    @property
    def code(self) -> int | None:
        """Its exit code, negative for a signal; None while it runs."""
        return self._process.returncode if self.ended_ns else None

    def read(self, seconds: float) -> Iterator[Chunk]:
        """Yield new output; wait at most so long for some, or for the program's end."""
        if not self._selector.get_map():  # both streams were closed
            self._waiter.join(seconds)
            return
        time.sleep(max(0.0, self._read_s + GATHER_SECONDS - time.monotonic()))
        for key, _ in self._selector.select(seconds):
            chunk = os.read(key.fd, PIPE_BYTES)
            self._read_s = time.monotonic()
            self.tail = (self.tail + chunk if len(chunk) < TAIL_BYTES else chunk)[-TAIL_BYTES:]
            yield key.data, chunk, time.perf_counter_ns()
            if not chunk:
                self._selector.unregister(key.fileobj)

    def last_lines(self, number: int = TAIL_BYTES) -> list[str]:
        """The last lines of its output."""
        text = COLORS.sub(b"", self.tail).translate(LINE_ENDS).decode("utf-8", "replace")
        return [line for line in text.split("\n") if line][-number:]

    def cpu_s(self) -> float:
        """Processor seconds of it and its descendants; an ended one counts once it is waited for. 0 without /proc."""
        ticks, family = 0, {self.pid}
        for pid, _, fields in sorted(processes()):  # parents before their children
            if pid in family or int(fields[PARENT]) in family:
                family.add(pid)
                ticks += sum(map(int, fields[TICKS]))
        return ticks / os.sysconf("SC_CLK_TCK")

    def signal(self, number: signal.Signals) -> None:
        """Signal its process group."""
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self.pid, number)

    def end_descendants(self) -> list[str]:
        """Kill its descendants that run on after its end; return their names and process ids."""
        deadline = time.monotonic() + SETTLE_SECONDS
        while (descendants := self._descendants()) and time.monotonic() < deadline:
            time.sleep(0.02)
        names = [f"{name} (process {pid})" for pid, name in descendants.items()]
        self.signal(signal.SIGKILL)
        while descendants and time.monotonic() < deadline + TERMINATION_SECONDS:
            for pid in descendants:
                with suppress(ProcessLookupError, PermissionError):
                    os.kill(pid, signal.SIGKILL)
            time.sleep(0.01)
            descendants = self._descendants()
        return names

    def kill(self) -> None:
        """Kill it and its descendants."""
        self.signal(signal.SIGKILL)
        self._waiter.join()
        self.end_descendants()

    def close(self) -> None:
        """Kill it if it runs, and close its streams."""
        if self.code is None:
            self.kill()
        self._selector.close()
        for stream in self._streams:
            stream.close()

    def _descendants(self) -> dict[int, str]:
        """Its descendants, wherever they have gone: those with its variable in their environment, or in its group.

        A process that has just been started has no environment for a moment. Without /proc none is found.
        """
        descendants = {}
        for pid, name, fields in processes():
            if pid == self.pid or fields[STATE] == "Z":
                continue
            with suppress(OSError):  # it has just ended, or is another user's
                environ = Path(f"/proc/{pid}/environ")
                if int(fields[GROUP]) == self.pid or self._mark in environ.read_bytes().split(b"\0"):
                    descendants[pid] = name
        return descendants
