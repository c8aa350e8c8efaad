"""Execution of a check in a trial's process, instead of training."""

from __future__ import annotations

import time
from importlib import import_module
from typing import Any

from raybench.core import events, memory
from raybench.core.job import Job
from raybench.trial.failure import describe_error
from raybench.trial.journal import Send

MODULES = {
    "weight_decay": "raybench.checks.weight_decay",
    "roofline": "raybench.checks.roofline",
    "parity": "raybench.checks.parity",
}
"""The module of each check, which is imported in the trial's process only."""


def check(job: Job, send: Send) -> None:
    """Run the job's check and send its one event, `check_ended`, even after an error.

    The function `measure` of its module returns plain values for a job.
    """
    start_s = time.perf_counter()
    result: dict[str, Any] = {}
    error = None
    try:
        result = import_module(MODULES[job.check]).measure(job)
    except (Exception, SystemExit) as exc:
        memory.remove_limit()
        error = describe_error(exc, "check", job)
        if isinstance(exc, memory.OutOfMemory):
            error |= exc.sizes
    seconds = round(time.perf_counter() - start_s, 6)
    fields = {"check": job.check, **job.labels, **result, "seconds": seconds, "error": error}
    send(events.check_ended(job.trial, job.attempt, **fields))
