"""What is recorded of the end of a trial, and of an exception that ended it."""

from __future__ import annotations

import os
import traceback
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from raybench.core import events, memory
from raybench.core.events import Event
from raybench.core.files import FULL
from raybench.core.job import Job
from raybench.core.status import TrialStatus
from raybench.devices import Device
from raybench.training.epoch_record import Diverged


def failure(exc: BaseException, device: Device | None, phase: str, job: Job) -> tuple[TrialStatus, dict[str, Any]]:
    """The status of a trial that an exception ended, and its record."""
    if isinstance(exc, Diverged):
        return TrialStatus.DIVERGED, {"type": "Diverged", "message": str(exc)}
    memory.remove_limit()
    is_oom = device.is_oom(exc) if device else isinstance(exc, MemoryError)
    error = describe_error(exc, phase, job)
    status = TrialStatus.OOM if is_oom else TrialStatus.LOST if error.get("disk_full") else TrialStatus.FAILED
    if is_oom:
        peak = device.peak_memory() if device else None
        error = error | memory.describe(message_of(exc), peak, job.memory_limit)
    return status, error


def message_of(exc: BaseException) -> str:
    """The message of an exception as encodable text."""
    return _encodable(f"the code called sys.exit({exc.code!r})" if isinstance(exc, SystemExit) else str(exc))


def _encodable(text: str) -> str:
    """Escape lone surrogates, which cannot be written to a file."""
    return text.encode("utf-8", errors="backslashreplace").decode("utf-8")


def describe_error(exc: BaseException, phase: str, job: Job) -> dict[str, Any]:
    """A record of an exception.

    It has the type, message, phase, location and whole traceback, and `disk_full` if the disk is full.

    The location is the innermost line in the user's folder; if there is none in the traceback, the innermost of all.
    """
    frames = [(frame.filename, frame.lineno) for frame in traceback.extract_tb(exc.__traceback__)]
    if folder := job.workload["folder"]:
        root = f"{job.code_folder}{os.sep}"
        user_frames = [(file.removeprefix(root), line) for file, line in frames if file.startswith(root)]
        frames = [
            (str(Path(folder, name)), line) for name, line in user_frames if "site-packages" not in name
        ] or frames
    location = f"{frames[-1][0]}:{frames[-1][1]}" if frames else None
    return {
        "type": type(exc).__name__,
        "message": message_of(exc),
        "phase": phase,
        "where": location,
        "traceback": _encodable("".join(traceback.format_exception(exc))),
        **({"disk_full": True} if isinstance(exc, OSError) and exc.errno in FULL else {}),
    }


def end_event(
    job: Job,
    status: str,
    error: Mapping[str, Any] | None,
    wall_s: float | None = None,
    loading_s: float | None = None,
    sections: Mapping[str, float] | None = None,
    warnings: Sequence[str] | None = None,
) -> Event:
    """The last event of a job: of a trial with its status; of a check without its result."""
    if job.check:
        fields = {"check": job.check, **job.labels, "seconds": wall_s, "error": dict(error or {})}
        return events.check_ended(job.trial, job.attempt, **fields)
    return events.trial_ended(
        job.trial,
        job.attempt,
        status,
        ledger=sections,
        wall=wall_s,
        template_import=loading_s,
        warnings=job.warnings if warnings is None else warnings,
        error=error,
    )
