"""Events and attempts of a grid, read once and updated during a run."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from threading import Lock
from typing import Self

from raybench.core import events
from raybench.core.events import EVENTS, Event
from raybench.core.status import TrialStatus
from raybench.errors import UsageError
from raybench.results.attempt import Attempt, Key, apply_event
from raybench.results.executions import ENDED, Summary, read_execution
from raybench.results.journal import (
    JOURNAL,
    Journal,
    Watch,
    attempt_folder,
    attempts_in,
    damage,
    is_own,
    read,
    read_lines,
    reported_damage,
)

GONE = {"type": "Lost", "message": "its driver ended before it did"}


KEPT = frozenset({"check_ended", ENDED, "journal_damaged"})
"""The kinds of events that are kept: they concern no attempt."""


class GridHistory:
    """The attempts of a grid so far, and its other events.

    `take` applies each event to its attempt once. It keeps no event of an attempt: in a large grid they would take most
    of the memory.

    One thread adds events; other threads may read attempts with `snapshot`.

    Args:
        path: the grid's journal, next to the folders of its trials; it may be missing.
        told: events that are known already.

    Attributes:
        events: the events of `KEPT`, in order.
        attempts: the attempts of those events, in the order of their first event.
        damaged_lines: the numbers (from 1) of the journal's damaged lines, which are skipped.
        warnings: about damage of the journal that no earlier command has reported.
        recovered: the events that only the trials' own records had, if it was read.
    """

    def __init__(self, path: Path, told: Iterable[Event] = ()) -> None:
        self.path = path
        self.events: list[Event] = []
        self.attempts: dict[Key, Attempt] = {}
        self.damaged_lines: list[int] = []
        self.warnings: list[str] = []
        self.recovered: list[Event] = []
        self._lock = Lock()
        self._executions: dict[str, Summary | None] = {}
        for event in told:
            self.take(event)

    @classmethod
    def read(cls, path: Path, watch: Watch | None = None) -> Self:
        """Read a journal and, from the trials' own records, its missing events.

        Nothing is written. An attempt without an end stays open, as it may still be running.

        Args:
            path: the journal, which may be missing.
            watch: gets each event of the journal with its line.

        Raises:
            UsageError: it is not a regular file, or cannot be read.
        """
        history = cls(path)
        history._read(watch)
        if path.name == JOURNAL:
            history.recovered = [event for _, missing in list(history._missing()) for event in missing]
            for event in history.recovered:
                history.take(event)
        return history

    @classmethod
    def of(
        cls,
        path: Path,
        attempts: dict[Key, Attempt],
        others: Iterable[Event],
        executions: Mapping[str, Mapping[str, str]],
    ) -> Self:
        """Return a history that is in no journal.

        Args:
            path: the name of its source.
            attempts: its attempts.
            others: its events that concern no attempt.
            executions: the text of each file of an execution, by the name of the execution's folder.
        """
        history = cls(path)
        history.attempts = attempts
        history.events = [event for event in others if event.get("event") in KEPT]
        for event in reversed(history.of_kind(ENDED)):
            name = str(event.get("folder"))
            history._executions.setdefault(name, read_execution(path, event, executions.get(name, {})))
        return history

    @classmethod
    def recover(cls, path: Path) -> Self:
        """Read the history and write its missing events to the journal.

        A trial writes its events to its own record before it sends them. Events that the driver could not write before
        it died are taken from there, also for attempts that the journal does not mention. An attempt whose own record
        has no end either is marked as lost. Call it while holding the lock of the results folder
        (`raybench.results.lock`), when nothing can be running; afterwards no attempt seems to be running. Nothing is
        written if nothing is missing.

        Raises:
            UsageError: the journal is not a regular file, or cannot be read.
            JournalError: it cannot be written.
        """
        check_journal(path)
        history = cls(path)
        if not path.is_file() and not any(attempts_in(path.parent)):
            return history
        with Journal(path) as journal:  # terminates an incomplete last line after a crash
            history._read()
            new_damage = sorted(set(history.damaged_lines) - reported_damage(history.events))
            for key, missing in list(history._missing()):
                for event in missing:
                    history.take(journal.append(event))
                attempt = history.attempts.get(key)
                if attempt is None or attempt.status is None:
                    history.take(journal.append(events.trial_ended(*key, TrialStatus.LOST, error=GONE)))
            if new_damage:
                history.take(journal.append(events.journal_damaged(new_damage)))
                history.warnings.append(damage(path, new_damage))
        return history

    @property
    def folder(self) -> Path:
        """The grid's own folder."""
        return self.path.parent

    def take(self, event: Event) -> None:
        """Add an event as returned by `raybench.results.journal.Journal.append`."""
        with self._lock:
            if event.get("event") in KEPT:
                self.events.append(event)
            apply_event(self.attempts, event)

    def executions(self) -> Iterator[Summary]:
        """The executions with a valid summary, the last first; a file of one is read at most once."""
        for event in reversed(self.of_kind(ENDED)):
            name = str(event.get("folder"))
            if name not in self._executions:
                self._executions[name] = read_execution(self.folder, event)
            summary = self._executions[name]
            if summary:
                yield summary

    def of_kind(self, kind: str) -> list[Event]:
        """The events of a kind of `KEPT`, in order."""
        return [event for event in self.events if event.get("event") == kind]

    def snapshot(self, key: Key) -> Attempt:
        """A copy of an attempt that later events do not change."""
        with self._lock:
            return self.attempts[key].copy()

    def unsent(self, key: Key) -> list[Event]:
        """The events in an attempt's own record that nobody received."""
        return _missing(self.attempts.get(key) or Attempt(*key), _own(self.folder, key))

    def _read(self, watch: Watch | None = None) -> None:
        check_journal(self.path)
        try:
            if self.path.exists():
                for item in read_lines(self.path, self.damaged_lines, watch=watch):
                    self.take(item)
        except OSError as error:
            raise UsageError(f"{self.path}: cannot be read: {error.strerror or error}") from None

    def _missing(self) -> Iterator[tuple[Key, list[Event]]]:
        """The open attempts, each with the events only in its own record."""
        for attempt in self.attempts.values():
            if attempt.status is None:
                yield attempt.key, _missing(attempt, _own(self.folder, attempt.key))
        for key in attempts_in(self.folder):
            if key not in self.attempts and (own_events := _own(self.folder, key)):
                yield key, _missing(Attempt(*key), own_events)


def check_journal(journal: Path) -> None:
    """Check that a path can be a journal.

    Raises:
        UsageError: the path is a folder or a device.
    """
    if journal.exists() and not journal.is_file():
        kind = "a folder" if journal.is_dir() else "not a regular file"
        raise UsageError(f"{journal}: is {kind}, not a journal of raybench; move it away and run the command again")


def _missing(attempt: Attempt, own_events: list[Event]) -> list[Event]:
    known_epochs = {epoch.epoch for epoch in attempt.epochs}
    return [
        event
        for event in own_events
        if (event["event"] == "trial_started" and attempt.started is None)
        or (event["event"] == "trial_resumed" and not attempt.gaps)
        or (event["event"] == "epoch_ended" and event.get("epoch") not in known_epochs)
        or (event["event"] == "trial_audited" and attempt.audit is None)
        or event["event"] == "trial_ended"
    ]


def _own(grid: Path, key: Key) -> list[Event]:
    """The events in an attempt's own record."""
    record = attempt_folder(grid, *key) / EVENTS
    return list(_of(record, key)) if is_own(record, grid) else []


def _of(record: Path, key: Key) -> Iterator[Event]:
    for event in read(record, []):
        if (event.get("trial"), event.get("attempt")) == key and "event" in event:
            yield event
