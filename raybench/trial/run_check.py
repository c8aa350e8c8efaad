"""Checks: what a trial's process does instead of a training run, and how it tells what came of it."""

from __future__ import annotations

import time
from collections.abc import Iterator
from importlib import import_module
from typing import Any

from raybench.core import events, memory
from raybench.core.events import Event
from raybench.core.job import Job
from raybench.trial.run import describe_error


def check(job: Job) -> Iterator[Event]:
    """Make the job's check and yield its one event, `check_ended`, whatever happens inside.

    A check is a folder of `raybench.checks` by its name; its `measure.measure` returns plain values for a job.
    """
    begun = time.perf_counter()
    found: dict[str, Any] = {}
    error = None
    try:
        found = import_module(f"raybench.checks.{job.check}.measure").measure(job)
    except (Exception, SystemExit) as caught:
        memory.remove_limit()
        error = describe_error(caught, "check", job)
        if isinstance(caught, memory.OutOfMemory):
            error |= caught.known
    seconds = round(time.perf_counter() - begun, 6)
    told = {"check": job.check, **job.labels, **found, "seconds": seconds, "error": error}
    yield events.check_ended(job.trial, job.attempt, **told)
