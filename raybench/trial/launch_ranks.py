"""The ranks of a trial: processes that train one model together.

Each rank has its own device. The trial's process forks one process per device before any device is initialised, and
then only reads their events. Every rank does the same work and emits the same events, which are merged into one
trial's.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
import threading
import time
import traceback
import warnings
from collections import deque
from collections.abc import Callable, Mapping
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import NoReturn, cast

from raybench.core import events
from raybench.core.cell import Cell
from raybench.core.events import Event
from raybench.core.job import DEVICES
from raybench.core.process_guard import die_with_parent, watch
from raybench.core.rank import Rank, set_rank
from raybench.engines import FRAMEWORKS
from raybench.results.epoch import over_ranks
from raybench.trial.journal import Send

GRACE_SECONDS = 1.0
"""Seconds for the other ranks to end after one has reported an error.

They may report the same error, or one that follows from the death of a rank."""


def ranks_of(cell: Cell) -> int:
    """Number of processes that train a cell's model together."""
    is_ranked = cell.device.replication == DEVICES and FRAMEWORKS[cell.framework].has_ranks
    return cell.device.devices if is_ranked else 1


def run_ranks(count: int, folder: Path, work: Callable[[Send], None], send: Send) -> None:
    """Run the work in several processes and send merged events, as if from one.

    An error in any rank ends all of them, and is the trial's error. If a rank dies without an end event, the others are
    killed and this process ends in the same way, so that its supervisor sees the same as without ranks.

    Args:
        count: number of ranks; for one, the work is done in this process.
        folder: the folder of the rendezvous file, on a file system of this host.
        work: the work of each rank, with a function that it sends events by; the last one is one of `events.ENDS`.
        send: receives the merged events.
    """
    if count == 1:
        work(send)
        return
    folder.mkdir(parents=True, exist_ok=True)
    rendezvous = folder / "ranks"
    processes: list[_Process] = []
    try:
        for number in range(count):
            processes.append(_Process(Rank(number, count, str(rendezvous)), work))
        code = _follow(processes, send)
    finally:
        for process in processes:
            process.end()
        rendezvous.unlink(missing_ok=True)
    if code is not None:
        _die_of(code)


class _Process:
    """A rank, from the perspective of the parent process."""

    def __init__(self, rank: Rank, work: Callable[[Send], None]) -> None:
        self.number = rank.number
        self.events: deque[tuple[int, Event]] = deque()
        context = multiprocessing.get_context("fork")
        self.pipe, end = context.Pipe()
        self._process = context.Process(target=_be, args=(rank, work, end, self.pipe))
        with warnings.catch_warnings():
            # The one other thread of this process only waits for a pipe to close.
            warnings.simplefilter("ignore", DeprecationWarning)
            self._process.start()
        end.close()

    def read(self) -> None:
        """Read a message, or note its end."""
        try:
            self.events.append(self.pipe.recv())
        except (EOFError, ConnectionError):
            self._process.join()

    @property
    def code(self) -> int | None:
        """Its exit code; None while it runs."""
        return self._process.exitcode

    @property
    def last(self) -> tuple[int, Event] | None:
        """Time and event of the end of its work, or None."""
        return self.events[-1] if self.events and self.events[-1][1]["event"] in events.ENDS else None

    def end(self) -> None:
        """Kill it if it is running, and close its pipe."""
        self._process.kill()
        self._process.join()
        self.pipe.close()


def _be(rank: Rank, work: Callable[[Send], None], pipe: Connection, of_parent: Connection) -> NoReturn:
    """Run as a rank: do the work and send its events; with the last one wait to be killed.

    A rank that exited, or freed what the ranks share, would break its connections, and the others would report that
    instead of their own error.
    """
    try:
        die_with_parent()
        of_parent.close()
        watch(pipe.fileno())  # where the parent's end does not end this process
        set_rank(rank)
        own_pid = os.getpid()

        def send(event: Event) -> None:
            if os.getpid() != own_pid:  # a process that the training code has forked
                os._exit(0)
            pipe.send((time.perf_counter_ns(), event))
            if event["event"] in events.ENDS:
                sys.stdout.flush()
                sys.stderr.flush()
                threading.Event().wait()

        work(send)
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(1)


def _follow(processes: list[_Process], send: Send) -> int | None:
    """Send the merged events of all ranks and the final event.

    The death of a rank is examined before any error, because it breaks the connections of the others, which then report
    that.

    Returns:
        The exit code of a rank that died without an end event, or None.
    """
    deadline: float | None = None
    by_pipe = {process.pipe: process for process in processes}
    while True:
        running = [pipe for pipe, process in by_pipe.items() if process.code is None]
        ready = wait(running, None if deadline is None else max(0.0, deadline - time.monotonic()))
        for pipe in ready:
            by_pipe[cast(Connection, pipe)].read()
        while all(process.events and process.events[0] is not process.last for process in processes):
            send(over_ranks([process.events.popleft()[1] for process in processes]))
        failed = [process for process in processes if process.code is not None and not process.last]
        if failed:
            number, code = failed[0].number, failed[0].code
            sys.stderr.write(f"rank {number} of {len(processes)} ended without a message, with exit code {code}\n")
            sys.stderr.flush()
            return code
        end_events = {process.number: process.last for process in processes if process.last}
        if len(end_events) == len(processes) or (deadline and not ready):
            send(_end_of_all(end_events, len(processes)))
            return None
        if deadline is None and any(event["error"] for _, event in end_events.values()):
            deadline = time.monotonic() + GRACE_SECONDS


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
