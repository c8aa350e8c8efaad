"""Memory guard of a node: when memory is nearly full, its largest trial is terminated first.

Ray kills the worker of a trial, with the fork servers in it, when 95% of its node's memory is used, and the kernel
kills an arbitrary process when no memory is left. Neither reports how much the trial used.
"""

from __future__ import annotations

import os
from contextlib import suppress
from typing import Any

import psutil

from raybench.core.memory import size
from raybench.devices.host import memory_now
from raybench.monitoring.processes import Session

OF_RAY = 0.95
"""Fraction of a node's memory at which Ray kills workers, unless RAY_memory_usage_threshold sets another one."""

BELOW_RAY = 0.03
"""Margin below Ray's threshold: memory that a process can allocate in a moment, on a node of some gigabytes."""

EVERY = 0.25
"""Seconds between two checks, as in Ray. A check takes 0.1 ms, in the supervisor's process."""

MODULE = "raybench.execution.fork_server"


def allowed() -> float:
    """Fraction of a node's memory above which its largest trial is terminated."""
    threshold = OF_RAY
    with suppress(KeyError, ValueError):
        threshold = float(os.environ["RAY_memory_usage_threshold"])  # noqa: SIM112 — Ray's own name
    return min(OF_RAY, threshold) - BELOW_RAY


def should_kill(leader: int) -> dict[str, Any] | None:
    """The error with which a trial has to be terminated, or None.

    Args:
        leader: its process, which leads its own session.
    """
    free, total = memory_now()
    if not total or free >= (1 - allowed()) * total:
        return None
    own_size = _held(leader)
    if not own_size or any(_held(other) > own_size for other in _trials() - {leader}):
        return None
    shortage = f"{size(free)} of the node's {size(total)} of memory were left"
    return {
        "type": "OutOfMemory",
        "message": f"stopped when it used {size(own_size)} and {shortage}",
        "peak_bytes": own_size,
    }


def _held(leader: int) -> int:
    """Memory in bytes used by a session of processes; 0 if it is not known."""
    usage = Session(leader).read()
    return usage.rss_bytes if usage else 0


def _trials() -> set[int]:
    """The trials on this node, of any grid: processes of a fork server that lead a session."""
    leaders = set()
    for process in psutil.process_iter():
        with suppress(OSError, psutil.Error):  # it has just ended
            if os.getsid(process.pid) == process.pid and MODULE in process.cmdline():
                leaders.add(process.pid)
    return leaders
