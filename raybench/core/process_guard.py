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

PR_SET_PDEATHSIG, PR_SET_CHILD_SUBREAPER = 1, 36
PARENT, SESSION, STARTED = 1, 3, 19  # fields of /proc/PID/stat after the name


def die_with_parent(signum: signal.Signals = signal.SIGKILL) -> None:
    """Signal this process when the thread that started it ends (Linux; elsewhere `watch`)."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signum)


def adopt_orphans() -> None:
    """Adopt every orphaned descendant, even in a different process session (Linux)."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1)


def kill_own_group() -> None:
    """Kill this process and its process group."""
    os.killpg(os.getpgid(0), signal.SIGKILL)


def watch(descriptor: int, end: Callable[[], object] = kill_own_group) -> None:
    """Call a function, in a thread, when the other end of a pipe closes with the process that requested the work."""

    def wait() -> None:
        poll = select.poll()
        poll.register(descriptor, 0)  # hang-up and error are always reported; nothing is read
        while not poll.poll():
            pass
        end()

    threading.Thread(target=wait, name="lifeline", daemon=True).start()


def children() -> set[int]:
    """Process ids of this process's children, if the system has /proc."""
    own_pid, pids = str(os.getpid()), set()
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):  # it has just ended
            # The second field, a name, may hold anything.
            if stat.read_text(errors="replace").rpartition(") ")[2].split()[1] == own_pid:
                pids.add(int(stat.parent.name))
    return pids


def daemons() -> list[str]:
    """Name the processes that a trial's process has started and that have left its session (Linux).

    They are its children, or orphans that its parent has adopted.
    """
    rows = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):  # it has just ended
            name, _, fields = stat.read_text(errors="replace").rpartition(") ")
            rows[int(stat.parent.name)] = name.partition("(")[2], fields.split()
    own_pid = os.getpid()
    if own_pid not in rows:
        return []
    _, own = rows[own_pid]
    family = {str(own_pid), own[PARENT]}
    return [
        f"{name} (process {pid})"
        for pid, (name, fields) in rows.items()
        if fields[PARENT] in family
        and fields[SESSION] != own[SESSION]
        and int(fields[STARTED]) >= int(own[STARTED])
        and fields[0] != "Z"
    ]


def end_children(spare: Collection[int] = (), seconds: float = 5.0) -> None:
    """Kill every child and adopted descendant, and wait until they have ended.

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
