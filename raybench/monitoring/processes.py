"""Resource usage of a session of processes: a trial's process and its descendants."""

from __future__ import annotations

import os
from contextlib import suppress
from dataclasses import dataclass

import psutil


@dataclass(frozen=True)
class Usage:
    """Resource usage of a session.

    Attributes:
        cpu_s: processor seconds of its processes until now, including ended ones that were waited for.
        rss_bytes: current memory of its processes; shared memory counts once per process.
        stopped: whether one of its processes is stopped (SIGSTOP).
    """

    cpu_s: float
    rss_bytes: int
    stopped: bool = False


class Session:
    """The processes of a session, and their children in sessions of their own, such as those of torchrun.

    A process of another session never joins this one, so each process is looked up once.

    Args:
        leader: the process whose id is the session's.
    """

    def __init__(self, leader: int) -> None:
        self._leader = leader
        self._members: dict[int, psutil.Process] = {}
        self._others: set[int] = set()

    def read(self) -> Usage | None:
        """The usage until now.

        None if the leader is gone, or the system does not report it.
        """
        pids = set(psutil.pids())
        self._others &= pids
        for pid in sorted(pids - self._others - self._members.keys()):  # parents before their children
            with suppress(OSError, psutil.Error):  # it has just ended
                process = psutil.Process(pid)
                if os.getsid(pid) == self._leader or process.ppid() in self._members:
                    self._members[pid] = process
                else:
                    self._others.add(pid)
        cpu_s, rss, stopped = 0.0, 0, False
        for pid, process in list(self._members.items()):
            try:
                with process.oneshot():
                    cpu_s += _cpu_s(process)
                    rss += process.memory_info().rss
                    stopped |= process.status() == psutil.STATUS_STOPPED
            except psutil.Error:
                del self._members[pid]
        return Usage(cpu_s, rss, stopped) if self._leader in self._members else None


def family_cpu_s(root: int) -> float | None:
    """Processor seconds of a process and all its descendants; None if the system does not report them.

    Processes that have ended count if their parent has waited for them.
    """
    try:
        process = psutil.Process(root)
        total_s, descendants = _cpu_s(process), process.children(recursive=True)
    except psutil.Error:
        return None
    for descendant in descendants:
        with suppress(psutil.Error):  # it has just ended
            total_s += _cpu_s(descendant)
    return total_s


def _cpu_s(process: psutil.Process) -> float:
    """Its processor seconds, including its children that it has waited for."""
    times = process.cpu_times()
    return float(times.user + times.system + times.children_user + times.children_system)
