"""Weight decay, proven: which proofs a grid needs before its trials, and what each says of the trials that share it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from raybench.checks.weight_decay import measure
from raybench.core.cell import Cell
from raybench.core.events import Event
from raybench.core.job import Job
from raybench.execution.jobs import check_job, with_checks_first
from raybench.planning.plan import WorkItem

LONGEST = 250
"""Characters of what a proof says; an error may say more."""


@dataclass(frozen=True)
class DecayCheckResult:
    """What came of one proof.

    Attributes:
        key: names it; every cell with this key (`raybench.checks.weight_decay.measure.key`) shares it.
        about: what it is about, as a person says it.
        passed: None where it could not be made.
        factor: the multiple of λ that really acts.
        says: `passed`, `failed: …` or `not proven: …`, in one line.
    """

    key: str
    about: str
    passed: bool | None
    factor: float | None
    says: str

    @classmethod
    def of(cls, event: Event) -> DecayCheckResult | None:
        """The proof that an event is the end of; None for any other event, and for one that makes no sense."""
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
        """What the runs it stands for carry."""
        return {"key": self.key, "passed": self.passed, "factor": self.factor, "says": self.says}

    @property
    def warning(self) -> str | None:
        """What a person has to know of it; None where it passed."""
        return None if self.passed else f"{self.about}: {self.says}"


def describe(subject: Mapping[str, Any]) -> str:
    """What a proof is about, from its subject: `weight decay: torch on cpu, sgd, 8 replicas`."""
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
    """The proofs of a grid: those its journal tells of, and those that are made now."""

    def __init__(self, events: Iterable[Event] = ()) -> None:
        self._known: dict[str, tuple[DecayCheckResult, Event]] = {}
        for event in events:
            self.take(event)

    def take(self, event: Event) -> None:
        """Take in an event; any but the end of a proof changes nothing."""
        proof = DecayCheckResult.of(event)
        if proof:
            self._known[proof.key] = proof, event

    def with_checks(self, todo: Sequence[WorkItem]) -> list[WorkItem]:
        """The trials, and before the first of each kind that nothing was proven of, the check that proves it."""
        known_keys = (key for key, (proof, _) in self._known.items() if proof.passed is not None)
        return with_checks_first(todo, measure.NAME, measure.key, known_keys)

    def complete(self, job: Job, work: WorkItem, grid: Path) -> Job:
        """A trial's job with the proof that stands for it; or, made of it, the job of the check that runs in its place.

        Args:
            grid: the grid's folder, in which a check has its own.
        """
        if work.check:
            return check_job(job, work, grid, {"subject": measure.subject(job.cell)})
        entry = self._known.get(measure.key(job.cell))
        if entry is None:
            return job
        proof, _ = entry
        labels = {**job.labels, "decay_check": proof.label()}
        return replace(job, labels=labels)

    def of(self, cells: Iterable[Cell]) -> list[tuple[DecayCheckResult, Event]]:
        """What is known of the proofs that cells need, in the order of the cells; a damaged cell has none."""
        keys = dict.fromkeys(filter(None, map(_key, cells)))
        return [self._known[key] for key in keys if key in self._known]


def _key(cell: Cell) -> str | None:
    try:
        return measure.key(cell)
    except (LookupError, AttributeError, TypeError):
        return None
