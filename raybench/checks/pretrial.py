"""Checks before a grid's trials: weight decay, and the peak rates of devices with the work of the model (roofline).

A check is inserted before the first trial that needs it, and its result is a label of all trials that share it.
Training functions and commands get none: raybench has neither their model nor their optimizer.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

from raybench.checks import roofline, weight_decay
from raybench.checks.weight_decay import DecayCheckResult, in_short
from raybench.core.cell import Cell
from raybench.core.events import Event
from raybench.core.job import Job
from raybench.core.status import TrialStatus
from raybench.execution.jobs import check_job
from raybench.planning.plan import WorkItem
from raybench.results.attempt import Attempt


class _Check(NamedTuple):
    """A kind of check: what it depends on, its identity, its description, and whether other load changes its result."""

    subject: Callable[[Cell], dict[str, Any]]
    key: Callable[[Cell], str]
    describe: Callable[[Mapping[str, Any]], str]
    is_timed: bool


_CHECKS = {
    weight_decay.NAME: _Check(weight_decay.subject, weight_decay.key, weight_decay.describe, False),
    roofline.NAME: _Check(roofline.subject, roofline.key, roofline.describe, True),
}


class PretrialChecks:
    """The check results in a grid's folder, and those of this run.

    Args:
        events: the ends of checks; other events are ignored.
        attempts: earlier attempts, from whose checkpoints trials may resume.
    """

    def __init__(self, events: Iterable[Event] = (), attempts: Iterable[Attempt] = ()) -> None:
        self._ended: dict[str, Event] = {}
        self._last_epochs: dict[str, int] = {}
        for event in events:
            self.take(event)
        for attempt in attempts:
            if attempt.epochs:
                last = attempt.epochs[-1].epoch
                self._last_epochs[attempt.trial] = max(last, self._last_epochs.get(attempt.trial, 0))

    def take(self, event: Event) -> None:
        """Record an event: a check's end, or an epoch's for a trial's progress."""
        trial, epoch = event.get("trial"), event.get("epoch")
        if event.get("event") == "epoch_ended" and isinstance(trial, str) and isinstance(epoch, int):
            self._last_epochs[trial] = max(epoch, self._last_epochs.get(trial, 0))
        elif event.get("event") == "check_ended" and event.get("check") in _CHECKS:
            self._ended[str(trial)] = event

    def with_checks(self, todo: Sequence[WorkItem]) -> list[WorkItem]:
        """Insert the missing checks, each before the first trial that needs it."""
        planned = {key for key, event in self._ended.items() if _has_result(event)}
        keys: dict[str, list[tuple[str, str]]] = {}
        works: list[WorkItem] = []
        for work in todo:
            cell = work.trial.cell
            if not work.check and not cell.content.has_own_loop:
                if cell.cell_id not in keys:
                    keys[cell.cell_id] = [(name, check.key(cell.content)) for name, check in _CHECKS.items()]
                for name, key in keys[cell.cell_id]:
                    if key not in planned:
                        planned.add(key)
                        works.append(WorkItem(work.trial, check=name, key=key))
                work = replace(work, needs=work.needs | {key for _, key in keys[cell.cell_id]})
            works.append(work)
        return works

    def complete(self, job: Job, work: WorkItem, grid: Path) -> Job:
        """Complete a trial's job with its check results; for a check, make its job from the trial's.

        Args:
            grid: the grid's folder, in which each check has its own folder.
        """
        if work.check:
            return check_job(job, work, grid, {"subject": _CHECKS[work.check].subject(job.cell)})
        labels: dict[str, Any] = {}
        if not job.cell.has_own_loop:
            decay = DecayCheckResult.of(self._ended.get(weight_decay.key(job.cell), {}))
            labels |= {"decay_check": decay.label()} if decay else {}
            rates = self._ended.get(roofline.key(job.cell))
            labels |= {"roofline": _rates(rates)} if rates else {}
        return replace(job, labels={**job.labels, **labels}, resume=self._last_epochs.get(job.trial))

    def decay_checks(self, cells: Iterable[Cell]) -> list[DecayCheckResult]:
        """Results of the weight-decay checks that cells need; a damaged cell has none."""
        events = [self._ended.get(key, {}) for key in dict.fromkeys(filter(None, map(_decay_key, cells)))]
        return list(filter(None, map(DecayCheckResult.of, events)))


def _has_result(event: Event) -> bool:
    if event["check"] == roofline.NAME:
        return "missing" not in _rates(event)
    result = DecayCheckResult.of(event)
    return result is not None and result.passed is not None


def _rates(event: Event) -> dict[str, Any]:
    """The label of a roofline measurement, or the reason why it is missing."""
    fields: dict[str, Any] = {name: event[name] for name in ("work", "probes") if name in event}
    return {"key": str(event.get("trial")), **(fields or {"missing": in_short(event.get("error"))})}


def _decay_key(cell: Cell) -> str | None:
    try:
        return weight_decay.key(cell)
    except (LookupError, AttributeError, TypeError):
        return None


def missing_rooflines(attempts: Iterable[Attempt]) -> list[str]:
    """Reasons why completed attempts have no roofline, without duplicates."""
    completed = (attempt for attempt in attempts if attempt.status == TrialStatus.COMPLETED)
    reasons = dict.fromkeys(attempt.roofline["missing"] for attempt in completed if "missing" in attempt.roofline)
    return [f"no roofline: {reason}" for reason in reasons]


def describe(work: WorkItem) -> str:
    """Description of a check for the user."""
    check = _CHECKS[work.check]
    return check.describe(check.subject(work.trial.cell.content))


def is_timed(work: WorkItem) -> bool:
    """Return whether other load on the machine would affect the result."""
    return not work.check or _CHECKS[work.check].is_timed
