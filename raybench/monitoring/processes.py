"""What a session of processes has used: a trial's process and whatever it started."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from pathlib import Path

from raybench.monitoring.host import TICKS

PAGE = os.sysconf("SC_PAGE_SIZE") if hasattr(os, "sysconf") else 4096
PROC = Path("/proc")


@dataclass(frozen=True)
class Usage:
    """What a session has used.

    Attributes:
        cpu_s: processor seconds of its processes until now, with those that have ended and were waited for.
        rss_bytes: what its processes hold in memory now; what two of them share counts twice.
        peak_rss_bytes: the most that one process of it, or at this moment all of them, have held.
    """

    cpu_s: float
    rss_bytes: int
    peak_rss_bytes: int


class Session:
    """The processes of a session, found in /proc.

    A process of another session never joins this one, so that each is asked once for its own.

    Args:
        leader: the process whose number is the session's.
    """

    def __init__(self, leader: int) -> None:
        self._leader = leader
        self._members: set[int] = set()
        self._others: set[int] = set()

    def read(self) -> Usage | None:
        """What it has used until now; None where its leader is gone, or the system does not tell."""
        try:
            pids = {int(name) for name in os.listdir(PROC) if name.isdecimal()}  # noqa: PTH208 — 3× as quick
        except OSError:
            return None
        self._members &= pids
        self._others &= pids
        cpu, rss, peak = 0.0, 0, 0
        for process in pids - self._others:
            fields = _stat(process)
            if fields is None:
                continue
            if int(fields[3]) != self._leader:
                self._others.add(process)
                continue
            self._members.add(process)
            cpu += sum(map(int, fields[11:15])) / TICKS
            rss += int(fields[21]) * PAGE
            peak = max(peak, _peak(process))
        return Usage(cpu, rss, max(rss, peak)) if self._leader in self._members else None


def family_cpu_s(root: int) -> float | None:
    """Processor seconds of a process and all that descend from it; None if the system does not report them.

    Processes that have ended count if their parent has waited for them.
    """
    try:
        pids = [int(name) for name in os.listdir(PROC) if name.isdecimal()]  # noqa: PTH208 — 3× as quick
    except OSError:
        return None
    stats = {process: fields for process in pids if (fields := _stat(process))}
    children: dict[int, list[int]] = {}
    for process, fields in stats.items():
        children.setdefault(int(fields[1]), []).append(process)
    total, pending = 0.0, [root]
    while pending:
        process = pending.pop()
        total += sum(map(int, stats[process][11:15])) / TICKS if process in stats else 0.0
        pending += children.get(process, [])
    return total if root in stats else None


def _stat(process: int) -> list[str] | None:
    """The fields of /proc/PID/stat from the third (state) on; the second, a name, may hold anything."""
    try:
        return (PROC / str(process) / "stat").read_text(errors="replace").rpartition(") ")[2].split()
    except OSError:
        return None


def _peak(process: int) -> int:
    """The most a process has held, in bytes; 0 where that is not known."""
    try:
        match = re.search(r"^VmHWM:\s*(\d+) kB", (PROC / str(process) / "status").read_text(), re.MULTILINE)
    except OSError:
        return 0
    return int(match.group(1)) * 1024 if match else 0
