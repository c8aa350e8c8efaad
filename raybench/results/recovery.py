"""Attempts whose driver went away: what their own record still tells, and then their end."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

from raybench.core import events
from raybench.core.events import EVENTS, Event
from raybench.core.status import TrialStatus
from raybench.errors import UsageError
from raybench.results.attempt import Attempt, Key, attempts
from raybench.results.journal import JOURNAL, Journal, attempt_folder, attempts_in, is_own, read

GONE = {"type": "Lost", "message": "whoever ran it went away before it ended"}


def recover(journal: Journal, records: Mapping[Key, Attempt]) -> list[Event]:
    """Give every attempt that has no end one, so that nothing looks as if it were still running.

    A trial writes its events where it runs before anyone else hears of them: what the driver did not live to write
    comes from there, and so does an attempt of which it wrote nothing. Where that record has no end either, the attempt
    was lost. Call it while holding the results folder (`raybench.results.lock`), when nothing can be running.

    Returns:
        The events that were added to the journal.
    """
    new_events = []
    for attempt, missing in _missing_events(journal.path.parent, records):
        attempt_record = attempts(missing).get(attempt.key)
        if attempt_record is None or attempt_record.status is None:
            missing.append(events.trial_ended(*attempt.key, TrialStatus.LOST, error=GONE))
        new_events += missing
    for event in new_events:
        journal.append(event)
    return new_events


def complete_events(journal: Path, damaged: list[int] | None = None) -> list[Event]:
    """Every event of a journal and, behind them, those that only the trials' own records have; nothing is written.

    An attempt without an end gets none, as it may still be running.

    Args:
        journal: the journal, which may be missing.
        damaged: gets the numbers (from 1) of the lines left out; without it they are logged as a warning.

    Raises:
        UsageError: it is no file, or cannot be read.
    """
    history = list(read_journal(journal, damaged))
    if journal.name != JOURNAL:
        return history
    return [
        *history,
        *(event for _, missing in _missing_events(journal.parent, attempts(history)) for event in missing),
    ]


def read_journal(journal: Path, damaged: list[int] | None = None) -> Iterator[Event]:
    """Every event of a journal; none if it is missing.

    Raises:
        UsageError: it is no file, or cannot be read.
    """
    check_journal(journal)
    try:
        if journal.exists():
            yield from read(journal, damaged)
    except OSError as error:
        raise UsageError(f"{journal}: cannot be read: {error.strerror or error}") from None


def check_journal(journal: Path) -> None:
    """Refuse what cannot be a journal.

    Raises:
        UsageError: a folder or a device is in its place.
    """
    if journal.exists() and not journal.is_file():
        kind = "a folder" if journal.is_dir() else "not a regular file"
        raise UsageError(f"{journal}: is {kind}, and no journal of raybench; move it away, and run the command again")


def _missing_events(grid: Path, records: Mapping[Key, Attempt]) -> Iterator[tuple[Attempt, list[Event]]]:
    """Each attempt without an end in the journal, with the events that only its own record has."""
    for attempt in records.values():
        if attempt.status is None:
            yield attempt, _missing(attempt, _own(grid, attempt.key))
    for key in attempts_in(grid):
        if key not in records and (own_events := _own(grid, key)):
            yield Attempt(*key), _missing(Attempt(*key), own_events)


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
