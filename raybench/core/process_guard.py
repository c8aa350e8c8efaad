"""Process lifetime: no process of a trial outlives the process that requested it."""

from __future__ import annotations

import ctypes
import os
import select
import signal
import sys
import threading
import time
from collections.abc import Callable, Collection, Iterator
from contextlib import suppress
from pathlib import Path

PR_SET_PDEATHSIG, PR_SET_CHILD_SUBREAPER = 1, 36
STATE, PARENT, GROUP, SESSION, STARTED = 0, 1, 2, 3, 19  # fields of a process
TICKS = slice(11, 15)  # its processor time
END_WITHIN_S = 5.0  # after this, processes that the kernel cannot end yet are left


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


def processes() -> Iterator[tuple[int, str, list[str]]]:
    """Yield the id of each process, its name, and the fields of /proc/PID/stat after that, from its state on."""
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):  # it has just ended
            name, _, fields = stat.read_text(errors="replace").rpartition(") ")  # the name may hold anything
            yield int(stat.parent.name), name.partition("(")[2], fields.split()


def children() -> set[int]:
    """Process ids of this process's children, if the system has /proc."""
    return {pid for pid, _, fields in processes() if int(fields[PARENT]) == os.getpid()}


def daemons() -> list[str]:
    """Name the processes that a trial's process has started and that have left its session (Linux).

    They are its children, or orphans that its parent has adopted.
    """
    rows = {pid: (name, fields) for pid, name, fields in processes()}
    if os.getpid() not in rows:
        return []
    _, trial = rows[os.getpid()]
    family = {str(os.getpid()), trial[PARENT]}
    return [
        f"{name} (process {pid})"
        for pid, (name, fields) in rows.items()
        if fields[PARENT] in family
        and fields[SESSION] != trial[SESSION]
        and int(fields[STARTED]) >= int(trial[STARTED])
        and fields[STATE] != "Z"
    ]


def end_children(spare: Collection[int] = ()) -> None:
    """Kill every child and adopted descendant but those to spare, and wait until they have ended."""
    deadline = time.monotonic() + END_WITHIN_S
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
