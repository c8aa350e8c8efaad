"""Schedule of a grid's canaries."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path

from raybench.checks.canary import measure
from raybench.checks.canary.judge import Drift, drifts, subject_name
from raybench.core.cell import Cell
from raybench.core.events import Event
from raybench.core.identity import digest
from raybench.core.job import Job
from raybench.engines import PROBED
from raybench.execution.jobs import CheckKeys, check_job
from raybench.planning.plan import WorkItem
from raybench.results.attempt import Attempt


class Canaries:
    """The canaries of a grid, from its journal and from this run."""

    def __init__(self, events: Iterable[Event] = ()) -> None:
        self._told: dict[tuple[str, ...], Event] = {}
        for event in events:
            self.take(event)

    def take(self, event: Event) -> None:
        """Record the end of a canary; ignore other events."""
        if event.get("event") == "check_ended" and event.get("check") == measure.NAME:
            # A journal may contain a line twice, and a grid that was restarted numbers its canaries from 1 again.
            self._told[str(event.get("host")), str(event.get("trial")), str(event.get("t"))] = event

    @property
    def events(self) -> list[Event]:
        """The end events of all canaries."""
        return list(self._told.values())

    def with_checks(self, todo: Sequence[WorkItem]) -> list[WorkItem]:
        """Insert canaries between the trials.

        On each device a canary runs before the first trial, before each further repeat and after the last trial. In a
        comparison of two versions all run in the environment of the base version, since that of the other may be
        faster.
        """
        works: list[WorkItem] = []
        repeats: dict[str, int] = {}
        last_works: dict[str, WorkItem] = {}
        number = len(self._told)
        groups = CheckKeys(lambda cell: digest(measure.subject(cell)))
        for work in todo:
            if not work.check and work.trial.cell.content.framework in PROBED:
                group = groups.of(work.trial.cell)
                last_works[group] = work
                if repeats.get(group) != work.trial.repeat:
                    repeats[group] = work.trial.repeat
                    works.append(_canary(last_works[group], group, number := number + 1))
                    work = replace(work, needs=work.needs | {works[-1].key})
            works.append(work)
        return works + [_canary(work, group, number + n) for n, (group, work) in enumerate(last_works.items(), 1)]

    def complete(self, job: Job, work: WorkItem, grid: Path) -> Job:
        """Return a trial's job unchanged, or make a canary's job from it.

        Args:
            grid: the grid's folder, in which each check has its own folder.
        """
        if not work.check:
            return job
        check = check_job(job, work, grid, {"subject": measure.subject(job.cell)})
        return replace(check, cell=measure.at_its_precision(job.cell))

    def drifts(self, attempts: Iterable[Attempt]) -> list[Drift]:
        """Devices whose speed changed, with the affected attempts."""
        return drifts(self.events, attempts)


def _canary(work: WorkItem, group: str, number: int) -> WorkItem:
    return WorkItem(work.trial, check=measure.NAME, key=f"{measure.NAME}-{group}-{number}")


def describe(cell: Cell) -> str:
    """Description of a canary: `machine speed: torch on cpu`."""
    return f"machine speed: {subject_name(cell.framework, cell.device.kind)}"
