"""Schedule and results of a grid's weight-decay checks."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from raybench.checks.weight_decay import measure
from raybench.core.cell import Cell
from raybench.core.events import Event
from raybench.core.job import Job
from raybench.execution.jobs import CheckKeys, check_job, with_checks_first
from raybench.planning.plan import WorkItem

LONGEST = 250
"""Maximum characters of a check's error; the error itself may be longer."""


@dataclass(frozen=True)
class DecayCheckResult:
    """The result of one weight-decay check.

    Attributes:
        key: its identity; every cell with this key (`raybench.checks.weight_decay.measure.key`) shares it.
        about: its description for the user.
        passed: None if the check could not be made.
        factor: the effective multiple of λ.
        says: `passed`, `failed: …` or `not proven: …`, in one line.
    """

    key: str
    about: str
    passed: bool | None
    factor: float | None
    says: str

    @classmethod
    def of(cls, event: Event) -> DecayCheckResult | None:
        """The result in a check's end event.

        Returns:
            None for any other event, and for a malformed one.
        """
        if event.get("event") != "check_ended" or event.get("check") != measure.NAME:
            return None
        try:
            passed = event.get("passed")
            fields = event if passed in (True, False) else {**event, "passed": None, "factor": None}
            return cls(
                str(event["trial"]), describe(event["subject"]), fields["passed"], fields["factor"], _words(fields)
            )
        except (KeyError, TypeError, ValueError, AttributeError, ArithmeticError):
            return None

    def label(self) -> dict[str, Any]:
        """The result as a label of the runs that it applies to."""
        return {"key": self.key, "passed": self.passed, "factor": self.factor, "says": self.says}

    @property
    def warning(self) -> str | None:
        """Warning for the user; None if the check passed."""
        return None if self.passed else f"{self.about}: {self.says}"


def describe(subject: Mapping[str, Any]) -> str:
    """Description of a check from its subject: `weight decay: torch on cpu, sgd, 8 replicas`."""
    device, optimizer = subject["device"], subject["optimizer"]
    replicas = f", {device['replicas']} replicas" if device["replicas"] > 1 else ""
    return f"weight decay: {subject['framework']} on {device['kind']}, {optimizer['name']}{replicas}"


def _words(event: Mapping[str, Any]) -> str:
    if event["passed"] is None:
        error = event.get("error") or {}
        lines = str(error.get("message") or "").strip().splitlines()
        return f"not proven: {': '.join(filter(None, [error.get('type'), *lines[:1]]))}"[:LONGEST]
    factor, expected, follows, rule = event["factor"], event["expected"], event["follows"], event["subject"]["decay"]
    acts, declared = f"{factor:.4g} × λ", f"{expected:.4g} × λ"
    if event["passed"]:
        return "passed" if expected == 1 else f"passed: acts as {acts}, as declared"
    if follows == rule:
        return f"failed: acts as {acts}" + ("" if expected == 1 else f", declared {declared}")
    if follows:
        return f"failed: declared {rule}, acts {follows}" + ("" if acts == declared else f" with {acts}")
    return f"failed: follows neither rule; {rule} with {acts} comes nearest"


class DecayChecks:
    """The weight-decay checks of a grid, from its journal and from this run."""

    def __init__(self, events: Iterable[Event] = ()) -> None:
        self._known: dict[str, tuple[DecayCheckResult, Event]] = {}
        for event in events:
            self.take(event)

    def take(self, event: Event) -> None:
        """Record the end of a weight-decay check; ignore other events."""
        proof = DecayCheckResult.of(event)
        if proof:
            self._known[proof.key] = proof, event

    def with_checks(self, todo: Sequence[WorkItem]) -> list[WorkItem]:
        """Insert the missing checks, each before the first trial that needs it."""
        known_keys = (key for key, (proof, _) in self._known.items() if proof.passed is not None)
        return with_checks_first(todo, measure.NAME, CheckKeys(measure.key), known_keys)

    def complete(self, job: Job, work: WorkItem, grid: Path) -> Job:
        """Complete a trial's job with its check result.

        For a check, make its job from the trial's.

        Args:
            grid: the grid's folder, in which each check has its own folder.
        """
        if work.check:
            return check_job(job, work, grid, {"subject": measure.subject(job.cell)})
        entry = None if job.cell.has_own_loop else self._known.get(measure.key(job.cell))
        if entry is None:
            return job
        proof, _ = entry
        labels = {**job.labels, "decay_check": proof.label()}
        return replace(job, labels=labels)

    def of(self, cells: Iterable[Cell]) -> list[tuple[DecayCheckResult, Event]]:
        """Known results of the checks that cells need, in the order of the cells.

        A damaged cell has none.
        """
        if not self._known:
            return []
        keys = dict.fromkeys(filter(None, map(_key, cells)))
        return [self._known[key] for key in keys if key in self._known]


def _key(cell: Cell) -> str | None:
    try:
        return measure.key(cell)
    except (LookupError, AttributeError, TypeError):
        return None
