"""Status of trials that ended without reporting it."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Any

from raybench.core import memory
from raybench.core.events import OUTPUT
from raybench.core.job import Job
from raybench.core.status import KILLED, TrialStatus
from raybench.trial.kept_output import KEPT_BYTES

TAIL, LONG_TAIL = 20, 500
"""Lines of a dead trial's output: those kept in its record, and those searched for an out-of-memory message."""


def how_ended(code: int) -> str:
    """How a process ended, by its exit code."""
    return f"was ended by {signal.Signals(-code).name}" if code < 0 else f"exited with status {code}"


def classify_exit(
    code: int | None,
    job: Job,
    oom_killed: bool,
    peak: int | None,
    output: str,
    who: str = "the process",
    details: str = "",
) -> tuple[TrialStatus, dict[str, Any]]:
    """The status of a trial that ended without reporting it.

    SIGKILL counts as out of memory if the kernel has recorded an out-of-memory kill meanwhile, else as a loss of the
    process. Any other death counts as out of memory if the trial's last output says so: C++ aborts if an allocation
    fails, and TensorFlow's convolutions on a CPU continue with the array that was not allocated.

    Args:
        who, details: the beginning of the message, and its end.
    """
    if code is None:
        return TrialStatus.LOST, {"type": "ProcessGone", "message": "the trial's process disappeared"}
    reason = f"{who} {how_ended(code)}{details}"
    usage = memory.describe(output, peak, job.memory_limit)
    if code in (-signal.SIGKILL, 128 + signal.SIGKILL):  # as a shell says that of its command
        if oom_killed:
            message = f"{who} was killed by the kernel because memory ran out"
            return TrialStatus.OOM, {"type": "OutOfMemory", "message": message, **usage}
        return TrialStatus.LOST, {"type": KILLED, "message": reason}
    if memory.looks_like_oom(output, limited=bool(job.memory_limit)):
        message = reason if details else f"{reason} when memory ran out"
        return TrialStatus.OOM, {"type": "OutOfMemory", "message": message, **usage}
    return TrialStatus.FAILED, {"type": signal.Signals(-code).name if code < 0 else "Exit", "message": reason}


def tail(job: Job, lines: int = TAIL) -> str:
    """The last lines of a job's output."""
    try:
        with Path(job.folder, OUTPUT).open("rb") as file:
            file.seek(max(0, file.seek(0, os.SEEK_END) - KEPT_BYTES))
            return "\n".join(file.read().decode(errors="replace").splitlines()[-lines:])
    except OSError:
        return ""
