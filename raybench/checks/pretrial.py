"""What is found out beside a grid's trials, for their numbers to be believed: proofs, rooflines and canaries."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from raybench.checks.canary import measure, schedule
from raybench.checks.roofline import measure as roofline
from raybench.checks.roofline import schedule as rooflines
from raybench.checks.weight_decay import measure as decay
from raybench.checks.weight_decay import schedule as proofs
from raybench.core.cell import Cell
from raybench.core.events import Event
from raybench.core.job import Job
from raybench.planning.plan import WorkItem

_ABOUT: Mapping[str, Callable[[Cell], str]] = {
    measure.NAME: schedule.describe,
    decay.NAME: lambda cell: proofs.describe(decay.subject(cell)),
    roofline.NAME: lambda cell: rooflines.describe(roofline.subject(cell)),
}


class PretrialChecks:
    """All that a grid's journal tells of it, and what is found out now.

    Attributes:
        proofs: of weight decay.
        rooflines: of devices and the model.
        canaries: of whether the machines stay the same.
    """

    def __init__(self, events: Iterable[Event] = ()) -> None:
        self.proofs, self.rooflines, self.canaries = proofs.DecayChecks(), rooflines.Rooflines(), schedule.Canaries()
        self._kinds: dict[str, proofs.DecayChecks | rooflines.Rooflines | schedule.Canaries] = {
            decay.NAME: self.proofs,
            roofline.NAME: self.rooflines,
            measure.NAME: self.canaries,
        }
        self._over: dict[str, int] = {}
        for event in events:
            self.take(event)

    def take(self, event: Event) -> None:
        """Take in an event: the end of a check or, for how far a trial has come, of an epoch."""
        trial, epoch = event.get("trial"), event.get("epoch")
        if event.get("event") == "epoch_ended" and isinstance(trial, str) and isinstance(epoch, int):
            self._over[trial] = max(epoch, self._over.get(trial, 0))
        for kind in self._kinds.values():
            kind.take(event)

    def with_checks(self, todo: Sequence[WorkItem]) -> list[WorkItem]:
        """The trials, each after the checks that it needs and that were not made yet, and canaries in between."""
        works = list(todo)
        for kind in self._kinds.values():
            works = kind.with_checks(works)
        return works

    def complete(self, job: Job, work: WorkItem, grid: Path) -> Job:
        """A trial's job with all that is known for it; or, made of it, the job of the check that runs in its place.

        Args:
            grid: the grid's folder, in which a check has its own.
        """
        if work.check:
            return self._kinds[work.check].complete(job, work, grid)
        for kind in self._kinds.values():
            job = kind.complete(job, work, grid)
        return replace(job, resume=self._over.get(job.trial))


def describe(work: WorkItem) -> str:
    """What a check is about, as a person says it."""
    return _ABOUT[work.check](work.trial.cell.content)


def is_timed(work: WorkItem) -> bool:
    """Whether what else the machine does would change the result: of all but the check of weight decay."""
    return work.check != decay.NAME
