"""Rooflines: which devices a grid has to probe before its trials, and what each run is told of its device and model."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from raybench.checks.roofline import measure
from raybench.core.events import Event
from raybench.core.job import Job
from raybench.core.status import TrialStatus
from raybench.execution.jobs import check_job, with_checks_first
from raybench.planning.plan import WorkItem
from raybench.results.attempt import Attempt

TIMEOUT = 60.0
"""Seconds after which it is given up, if the trial's own timeout is not shorter: it runs a person's model, which may
hang."""

LONGEST = 250
"""Characters of why a roofline is missing; an error may say more."""


class Rooflines:
    """What is known of a grid's devices and model: what its journal tells, and what is found out now."""

    def __init__(self, events: Iterable[Event] = ()) -> None:
        self._known: dict[str, dict[str, Any]] = {}
        for event in events:
            self.take(event)

    def take(self, event: Event) -> None:
        """Take in an event; any but the end of such a check changes nothing."""
        if event.get("event") == "check_ended" and event.get("check") == measure.NAME:
            key = str(event.get("trial"))
            fields: dict[str, Any] = {name: event[name] for name in ("work", "probes") if name in event}
            self._known[key] = {"key": key, **fields} if fields else {"key": key, "missing": _why(event.get("error"))}

    def with_checks(self, todo: Sequence[WorkItem]) -> list[WorkItem]:
        """The trials, and before the first of each kind the check that probes its device and counts its model."""
        known_keys = (key for key, evidence in self._known.items() if "missing" not in evidence)
        return with_checks_first(todo, measure.NAME, measure.key, known_keys)

    def complete(self, job: Job, work: WorkItem, grid: Path) -> Job:
        """A trial's job with what is known for it; or, made of it, the job of the check that runs in its place.

        Args:
            grid: the grid's folder, in which a check has its own.
        """
        if work.check:
            check = check_job(job, work, grid, {"subject": measure.subject(job.cell)})
            return replace(check, timeout=min(TIMEOUT, job.timeout or TIMEOUT))
        evidence = self._known.get(measure.key(job.cell))
        return replace(job, labels={**job.labels, "roofline": evidence}) if evidence else job


def warnings(attempts: Iterable[Attempt]) -> list[str]:
    """Why completed attempts have no roofline, each reason once."""
    completed = (attempt for attempt in attempts if attempt.status == TrialStatus.COMPLETED)
    reasons = dict.fromkeys(attempt.roofline["missing"] for attempt in completed if "missing" in attempt.roofline)
    return [f"no roofline: {reason}" for reason in reasons]


def describe(subject: Mapping[str, Any]) -> str:
    """What such a check is about, from its subject: `what torch reaches on cpu, fp32`."""
    return f"what {subject['framework']} reaches on {subject['device']['kind']}, {subject['precision']}"


def _why(error: Any) -> str:
    fields = error if isinstance(error, Mapping) else {}
    lines = str(fields.get("message") or "").strip().splitlines()
    return ": ".join(filter(None, [fields.get("type"), *lines[:1]]))[:LONGEST] or "the check told nothing"
