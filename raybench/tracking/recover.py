"""Attempts whose driver went away: what their own record still tells, and then their end."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

from raybench.analysis.results import Attempt, Key, attempts
from raybench.tracking.journal import Journal, attempt_folder, attempts_in, read
from raybench.trial import events
from raybench.trial.events import Event
from raybench.trial.record import EVENTS

GONE = {"type": "Lost", "message": "whoever ran it went away before it ended"}


def recover(journal: Journal, known: Mapping[Key, Attempt]) -> list[Event]:
    """Give every attempt that has no end one, so that nothing looks as if it were still running.

    A trial writes its events where it runs before anyone else hears of them: what the driver did not live to write
    comes from there, and so does an attempt of which it wrote nothing. Where that record has no end either, the attempt
    was lost. Call it while holding the results folder (`raybench.tracking.lock`), when nothing can be running.

    Returns:
        The events that were added to the journal.
    """
    grid = journal.path.parent
    added: list[Event] = []
    for attempt in known.values():
        if attempt.status is None:
            added += _missing(attempt, _own(attempt_folder(grid, *attempt.key) / EVENTS, attempt.key))
    for key in attempts_in(grid):
        if key not in known and (own := _own(attempt_folder(grid, *key) / EVENTS, key)):
            added += _missing(Attempt(*key), own)
    for event in added:
        journal.append(event)
    return added


def _missing(attempt: Attempt, own: list[Event]) -> list[Event]:
    there = {epoch.epoch for epoch in attempt.epochs}
    found = [
        event
        for event in own
        if (event["event"] == "trial_started" and attempt.started is None)
        or (event["event"] == "trial_resumed" and not attempt.gaps)
        or (event["event"] == "epoch_ended" and event.get("epoch") not in there)
        or (event["event"] == "trial_audited" and attempt.audit is None)
        or event["event"] == "trial_ended"
    ]
    told = attempts(found).get(attempt.key)
    if told is None or told.status is None:
        found.append(events.trial_ended(*attempt.key, events.LOST, error=GONE))
    return found


def _own(record: Path, key: Key) -> list[Event]:
    """What an attempt has told of itself."""
    return list(_of(record, key)) if record.is_file() else []


def _of(record: Path, key: Key) -> Iterator[Event]:
    for event in read(record, []):
        if (event.get("trial"), event.get("attempt")) == key and "event" in event:
            yield event
