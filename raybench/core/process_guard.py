"""Process lifetime: no process of a trial outlives the process that requested it."""

from __future__ import annotations

import ctypes
import os
import select
import signal
import sys
import threading
import time
from collections.abc import Callable, Collection
from contextlib import suppress
from pathlib import Path
from typing import NoReturn

PR_SET_PDEATHSIG, PR_SET_CHILD_SUBREAPER = 1, 36


def die_with_parent(signum: signal.Signals = signal.SIGKILL) -> None:
    """Signal this process when its parent ends (Linux; elsewhere `watch`)."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signum)


def adopt_orphans() -> None:
    """Adopt every orphaned descendant, even in another process session (Linux)."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1)


def watch(descriptor: int) -> None:
    """Kill this process's group when the other end of a pipe closes.

    The pipe closes when the process that requested the result ends.
    """

    def wait() -> None:
        poll = select.poll()
        poll.register(descriptor, 0)  # hang-up and error are always reported; nothing is read
        while not poll.poll():
            pass
        os.killpg(os.getpgid(0), signal.SIGKILL)

    threading.Thread(target=wait, name="lifeline", daemon=True).start()


def guard(lifeline: int, last: Callable[[], object]) -> None:
    """Fork a child, in which alone this returns, and guard it.

    When the child or its requester ends, the guard ends the child and all its descendants. Orphaned descendants are
    adopted, so none escapes by a process session or an environment of its own. If the guard itself is killed, the
    kernel sends its child SIGTERM, whose handler does the same in the guard's place; a process that the child forks has
    to reset that handler.

    Args:
        lifeline: a pipe whose other end is closed when the requester of the child has ended.
        last: called when all processes have ended.
    """
    adopt_orphans()
    wakeup_read, wakeup_write = os.pipe()
    os.set_blocking(wakeup_write, False)
    signal.set_wakeup_fd(wakeup_write)
    old_handler = signal.signal(signal.SIGCHLD, lambda number, frame: None)
    own_pid = os.getpid()
    child = os.fork()
    if child:
        _stay(child, lifeline, wakeup_read, last)
    signal.set_wakeup_fd(-1)
    signal.signal(signal.SIGCHLD, old_handler)
    os.close(wakeup_read)
    os.close(wakeup_write)

    def end(signum: int, frame: object) -> NoReturn:
        end_children()
        with suppress(Exception):
            last()
        os._exit(1)

    signal.signal(signal.SIGTERM, end)
    die_with_parent(signal.SIGTERM)
    if os.getppid() != own_pid:  # it was killed before the kernel was asked
        os._exit(1)


def _stay(child: int, lifeline: int, wakeup_read: int, last: Callable[[], object]) -> NoReturn:
    devnull = os.open(os.devnull, os.O_WRONLY)
    os.dup2(devnull, 1)  # the end of the child's output is the end of the child
    poll = select.poll()
    poll.register(lifeline, 0)
    poll.register(wakeup_read, select.POLLIN)
    code = None
    while code is None:
        ready = {descriptor for descriptor, _ in poll.poll()}
        if lifeline in ready:
            break
        os.read(wakeup_read, 1 << 12)
        code = _reap(child)
    end_children()
    with suppress(Exception):
        last()
    os._exit(0 if code == 0 else 1)


def _reap(child: int) -> int | None:
    """Reap every child that has ended.

    Returns:
        The exit code of `child` if it is one of them.
    """
    with suppress(ChildProcessError):
        while (result := os.waitpid(-1, os.WNOHANG))[0]:
            if result[0] == child:
                return os.waitstatus_to_exitcode(result[1])
    return None


def children() -> set[int]:
    """Process ids of this process's children, if the system has /proc."""
    own_pid, pids = str(os.getpid()), set()
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):  # it has just ended
            # The second field, a name, may hold anything.
            if stat.read_text(errors="replace").rpartition(") ")[2].split()[1] == own_pid:
                pids.add(int(stat.parent.name))
    return pids


def end_children(spare: Collection[int] = (), seconds: float = 5.0) -> None:
    """Kill every child and adopted descendant, and wait until they have ended.

    Returns at once if there is none.

    Args:
        spare: processes that are left running.
        seconds: the time limit, after which processes that the kernel cannot end yet are left.
    """
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        try:
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        except ChildProcessError:
            return
        remaining = children().difference(spare)
        if not remaining:
            return
        for process in remaining:
            with suppress(ProcessLookupError):
                os.kill(process, signal.SIGKILL)
        time.sleep(0.002)
