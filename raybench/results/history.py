"""A grid's events and the attempts that they make, for one command: read once, and followed while the grid runs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from threading import Lock
from typing import Self

from raybench.core import events
from raybench.core.events import EVENTS, Event
from raybench.core.status import TrialStatus
from raybench.errors import UsageError
from raybench.results.attempt import Attempt, Key, apply_event
from raybench.results.journal import (
    JOURNAL,
    Journal,
    attempt_folder,
    attempts_in,
    damage,
    is_own,
    read,
    reported_damage,
)

GONE = {"type": "Lost", "message": "whoever ran it went away before it ended"}


class GridHistory:
    """Every event of a grid so far, and its attempts; each event is taken into its attempt once, by `take`.

    One thread takes events; others may look at attempts with `snapshot`.

    Args:
        path: the grid's journal, with the trials' folders beside it; it need not be there.
        told: events that are known already.

    Attributes:
        events: all of them, in order.
        attempts: the attempts of those events, in the order in which they are first named.
        damaged_lines: the numbers (from 1) of the journal's lines that were left out.
        warnings: about damage of the journal that no earlier command has reported.
    """

    def __init__(self, path: Path, told: Iterable[Event] = ()) -> None:
        self.path = path
        self.events: list[Event] = []
        self.attempts: dict[Key, Attempt] = {}
        self.damaged_lines: list[int] = []
        self.warnings: list[str] = []
        self._lock = Lock()
        for event in told:
            self.take(event)

    @classmethod
    def read(cls, path: Path) -> Self:
        """The events of a journal and, behind them, those that only the trials' own records have; nothing is written.

        An attempt without an end gets none, as it may still be running.

        Args:
            path: the journal, which may be missing.

        Raises:
            UsageError: it is no file, or cannot be read.
        """
        history = cls(path)
        history._read()
        if path.name == JOURNAL:
            for _, missing in list(history._missing()):
                for event in missing:
                    history.take(event)
        return history

    @classmethod
    def recover(cls, path: Path) -> Self:
        """The same, with what the journal lacks written to it, so that nothing looks as if it were still running.

        A trial writes its events where it runs before anyone else hears of them: what the driver did not live to write
        comes from there, and so does an attempt of which it wrote nothing. Where that record has no end either, the
        attempt was lost. Call it while holding the lock of the results folder (`raybench.results.lock`), when nothing
        can be running. Nothing is written if nothing is missing.

        Raises:
            UsageError: the journal is no file, or cannot be read.
            JournalError: it cannot be written.
        """
        check_journal(path)
        history = cls(path)
        if not path.is_file() and not any(attempts_in(path.parent)):
            return history
        with Journal(path) as journal:  # ends a last line that a crash tore: nobody writes it any more
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
        """Add an event, as the journal has it (`raybench.results.journal.Journal.append`)."""
        with self._lock:
            self.events.append(event)
            apply_event(self.attempts, event)

    def of_kind(self, kind: str) -> list[Event]:
        """The events of one kind, in order."""
        return [event for event in self.events if event.get("event") == kind]

    def snapshot(self, key: Key) -> Attempt:
        """A copy of an attempt as it is now, which no later event changes."""
        with self._lock:
            return self.attempts[key].copy()

    def _read(self) -> None:
        check_journal(self.path)
        try:
            if self.path.exists():
                for event in read(self.path, self.damaged_lines):
                    self.take(event)
        except OSError as error:
            raise UsageError(f"{self.path}: cannot be read: {error.strerror or error}") from None

    def _missing(self) -> Iterator[tuple[Key, list[Event]]]:
        """The attempts without an end in the journal, each with the events that only its own record has."""
        for attempt in self.attempts.values():
            if attempt.status is None:
                yield attempt.key, _missing(attempt, _own(self.folder, attempt.key))
        for key in attempts_in(self.folder):
            if key not in self.attempts and (own_events := _own(self.folder, key)):
                yield key, _missing(Attempt(*key), own_events)


def check_journal(journal: Path) -> None:
    """Refuse what cannot be a journal.

    Raises:
        UsageError: a folder or a device is in its place.
    """
    if journal.exists() and not journal.is_file():
        kind = "a folder" if journal.is_dir() else "not a regular file"
        raise UsageError(f"{journal}: is {kind}, and no journal of raybench; move it away, and run the command again")


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
    """What an attempt has told of itself."""
    record = attempt_folder(grid, *key) / EVENTS
    return list(_of(record, key)) if is_own(record, grid) else []


def _of(record: Path, key: Key) -> Iterator[Event]:
    for event in read(record, []):
        if (event.get("trial"), event.get("attempt")) == key and "event" in event:
            yield event
