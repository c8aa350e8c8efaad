"""Schedule and results of a grid's roofline checks."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from raybench.checks.roofline import measure
from raybench.core.events import Event
from raybench.core.job import Job
from raybench.core.status import TrialStatus
from raybench.execution.jobs import CheckKeys, check_job, with_checks_first
from raybench.planning.plan import WorkItem
from raybench.results.attempt import Attempt

TIMEOUT = 60.0
"""Timeout of a check in seconds, unless the trial's own timeout is shorter.

A check runs the user's model, which may hang."""

LONGEST = 250
"""Maximum characters of the reason for a missing roofline."""


class Rooflines:
    """Roofline measurements of a grid, from its journal and from this run."""

    def __init__(self, events: Iterable[Event] = ()) -> None:
        self._known: dict[str, dict[str, Any]] = {}
        for event in events:
            self.take(event)

    def take(self, event: Event) -> None:
        """Record the end of a roofline check; ignore other events."""
        if event.get("event") == "check_ended" and event.get("check") == measure.NAME:
            key = str(event.get("trial"))
            fields: dict[str, Any] = {name: event[name] for name in ("work", "probes") if name in event}
            self._known[key] = {"key": key, **fields} if fields else {"key": key, "missing": _why(event.get("error"))}

    def with_checks(self, todo: Sequence[WorkItem]) -> list[WorkItem]:
        """Insert the missing checks, each before the first trial that needs it."""
        known_keys = (key for key, evidence in self._known.items() if "missing" not in evidence)
        return with_checks_first(todo, measure.NAME, CheckKeys(measure.key), known_keys)

    def complete(self, job: Job, work: WorkItem, grid: Path) -> Job:
        """Complete a trial's job with its roofline.

        For a check, make its job from the trial's.

        Args:
            grid: the grid's folder, in which each check has its own folder.
        """
        if work.check:
            check = check_job(job, work, grid, {"subject": measure.subject(job.cell)})
            return replace(check, timeout=min(TIMEOUT, job.timeout or TIMEOUT))
        evidence = None if job.cell.has_own_loop else self._known.get(measure.key(job.cell))
        return replace(job, labels={**job.labels, "roofline": evidence}) if evidence else job


def warnings(attempts: Iterable[Attempt]) -> list[str]:
    """Reasons why completed attempts have no roofline, without duplicates."""
    completed = (attempt for attempt in attempts if attempt.status == TrialStatus.COMPLETED)
    reasons = dict.fromkeys(attempt.roofline["missing"] for attempt in completed if "missing" in attempt.roofline)
    return [f"no roofline: {reason}" for reason in reasons]


def describe(subject: Mapping[str, Any]) -> str:
    """Description of a check from its subject: `peak speed: torch on cpu, fp32`."""
    return f"peak speed: {subject['framework']} on {subject['device']['kind']}, {subject['precision']}"


def _why(error: Any) -> str:
    fields = error if isinstance(error, Mapping) else {}
    lines = str(fields.get("message") or "").strip().splitlines()
    return ": ".join(filter(None, [fields.get("type"), *lines[:1]]))[:LONGEST] or "the check gave no result"
