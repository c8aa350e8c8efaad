"""The ranks of a trial: processes that train one model together.

Each rank has its own device. The trial's process forks one process per device before any device is initialised, and
then only reads their events. Every rank does the same work and emits the same events, which are merged into one
trial's.
"""

from __future__ import annotations

import json
import os
import selectors
import signal
import sys
import threading
import time
import traceback
import warnings
from collections import deque
from collections.abc import Callable, Generator, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import NoReturn

from raybench.core import events
from raybench.core.cell import Cell
from raybench.core.events import Event
from raybench.core.job import DEVICES
from raybench.core.process_guard import die_with_parent, watch
from raybench.core.rank import Rank, set_rank
from raybench.engines import FRAMEWORKS
from raybench.results.epoch import over_ranks

GRACE = 1.0
"""Seconds for the other ranks to end after one has reported an error.

They may report the same error, or one that follows from the death of a rank."""


def ranks_of(cell: Cell) -> int:
    """Number of processes that train a cell's model together."""
    is_ranked = cell.device.replication == DEVICES and FRAMEWORKS[cell.framework].has_ranks
    return cell.device.devices if is_ranked else 1


def run_ranks(count: int, folder: Path, work: Callable[[], Iterator[Event]]) -> Iterator[Event]:
    """Run the work in several processes and yield merged events, as if from one.

    An error in any rank ends all of them, and is the trial's error. If a rank dies without an end event, the others are
    killed and this process ends in the same way, so that its supervisor sees the same as without ranks.

    Args:
        count: number of ranks; for one, the work is done in this process.
        folder: the folder of the rendezvous file, on a file system of this host.
        work: the work of each rank; its last event is one of `events.ENDS`.
    """
    if count == 1:
        yield from work()
        return
    folder.mkdir(parents=True, exist_ok=True)
    rendezvous = folder / "ranks"
    lifeline_read, lifeline = os.pipe()  # the write end stays open as long as this process lives
    processes: list[_Process] = []
    try:
        for number in range(count):
            processes.append(_start(Rank(number, count, str(rendezvous)), work, lifeline_read, lifeline))
        code = yield from _follow(processes)
    finally:
        for process in processes:
            process.end()
        os.close(lifeline_read)
        os.close(lifeline)
        rendezvous.unlink(missing_ok=True)
    if code is not None:
        _die_of(code)


@dataclass
class _Process:
    """A rank, from the perspective of the parent process."""

    number: int
    pid: int
    pipe: int
    events: deque[tuple[int, Event]] = field(default_factory=deque)
    code: int | None = None
    _rest: bytes = b""

    def read(self) -> bool:
        """Read its new events; return False when it has ended."""
        chunk = os.read(self.pipe, 1 << 16)
        *lines, self._rest = (self._rest + chunk).split(b"\n")
        self.events.extend((message["at"], message["event"]) for message in map(json.loads, lines))
        if not chunk:
            self._reap()
        return bool(chunk)

    @property
    def last(self) -> tuple[int, Event] | None:
        """Time and event of the end of its work, or None."""
        return self.events[-1] if self.events and self.events[-1][1]["event"] in events.ENDS else None

    def _reap(self) -> None:
        self.code = os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])

    def end(self) -> None:
        """Kill it if it is running, and close its pipe."""
        if self.code is None:
            os.kill(self.pid, signal.SIGKILL)
            self._reap()
        os.close(self.pipe)


def _start(rank: Rank, work: Callable[[], Iterator[Event]], lifeline_read: int, lifeline: int) -> _Process:
    read_fd, write_fd = os.pipe()
    with warnings.catch_warnings():
        # The one other thread of this process only waits for a pipe to close.
        warnings.simplefilter("ignore", DeprecationWarning)
        pid = os.fork()
    if pid == 0:
        os.close(read_fd)
        os.close(lifeline)
        _be(rank, work, write_fd, lifeline_read)
    os.close(write_fd)
    return _Process(rank.number, pid, read_fd)


def _be(rank: Rank, work: Callable[[], Iterator[Event]], write_fd: int, lifeline_read: int) -> NoReturn:
    """Run as a rank: do the work and send its events.

    Then wait to be killed.

    A rank that exited would break its connections, and the others would report that instead of their own error.
    """
    try:
        die_with_parent()
        watch(lifeline_read)
        set_rank(rank)
        with os.fdopen(write_fd, "wb") as stream:
            for event in work():
                stream.write(json.dumps({"at": time.perf_counter_ns(), "event": event}).encode() + b"\n")
                stream.flush()
            sys.stdout.flush()
            sys.stderr.flush()
            threading.Event().wait()
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(1)


def _follow(processes: list[_Process]) -> Generator[Event, None, int | None]:
    """Yield the merged events of all ranks and the final event.

    The death of a rank is examined before any error, because it breaks the connections of the others, which then report
    that.

    Returns:
        The exit code of a rank that died without an end event, or None.
    """
    deadline: float | None = None
    with selectors.DefaultSelector() as selector:
        for process in processes:
            selector.register(process.pipe, selectors.EVENT_READ, process)
        while True:
            remaining_s = None if deadline is None else max(0.0, deadline - time.monotonic())
            ready = selector.select(remaining_s)
            for key, _ in ready:
                if not key.data.read():
                    selector.unregister(key.fd)
            while all(process.events and process.events[0] is not process.last for process in processes):
                yield over_ranks([process.events.popleft()[1] for process in processes])
            failed = [process for process in processes if process.code is not None and not process.last]
            if failed:
                number, code = failed[0].number, failed[0].code
                sys.stderr.write(f"rank {number} of {len(processes)} ended without a message, with exit code {code}\n")
                sys.stderr.flush()
                return code
            end_events = {process.number: process.last for process in processes if process.last}
            if len(end_events) == len(processes) or (deadline and not ready):
                yield _end_of_all(end_events, len(processes))
                return None
            if deadline is None and any(event["error"] for _, event in end_events.values()):
                deadline = time.monotonic() + GRACE


def _end_of_all(end_events: Mapping[int, tuple[int, Event]], count: int) -> Event:
    """The common end of all ranks, or the first error with its rank."""
    errors = {number: event["error"] or {} for number, (_, event) in end_events.items()}
    kinds = {(error.get("type"), error.get("message")) for error in errors.values()}
    if len(end_events) == count and len(kinds) == 1:
        return over_ranks([end_events[number][1] for number in sorted(end_events)])
    first_failed = min((number for number, error in errors.items() if error), key=lambda number: end_events[number][0])
    return end_events[first_failed][1] | {"error": {**errors[first_failed], "rank": first_failed}}


def _die_of(code: int) -> NoReturn:
    """End this process in the same way as another.

    By the same signal, or with the same exit status.
    """
    if code < 0:
        if -code != signal.SIGKILL:
            signal.signal(-code, signal.SIG_DFL)
        os.kill(os.getpid(), -code)
    os._exit(code or 1)
