"""Events of a source that are read again from its file whenever they are needed.

The events of a large grid take ten times the memory of its attempts.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, islice
from typing import Any, BinaryIO
from weakref import finalize

from raybench.core.events import Event
from raybench.results.attempt import Attempt, Key, apply_event, key_of
from raybench.results.journal import parse_event

ORIGIN = "origin"
"""Field of an event from another source: the id of the journal for which it was written."""

NUMBERS = ("attempt", "of_attempt")
_NOT_CONTENT = frozenset({*NUMBERS, ORIGIN})
"""Fields that may differ between two copies of an event."""

_CHUNK = 2**16
"""Number of bytes that are read at a time."""

_DAMAGE = "journal_damaged"
"""The kind of the events about damage of the journal itself, which are left out."""


class StoredLines(Iterable[bytes]):
    """The lines of a file up to its present end, which can be read several times.

    Lines that are appended later do not belong to them. The file may be closed and removed meanwhile.

    Args:
        file: the file.
    """

    def __init__(self, file: BinaryIO) -> None:
        self._descriptor = os.dup(file.fileno())
        finalize(self, os.close, self._descriptor)
        self._end = os.fstat(self._descriptor).st_size

    def __iter__(self) -> Iterator[bytes]:
        position, rest = 0, b""
        while text := os.pread(self._descriptor, min(_CHUNK, self._end - position), position):
            position += len(text)
            *lines, rest = (rest + text).split(b"\n")
            for line in lines:
                yield line + b"\n"
        if rest:
            yield rest


class Events(Iterable[Event]):
    """Events that are made again each time they are iterated over.

    Args:
        make: returns an iterator over them.
        index: their index, if it is known.
    """

    def __init__(self, make: Callable[[], Iterator[Event]], index: EventIndex | None = None) -> None:
        self._make, self.index = make, index

    def __iter__(self) -> Iterator[Event]:
        return self._make()

    def __getitem__(self, place: int) -> Event:
        return next(islice(self, place, None))

    def __bool__(self) -> bool:
        return any(True for _ in self)

    def __eq__(self, other: object) -> bool:
        return list(self) == list(other) if isinstance(other, (Events, Sequence)) else NotImplemented

    __hash__ = None  # type: ignore[assignment]  # as a list

    def __repr__(self) -> str:
        return repr(list(self))


@dataclass(slots=True)
class IndexedAttempt:
    """What identifies an attempt in a source.

    Attributes:
        run: the first run that its events name; None if they name none.
        origin: the origin of its start, empty without one; None if its start was lost.
        has_ended: whether its end is known.
        events: number of its events.
        digest: digest of its lines in their order.
    """

    run: str | None = None
    origin: str | None = None
    has_ended: bool = False
    events: int = 0
    digest: bytes = b""

    def count(self, text: bytes) -> None:
        """Count an event with its line."""
        self.events += 1
        self.digest = _digest(self.digest + text)


class EventIndex:
    """What identifies the attempts of a source, made while its events are read.

    Attributes:
        attempts: its attempts, in the order of their first event.
        others: the events that concern no attempt, or a trial that was skipped.
        records: the attempts and skipped trials, built from all events.
        hosts: the names of the machines of its attempts, in the order of their starts.
    """

    def __init__(self) -> None:
        self.attempts: dict[Key, IndexedAttempt] = {}
        self.others: list[Event] = []
        self.records: dict[Key, Attempt] = {}
        self.hosts: dict[str, None] = {}
        self._lines: Iterable[bytes] = ()
        self._first: Event | None = None
        self._run: str | None = None

    def lines(self, file: BinaryIO) -> Iterable[bytes]:
        """The lines of a file, which `events` reads again."""
        self._lines = StoredLines(file)
        return self._lines

    def take(self, item: Any, text: bytes = b"") -> None:
        """Add an event.

        Args:
            item: an event, or the line of an epoch (`raybench.results.epoch_line`).
            text: its line, if it has one.
        """
        if isinstance(item, dict):
            self._take(item, text)
            return
        attempt = self.attempts.get((item.trial, item.attempt))
        if attempt is None or self._first is None:
            self._take(parse_event(text) or {}, text)
        else:
            attempt.count(text)

    def _take(self, event: Event, text: bytes) -> None:
        kind, run, origin = event.get("event"), event.get("run"), event.get(ORIGIN)
        if kind == _DAMAGE:
            return
        if kind == "trial_started" and isinstance(event.get("host"), dict) and "name" in event["host"]:
            self.hosts[str(event["host"]["name"])] = None
        if not origin:
            self._first = self._first or event
            if self._run is None and isinstance(run, str):
                self._run = run
        key = attempt_of(event)
        if key is None:
            self.others.append(event)
            return
        attempt = self.attempts.setdefault(key, IndexedAttempt())
        attempt.count(text or content(event).encode())
        if attempt.run is None and isinstance(run, str):
            attempt.run = run
        if kind == "trial_started":
            attempt.origin = str(origin or "")
        attempt.has_ended = attempt.has_ended or kind == "trial_ended"

    @property
    def ended(self) -> set[Key]:
        """The attempts whose end is known."""
        return {key for key, attempt in self.attempts.items() if attempt.has_ended}

    @property
    def id(self) -> str:
        """A digest of the first run that is not from another source, which never changes."""
        return short_digest(self._run or (content(self._first) if self._first else ""))

    def events(self, further: Sequence[Event] = ()) -> Events:
        """Return the events of the lines that were read, and further ones that were taken."""
        return Events(lambda: chain(self._of_lines(), further), self)

    def _of_lines(self) -> Iterator[Event]:
        for text in self._lines:
            event = parse_event(text)
            if event is not None and event.get("event") != _DAMAGE:
                yield event


def index_of(events: Iterable[Event]) -> EventIndex:
    """Return the index of events that are in no file."""
    index = EventIndex()
    for event in events:
        apply_event(index.records, event)
        index.take(event)
    return index


def events_in(file: BinaryIO) -> Events:
    """Return the events of a file without damaged lines."""
    index = EventIndex()
    for text in index.lines(file):
        if event := parse_event(text):
            apply_event(index.records, event)
            index.take(event, text)
    return index.events()


def attempt_of(event: Event) -> Key | None:
    """The attempt of an event; None for one that concerns no attempt, or a trial that was skipped."""
    key = key_of(event)
    return key if key and key[1] else None


def content(event: Event) -> str:
    """An event as text, the same in every source."""
    try:
        return json.dumps({name: value for name, value in event.items() if name not in _NOT_CONTENT}, sort_keys=True)
    except RecursionError:  # nested almost as deeply as JSON can be read
        return ""


def content_digest(event: Event) -> bytes:
    """A digest of an event, the same in every source."""
    return _digest(content(event).encode())


def short_digest(text: str) -> str:
    """A digest of a text, as 12 characters."""
    return hashlib.sha256(text.encode()).hexdigest()[:12]


def _digest(data: bytes) -> bytes:
    return hashlib.blake2b(data, digest_size=16).digest()
