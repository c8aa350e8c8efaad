"""Checks that support a grid's results: weight decay and rooflines."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from raybench.checks.roofline import measure as roofline
from raybench.checks.roofline import schedule as rooflines
from raybench.checks.weight_decay import measure as decay
from raybench.checks.weight_decay import schedule as proofs
from raybench.core.cell import Cell
from raybench.core.events import Event
from raybench.core.job import Job
from raybench.planning.plan import WorkItem
from raybench.results.attempt import Attempt

_ABOUT: Mapping[str, Callable[[Cell], str]] = {
    decay.NAME: lambda cell: proofs.describe(decay.subject(cell)),
    roofline.NAME: lambda cell: rooflines.describe(roofline.subject(cell)),
}


class PretrialChecks:
    """The check results in a grid's journal, and those of this run.

    Args:
        events: the ends of checks; other events are ignored.
        attempts: earlier attempts, from whose checkpoints trials may resume.

    Attributes:
        proofs: weight-decay checks.
        rooflines: of devices and the model.
    """

    def __init__(self, events: Iterable[Event] = (), attempts: Iterable[Attempt] = ()) -> None:
        self.proofs, self.rooflines = proofs.DecayChecks(), rooflines.Rooflines()
        self._kinds: dict[str, proofs.DecayChecks | rooflines.Rooflines] = {
            decay.NAME: self.proofs,
            roofline.NAME: self.rooflines,
        }
        self._over: dict[str, int] = {}
        for event in events:
            self.take(event)
        for attempt in attempts:
            if attempt.epochs:
                self._over[attempt.trial] = max(attempt.epochs[-1].epoch, self._over.get(attempt.trial, 0))

    def take(self, event: Event) -> None:
        """Record an event: a check's end, or an epoch's for a trial's progress."""
        trial, epoch = event.get("trial"), event.get("epoch")
        if event.get("event") == "epoch_ended" and isinstance(trial, str) and isinstance(epoch, int):
            self._over[trial] = max(epoch, self._over.get(trial, 0))
        for kind in self._kinds.values():
            kind.take(event)

    def with_checks(self, todo: Sequence[WorkItem]) -> list[WorkItem]:
        """Insert the missing checks before the trials that need them."""
        works = list(todo)
        for kind in self._kinds.values():
            works = kind.with_checks(works)
        return works

    def complete(self, job: Job, work: WorkItem, grid: Path) -> Job:
        """Complete a trial's job with its check results.

        For a check, make its job from the trial's.

        Args:
            grid: the grid's folder, in which each check has its own folder.
        """
        if work.check:
            return self._kinds[work.check].complete(job, work, grid)
        for kind in self._kinds.values():
            job = kind.complete(job, work, grid)
        return replace(job, resume=self._over.get(job.trial))


def describe(work: WorkItem) -> str:
    """Description of a check for the user."""
    return _ABOUT[work.check](work.trial.cell.content)


def is_timed(work: WorkItem) -> bool:
    """Return whether other load on the machine would affect the result.

    This holds for all checks except that of weight decay.
    """
    return work.check != decay.NAME
