"""Results of a grid's earlier executions, and the trials still to be run."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from raybench.core import events
from raybench.core.events import Event
from raybench.core.status import TrialStatus
from raybench.planning.plan import Plan, WorkItem
from raybench.results.attempt import Attempt, Key, attempts, latest
from raybench.results.journal import Journal, attempts_in, reported_damage
from raybench.results.recovery import check_journal, complete_events, read_journal, recover


class RetryOptions(Protocol):
    """Which finished trials are run again (`raybench.run.Options`)."""

    @property
    def retry(self) -> Collection[str]:
        """Statuses of finished trials that are run again."""

    @property
    def rerun(self) -> bool:
        """Whether every trial is run again."""


@dataclass(frozen=True)
class History:
    """Content of the journal at the start of an execution.

    Attributes:
        events: all of them, in order.
        attempts: the attempts of those events; each has an end.
        warnings: new damage of the journal, for the user; each execution reports only what is new.
    """

    events: Sequence[Event]
    attempts: dict[Key, Attempt]
    warnings: Sequence[str] = ()


def load_attempts(journal: Path) -> dict[Key, Attempt]:
    """Read the attempts of a journal and of the trials' own records; none if there is neither.

    Raises:
        UsageError: the journal is no file, or cannot be read.
    """
    return attempts(complete_events(journal))


def recover_history(path: Path) -> History:
    """Read a journal after completing it from the trials' own records.

    Attempts that a driver did not live to end get their end. Call it while holding the lock of the results folder
    (`raybench.results.lock`). Nothing is written if nothing is missing.

    Raises:
        UsageError: the journal is no file, or cannot be read.
    """
    check_journal(path)
    if not path.is_file() and not any(attempts_in(path.parent)):
        return History([], {})
    damaged: list[int] = []
    Journal(path).close()  # ends a last line that a crash tore: nobody writes it any more
    history = list(read_journal(path, damaged))
    new_damage = sorted(set(damaged) - reported_damage(history))
    with Journal(path) as journal:
        recovered = recover(journal, attempts(history))
        if new_damage:
            note = events.journal_damaged(new_damage)
            journal.append(note)
            recovered.append(note)
    history += recovered
    return History(history, attempts(history), [_damage(path, new_damage)] if new_damage else [])


def _damage(path: Path, lines: Sequence[int]) -> str:
    numbers = ", ".join(map(str, lines[:5])) + (", …" if len(lines) > 5 else "")
    count_text = f"{len(lines)} damaged lines" if len(lines) > 1 else "1 damaged line"
    return f"{path}: left out {count_text} ({numbers})"


def missing_work(plan: Plan, records: Iterable[Attempt], options: RetryOptions) -> list[WorkItem]:
    """List the trials still to be run, in the plan's order, with the number of their next attempt.

    Args:
        records: every attempt in the journal.
    """
    records = list(records)
    current = latest(records)
    highest: dict[str, int] = {}
    for attempt in records:
        highest[attempt.trial] = max(attempt.attempt, highest.get(attempt.trial, 0))
    rerun_statuses = {status for status in TrialStatus if status.is_rerun} | {None, *options.retry}
    work = []
    for trial in plan.trials:
        previous = current.get(trial.trial_id)
        if not trial.cell.skip and (previous is None or previous.status in rerun_statuses or options.rerun):
            work.append(WorkItem(trial, 1 + highest.get(trial.trial_id, 0)))
    return work
