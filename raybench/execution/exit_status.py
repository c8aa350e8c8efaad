"""What a trial's end is called that it could not tell itself."""

from __future__ import annotations

import signal
from pathlib import Path
from typing import Any

from raybench.core import memory
from raybench.core.job import Job
from raybench.core.status import TrialStatus
from raybench.trial.phase import last

TAIL, LONG_TAIL = 20, 500
"""Lines of a dead trial's output that go into its record, and in which it may have told of its memory."""


def classify_exit(
    code: int | None, job: Job, oom_killed: bool, peak: int | None, output: str
) -> tuple[str, dict[str, Any]]:
    """The status of a trial that ended without saying so.

    SIGKILL is memory where the kernel counted a kill for memory meanwhile, and otherwise whatever ends machines. Any
    other death is memory where the last that the trial wrote says so: C++ aborts when there is none, and TensorFlow's
    convolutions on a CPU go on with the array that they did not get.

    Args:
        code: its exit code; negative is a signal, None where nobody knows.
        oom_killed: whether the kernel counted a kill for memory.
        peak: the most bytes that it held, where that is known.
        output: the end of what it wrote.
    """
    phase = phase_of(job)
    if code is None:
        return TrialStatus.LOST, {"type": "ProcessGone", "message": "the trial's process is gone", "phase": phase}
    reason = (
        f"the process died of {signal.Signals(-code).name}"
        if code < 0
        else f"the process ended by itself with exit status {code}"
    )
    usage = memory.describe(output, peak, job.memory_limit)
    if code == -signal.SIGKILL:
        if oom_killed:
            message = "killed by the kernel for its memory"
            return TrialStatus.OOM, {"type": "OutOfMemory", "message": message, "phase": phase, **usage}
        return TrialStatus.LOST, {"type": "Killed", "message": "killed by SIGKILL", "phase": phase}
    if memory.looks_like_oom(output, limited=bool(job.memory_limit)):
        return TrialStatus.OOM, {
            "type": "OutOfMemory",
            "message": f"{reason} when memory ran out",
            "phase": phase,
            **usage,
        }
    kind = signal.Signals(-code).name if code < 0 else "Exit"
    return TrialStatus.FAILED, {"type": kind, "message": reason, "phase": phase}


def phase_of(job: Job) -> str:
    """What a job was doing when its process ended."""
    return "check" if job.check else last(Path(job.folder))


def oom_kills() -> int:
    """How many processes the kernel has killed for memory in this cgroup; 0 where it does not say."""
    try:
        text = Path("/sys/fs/cgroup/memory.events").read_text()
    except OSError:
        return 0
    return sum(int(line.split()[1]) for line in text.splitlines() if line.startswith("oom_kill "))


def tail(path: Path, lines: int = TAIL) -> str:
    """The last lines of a trial's output."""
    try:
        return "\n".join(path.read_text(encoding="utf-8", errors="replace").splitlines()[-lines:])
    except OSError:
        return ""
