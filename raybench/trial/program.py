"""A program of the user in a process group of its own: its output as it comes, its end, and all that it leaves."""

from __future__ import annotations

import os
import selectors
import signal
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

TERMINATION_TIMEOUT = 10.0
"""Seconds from SIGTERM to SIGKILL."""

SETTLE = 1.0
"""Seconds in which children may end after their parent."""

PERIOD = 0.1
"""Seconds between two looks for the end of a program, if the kernel does not report it."""

Chunk = tuple[int, bytes, int]
"""Part of an output: the stream (0 or 1), the bytes (none at its end), and the time of reading in nanoseconds."""


class _Descendant(NamedTuple):
    """A process that the program has started: its name, and the id of its parent."""

    name: str
    parent: int


class Program:
    """A running program.

    Args:
        arguments: the program, looked up in the `PATH` of `environ`, and its arguments.
        environ: its environment variables.
        folder: its working directory.
        marker: the name of a variable of `environ` with a unique value, by which its descendants are found.

    Raises:
        OSError: it cannot be started.
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
        self.pid = self._process.pid
        self.ended_ns = 0
        self._selector = selectors.DefaultSelector()
        assert self._process.stdout and self._process.stderr
        self._streams = {0: self._process.stdout, 1: self._process.stderr}
        for number, stream in self._streams.items():
            self._selector.register(stream, selectors.EVENT_READ, number)
        self._end: int | None = None
        if hasattr(os, "pidfd_open"):
            with suppress(OSError):
                self._end = os.pidfd_open(self.pid)
                self._selector.register(self._end, selectors.EVENT_READ, None)

    @property
    def code(self) -> int | None:
        """Its exit code, negative for a signal; None while it runs."""
        code = self._process.poll()
        if code is not None and not self.ended_ns:
            self.ended_ns = time.perf_counter_ns()
        return code

    def read(self, seconds: float) -> Iterator[Chunk]:
        """Yield new output; wait at most so long for some, or for the program's end."""
        for key, _ in self._selector.select(seconds if self._selector.get_map() else 0):
            if key.data is None:
                self._selector.unregister(key.fd)
                _ = self.code
                continue
            chunk = os.read(key.fd, 1 << 16)
            yield key.data, chunk, time.perf_counter_ns()
            if not chunk:
                self._selector.unregister(key.fileobj)
        if not self._selector.get_map() and self.code is None:  # both streams were closed by a program that runs on
            time.sleep(min(seconds, PERIOD))

    def signal(self, number: signal.Signals) -> None:
        """Signal its process group."""
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self.pid, number)

    def end_left(self) -> list[str]:
        """Kill its descendants that run on after its end.

        Returns:
            Their names and process ids, without those that are children of others.
        """
        deadline = time.monotonic() + SETTLE
        while (left := self._left()) and time.monotonic() < deadline:
            time.sleep(0.02)
        names = [f"{each.name} (process {pid})" for pid, each in left.items() if each.parent not in left]
        while left and time.monotonic() < deadline + TERMINATION_TIMEOUT:
            for pid in left:
                with suppress(ProcessLookupError, PermissionError):
                    os.kill(pid, signal.SIGKILL)
            time.sleep(0.01)
            left = self._left()
        return names

    def close(self) -> None:
        """Kill it if it runs, and close its streams."""
        if self.code is None:
            self.signal(signal.SIGKILL)
            self._process.wait()
            self.end_left()
        self._selector.close()
        for stream in self._streams.values():
            stream.close()
        if self._end is not None:
            os.close(self._end)

    def _left(self) -> dict[int, _Descendant]:
        """Its descendants, wherever they have gone: those with its variable in their environment, or in its group.

        A process that has just been started has no environment for a moment.
        """
        if not Path("/proc/self/environ").exists():
            return self._group()
        left = {}
        for folder in Path("/proc").glob("[0-9]*"):
            with suppress(OSError):  # it has just ended, or is another user's
                name, _, numbers = (folder / "stat").read_text(errors="replace").rpartition(")")
                state, parent, group = numbers.split()[:3]
                if folder.name == str(self.pid) or state == "Z":
                    continue
                if int(group) == self.pid or self._mark in (folder / "environ").read_bytes().split(b"\0"):
                    left[int(folder.name)] = _Descendant(name.partition("(")[2], int(parent))
        return left

    def _group(self) -> dict[int, _Descendant]:
        """Its process group, if it is not empty."""
        try:
            os.killpg(self.pid, 0)
        except (ProcessLookupError, PermissionError):
            return {}
        return {-self.pid: _Descendant("its process group", 0)}
