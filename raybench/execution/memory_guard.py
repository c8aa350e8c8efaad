"""The memory of a node while trials run on it: when it is nearly full, the heaviest trial ends before others do it.

Ray ends the worker of a trial, and the templates in it, when 95 % of its node's memory is taken, and the kernel ends
whatever it chooses when there is none. Neither says how much the trial held.
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
"""Of a node's memory: what Ray lets be taken, if its RAY_memory_usage_threshold does not say another part."""

BELOW_RAY = 0.03
"""How much earlier a trial is ended: what a process can take in a moment, on a node of some gigabytes."""

EVERY = 0.25
"""Seconds between two looks; Ray's own period. One takes 0.1 ms, in the supervisor's process."""

MODULE = "raybench.execution.fork_server"


def allowed() -> float:
    """The part of a node's memory that may be taken before its heaviest trial is ended."""
    threshold = OF_RAY
    with suppress(KeyError, ValueError):
        threshold = float(os.environ["RAY_memory_usage_threshold"])  # noqa: SIM112 — Ray's own name
    return min(OF_RAY, threshold) - BELOW_RAY


def should_kill(leader: int) -> dict[str, Any] | None:
    """Why a trial has to end now, as its error; None where it may go on.

    Args:
        leader: its process, which leads a session of its own.
    """
    free, total = memory_now()
    if not total or free >= (1 - allowed()) * total:
        return None
    own_size = _held(leader)
    if not own_size or any(_held(other) > own_size for other in _trials() - {leader}):
        return None
    shortage = f"{size(free)} of its node's {size(total)} of memory were left"
    return {
        "type": "OutOfMemory",
        "message": f"ended when it held {size(own_size)} and {shortage}",
        "peak_bytes": own_size,
    }


def _held(leader: int) -> int:
    """Bytes that a session of processes holds in memory; 0 where that is not known."""
    usage = Session(leader).read()
    return usage.rss_bytes if usage else 0


def _trials() -> set[int]:
    """The trials on this node, of any grid: processes of a template that lead a session."""
    leaders = set()
    for process in psutil.process_iter():
        with suppress(OSError, psutil.Error):  # it has just ended
            if os.getsid(process.pid) == process.pid and MODULE in process.cmdline():
                leaders.add(process.pid)
    return leaders
