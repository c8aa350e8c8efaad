"""What earlier executions of a grid left, and what is still to be run after them."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import MappingProxyType
from typing import Protocol

from raybench.analysis.results import Attempt, Key, attempts, latest
from raybench.execution.dispatch import Work
from raybench.plan import Plan
from raybench.tracking.elsewhere import look
from raybench.tracking.journal import Journal, attempts_in, damage_told, read
from raybench.tracking.recover import recover
from raybench.tracking.store import Store, StoreError
from raybench.trial import events
from raybench.trial.events import Event


class Wishes(Protocol):
    """What a person wants to be run again (`raybench.run.Options`)."""

    @property
    def retry(self) -> Collection[str]:
        """Statuses of ended trials that are to be tried again."""

    @property
    def fresh(self) -> bool:
        """Whether everything is."""


@dataclass(frozen=True)
class Earlier:
    """What the journal tells at the start of an execution, after every attempt whose driver went away got its end.

    Attributes:
        events: every one, in order.
        attempts: what they come to.
        warnings: what a person should know of the journal, each told by one execution only.
    """

    events: Sequence[Event]
    attempts: dict[Key, Attempt]
    warnings: Sequence[str] = ()


def told(journal: Path) -> Iterable[Event]:
    """Every event of a journal; nothing where there is none."""
    return read(journal) if journal.exists() else ()


def load_attempts(journal: Path) -> dict[Key, Attempt]:
    """Every attempt that a journal tells of; nothing where there is none."""
    return attempts(told(journal))


def recovered(path: Path) -> Earlier:
    """What a journal tells once every attempt without an end got one, and whatever only a trial's own record has.

    Call it while holding the results folder (`raybench.tracking.lock`). Nothing is written where nothing is missing.
    """
    if not path.is_file() and not any(attempts_in(path.parent)):
        return Earlier([], {})
    damaged: list[int] = []
    Journal(path).close()  # closes a last line that a crash tore: nobody is writing it any more
    found = list(read(path, damaged))
    new = sorted(set(damaged) - damage_told(found))
    with Journal(path) as journal:
        added = recover(journal, attempts(found))
        if new:
            note = events.journal_damaged(new)
            journal.append(note)
            added.append(note)
    found += added
    return Earlier(found, attempts(found), [_damage(path, new)] if new else [])


def _damage(path: Path, lines: Sequence[int]) -> str:
    shown = ", ".join(map(str, lines[:5])) + (", …" if len(lines) > 5 else "")
    many = f"{len(lines)} damaged lines" if len(lines) > 1 else "1 damaged line"
    return f"{path}: left out {many} ({shown})"


def completed_elsewhere(
    plan: Plan, journal: Path, earlier: Earlier, store: Store, wishes: Wishes
) -> tuple[Earlier, Mapping[str, int], str]:
    """What the store has of the trials that the journal lacks, taken into the journal: that is not run again.

    A store that cannot be reached has nothing to say; its writer tells a person of that.

    Returns:
        What is known now; the highest number of an attempt at each trial that the store has; in words, what came from
        it.
    """
    wanted = {work.trial.trial_id for work in missing(plan, earlier.attempts.values(), wishes)}
    if not wanted:
        return earlier, {}, ""
    try:
        found = look(store, plan.spec.name, wanted, earlier.attempts.keys())
    except StoreError:
        return earlier, {}, ""
    if wishes.fresh or not found.events:
        return earlier, found.taken, ""
    with Journal(journal) as kept:
        for event in found.events:
            kept.append(event)
    every = [*earlier.events, *found.events]
    new = attempts(found.events)
    count = f"{len(new)} attempts were" if len(new) > 1 else "1 attempt was"
    where = f" on {', '.join(found.hosts)}" if found.hosts else ""
    words = f"{count} made elsewhere{where}: taken over from {store}"
    return replace(earlier, events=every, attempts=attempts(every)), found.taken, words


def missing(
    plan: Plan, known: Iterable[Attempt], wishes: Wishes, taken: Mapping[str, int] = MappingProxyType({})
) -> list[Work]:
    """What is still to be run, in the plan's order, each with the number of its next attempt.

    Args:
        known: every attempt that the journal tells of.
        taken: the highest number of an attempt at a trial that is known from elsewhere.
    """
    known = list(known)
    stands = latest(known)
    highest = dict(taken)
    for attempt in known:
        highest[attempt.trial] = max(attempt.attempt, highest.get(attempt.trial, 0))
    again = events.AGAIN_NEXT_TIME | {None} | set(wishes.retry)
    todo = []
    for trial in plan.trials:
        last = stands.get(trial.trial_id)
        if not trial.cell.skip and (last is None or last.status in again or wishes.fresh):
            todo.append(Work(trial, 1 + highest.get(trial.trial_id, 0)))
    return todo
