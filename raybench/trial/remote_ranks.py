"""Ranks of a trial on several nodes: each further node forwards the messages of its ranks to the first one.

The first node merges the events of all ranks, as if they were its own processes. The nodes prove to each other with a
key of the trial that they belong to it.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from multiprocessing import AuthenticationError
from multiprocessing.connection import Client, Connection, Listener, wait
from threading import Thread
from typing import Any

from raybench.core import memory
from raybench.core.events import ENDS, Event
from raybench.core.job import Job
from raybench.core.status import TrialStatus
from raybench.trial.exit_status import LONG_TAIL, classify_exit, tail

CONNECT_SECONDS = 300.0
"""Seconds in which all nodes must have started their ranks: loading a framework on a cold disk takes minutes."""

LOOK_SECONDS = 1.0  # most seconds between two looks at which ranks have died
WRITE_SECONDS = 0.5  # seconds in which a rank writes at which line it is


class FollowedRank:
    """A rank, from the perspective of the process that merges the events of all.

    Attributes:
        events: what it has sent, with the time of each, until it is merged.
        meets: what it waits with for the other ranks, if it does.
        end: of a rank on another node, the status and the error of its process, if it died without an event.
    """

    end: tuple[str, dict[str, Any]] | None = None

    def __init__(self, number: int, pipe: Connection) -> None:
        self.number, self.pipe = number, pipe
        self.events: deque[tuple[int, Event]] = deque()
        self.meets: list[Any] = []

    def go_on(self, value: Any) -> None:
        """Let it go on from where it waits for the others."""
        self.meets = []
        with suppress(OSError):  # it has just ended, which is read next
            self.pipe.send(value)

    @property
    def last(self) -> tuple[int, Event] | None:
        """Time and event of the end of its work, or None."""
        return self.events[-1] if self.events and self.events[-1][1]["event"] in ENDS else None

    def write_stack(self) -> None:
        """Let it write at which lines it is; one on another node is not asked."""

    def stack(self) -> str:
        """The lines at which it was, by `faulthandler`; empty if a signal has stopped it, and on another node."""
        return ""


class RemoteRank(FollowedRank):
    """A rank on another node."""

    def __init__(self, number: int, node: str, pipe: Connection) -> None:
        super().__init__(number, pipe)
        self.node = node
        self.code: int | None = None

    def read(self) -> None:
        """Read a message, or note that the connection is closed."""
        try:
            kind, content = self.pipe.recv()
        except (EOFError, OSError):
            error = {"type": "NodeLost", "message": f"the connection to {self.node} was closed"}
            self.code, self.end = -1, self.end or (TrialStatus.LOST, error)
            return
        if kind == "event":
            self.events.append((time.perf_counter_ns(), content))
        elif kind == "meet":
            self.meets = [content]
        else:
            self.code, self.end = -1, content

    def kill(self) -> None:
        """Close the connection, upon which its node kills it."""
        self.pipe.close()


@contextmanager
def remote_ranks(job: Job, count: int) -> Iterator[list[RemoteRank]]:
    """The ranks of the other nodes, once all of them have connected.

    Raises:
        TimeoutError: a node has not.
    """
    ranks: list[RemoteRank] = []
    with Listener((job.address, job.relay_port), backlog=count, authkey=job.relay_key.encode()) as listener:

        def accept() -> None:
            while len(ranks) < count:
                with suppress(AuthenticationError, EOFError):  # a stranger without the key
                    pipe = listener.accept()
                    number, node = pipe.recv()
                    ranks.append(RemoteRank(number, node, pipe))

        accepting = Thread(target=accept, daemon=True)
        accepting.start()
        accepting.join(CONNECT_SECONDS)  # it ends with an error when the listener is closed
        if len(ranks) < count:
            raise TimeoutError(f"{count - len(ranks)} ranks of other nodes did not start within {CONNECT_SECONDS:g} s")
    yield sorted(ranks, key=lambda rank: rank.number)


def forward(job: Job, processes: Sequence[Any]) -> None:
    """Forward the messages of this node's ranks to the first node, and its answers, until it ends the trial.

    Raises:
        OSError: the first node cannot be reached.
    """
    oom_kills = memory.oom_kills()
    ranks = {_connect(job, process.number): process for process in processes}
    dead: set[Connection] = set()
    while True:
        # The pipe of a dead rank is open as long as a process that it has forked.
        running = [process.pipe for process in ranks.values() if process.code is None]
        ready = wait([*running, *ranks], LOOK_SECONDS)
        for pipe, process in ranks.items():
            if process.pipe in ready:
                process.read()
            try:
                if pipe in ready:
                    process.go_on(pipe.recv())
            except (EOFError, OSError):  # the first node has ended the trial
                return
        for pipe, process in ranks.items():
            with suppress(OSError):  # the first node has ended the trial, which its closed connection says
                while process.events:
                    pipe.send(("event", process.events.popleft()[1]))
                if process.meets:
                    pipe.send(("meet", process.meets.pop()))
                if process.code is not None and pipe not in dead:
                    dead.add(pipe)
                    is_oom = memory.oom_kills() > oom_kills
                    pipe.send(("end", classify_exit(process.code, job, is_oom, None, tail(job, LONG_TAIL))))


def _connect(job: Job, number: int) -> Connection:
    deadline = time.monotonic() + CONNECT_SECONDS
    while True:
        try:
            pipe = Client((job.master_address, job.relay_port), authkey=job.relay_key.encode())
        except OSError:  # it has not started yet
            if time.monotonic() > deadline:
                raise
            time.sleep(0.1)
        else:
            pipe.send((number, f"node {job.node_rank + 1} ({job.address})"))
            return pipe
