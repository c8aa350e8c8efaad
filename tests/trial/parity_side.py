"""A check made inside a framework's own process."""

from __future__ import annotations

from typing import Any

from raybench.trial.job import Job
from raybench.trial.record import record


def made(job: dict[str, Any]) -> list[dict[str, Any]]:
    return list(record(Job.from_json(job)))
