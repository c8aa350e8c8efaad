"""Checks: what a trial's process does instead of a training run, and how it tells what came of it."""

from __future__ import annotations

import time
from collections.abc import Iterator
from importlib import import_module
from typing import Any

from raybench.trial import events, memory
from raybench.trial.events import Event
from raybench.trial.job import Job
from raybench.trial.run import describe_error

CHECKS = {
    "canary": "raybench.trial.canary:measure",
    "decay": "raybench.trial.decay:prove",
    "max_batch": "raybench.trial.max_batch:measure",
    "parity": "raybench.trial.parity:measure",
    "roofline": "raybench.trial.roofline:measure",
}
"""Each check and what makes it: from a job to plain values, as "module:function"."""


def check(job: Job) -> Iterator[Event]:
    """Make the job's check and yield its one event, `check_ended`, whatever happens inside."""
    begun = time.perf_counter()
    module, function = CHECKS[job.check].split(":")
    found: dict[str, Any] = {}
    error = None
    try:
        found = getattr(import_module(module), function)(job)
    except Exception as caught:
        memory.lift()
        error = describe_error(caught, "check", job.folder, job.workload["file"])
        if isinstance(caught, memory.OutOfMemory):
            error |= caught.known
    seconds = round(time.perf_counter() - begun, 6)
    told = {"check": job.check, **job.labels, **found, "seconds": seconds, "error": error}
    yield events.check_ended(job.trial, job.attempt, **told)
