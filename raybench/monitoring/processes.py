"""Resource usage of a process and its descendants."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass

import psutil


@dataclass(frozen=True)
class Usage:
    """Resource usage of a family of processes.

    Attributes:
        cpu_s: processor seconds of its processes until now, including ended ones that were waited for.
        stopped: whether one of its processes is stopped (SIGSTOP).
    """

    cpu_s: float
    stopped: bool


def family_usage(root: int) -> Usage | None:
    """The usage of a process and all its descendants until now; None if it is gone."""
    try:
        process = psutil.Process(root)
        family = [process, *process.children(recursive=True)]
    except psutil.Error:
        return None
    cpu_s, stopped = 0.0, False
    for member in family:
        with suppress(psutil.Error):  # it has just ended
            times = member.cpu_times()
            cpu_s += times.user + times.system + times.children_user + times.children_system
            stopped |= member.status() == psutil.STATUS_STOPPED
    return Usage(cpu_s, stopped)
