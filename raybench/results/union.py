"""Unite the events of one grid from several machines.

An attempt is identified by its trial and its `run`, a UUID. The same attempt in two sources counts once; another
attempt with the same number gets the next free one. Events from another source have its `origin`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import chain
from pathlib import Path
from typing import Any

from raybench.core.events import Event
from raybench.core.identity import trial_id
from raybench.errors import UsageError
from raybench.results.attempt import Attempt, Key, apply_event, key_of, latest
from raybench.results.executions import ENDED, REQUEST, read_execution
from raybench.results.history import GridHistory
from raybench.results.stored_events import (
    NUMBERS,
    ORIGIN,
    EventIndex,
    Events,
    attempt_of,
    content,
    content_digest,
    index_of,
    short_digest,
)

MARKED = frozenset({"trial_started", "trial_skipped", "check_ended", ENDED})
"""The kinds of events that have an origin; the other events of an attempt follow its start."""


@dataclass(frozen=True)
class GridEvents:
    """The events of one grid in one source.

    Attributes:
        source: the name of the source in messages.
        grid: the grid's name.
        events: all events, without those about damage of the journal itself; they can be iterated over repeatedly.
        executions: the text of each file that says what an execution requested, by its folder's name.
        problems: descriptions of damaged or missing parts.
    """

    source: str
    grid: str
    events: Iterable[Event]
    executions: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    problems: tuple[str, ...] = ()

    @cached_property
    def index(self) -> EventIndex:
        """The index of the events."""
        index = self.events.index if isinstance(self.events, Events) else None
        return index or index_of(self.events)


def events_of(journal: Path, source: str, grid: str = "", problems: tuple[str, ...] = ()) -> GridEvents:
    """Return the events of a journal, with those that only the trials' own records have.

    Args:
        journal: the journal, next to the folders of trials and executions.
        source: its name in messages.
        grid: the grid's name, if the events do not record it; by default the folder's.
        problems: further problems to report.

    Raises:
        UsageError: it is not a journal, or cannot be read.
    """
    index = EventIndex()
    history = GridHistory.read(journal, index)
    index.records = history.attempts
    for event in history.recovered:
        index.take(event)
    lines = history.damaged_lines
    if lines and not history.attempts:
        raise UsageError(f"{source}:{lines[0]}: no event of a journal, which is one JSON object a line")
    if lines:
        problems = (*problems, f"{source}: {len(lines)} damaged lines of the journal are left out")
    executions = {}
    for event in history.of_kind(ENDED):
        if summary := read_execution(history.folder, event):
            executions[str(event["folder"])] = {name: summary.files[name] for name in REQUEST if name in summary.files}
    name = next((attempt.grid for attempt in history.attempts.values() if attempt.grid), None)
    events = index.events(history.recovered)
    return GridEvents(source, name or grid or journal.absolute().parent.name, events, executions, problems)


@dataclass(frozen=True)
class _Known:
    """An attempt in the union.

    Attributes:
        number: its number in the union.
        source: the position of the last source that added to it.
        key: its key in that source.
    """

    number: int
    source: int
    key: Key


@dataclass(frozen=True)
class _Addition:
    """The events of a source that are new in the union.

    Attributes:
        source: the source.
        numbers: the number in the union of each attempt of the source.
        missing: the new events of each of its attempts, by a digest of their content; None if all are new.
        others: the new events that concern no attempt.
        origin: the origin of its own events; empty for the union's own.
    """

    source: GridEvents
    numbers: Mapping[Key, int]
    missing: Mapping[Key, Set[bytes] | None]
    others: Set[bytes]
    origin: str

    def events(self) -> Iterator[Event]:
        """The events as they are in the union."""
        for event in self.source.events:
            key = attempt_of(event)
            if key is None:
                if content_digest(event) in self.others:
                    yield _marked(event, self.origin)
            elif self._is_new(event, key):
                renumbered = {
                    name: self.numbers[key[0], event[name]]
                    for name in NUMBERS
                    if isinstance(event.get(name), int) and (key[0], event[name]) in self.numbers
                }
                yield _marked({**event, **renumbered}, self.origin)

    def other_events(self) -> list[Event]:
        """Those that concern no attempt."""
        events = self.source.index.others
        return [_marked(event, self.origin) for event in events if content_digest(event) in self.others]

    def add_to(self, records: dict[Key, Attempt]) -> None:
        """Add the attempts and the skipped trials."""
        completed = {(trial, number) for (trial, old), number in self.numbers.items() if self.missing[trial, old]}
        skipped: dict[Key, list[Event]] = {}
        for event in self.other_events():
            if key := key_of(event):
                skipped.setdefault(key, []).append(event)
        changed = (completed | skipped.keys()) & records.keys()
        records |= {key: records[key].copy() for key in changed}  # they belong to other sources
        for key, record in self.source.index.records.items():
            for event in skipped.get(key, ()):
                apply_event(records, event)
            if self.missing.get(key, ()) is None:
                in_union = (key[0], self.numbers[key])
                records[in_union] = Attempt(*in_union) if in_union in completed else self._renumbered(record)
        if completed:
            for event in self.events():
                if attempt_of(event) in completed:
                    apply_event(records, event)

    def _renumbered(self, record: Attempt) -> Attempt:
        number, origin = self.numbers[record.key], record.origin
        started = self.source.index.attempts[record.key].origin
        if started is not None:  # the start has the origin
            origin = started or self.origin or origin
        return (
            record
            if (number, origin) == (record.attempt, record.origin)
            else replace(record, attempt=number, origin=origin)
        )

    def _is_new(self, event: Event, key: Key) -> bool:
        missing = self.missing[key]
        return missing is None or (bool(missing) and content_digest(event) in missing)


class EventUnion:
    """Events of one grid, to which those of other sources are added.

    Args:
        first: the events of the first source, which stay as they are.
        used: further attempts, whose numbers are taken.

    Attributes:
        executions: the files of all executions, by the folder's name.
    """

    def __init__(self, first: GridEvents, used: Iterable[Key] = ()) -> None:
        self._own_id = first.index.id if first.events else ""
        self.executions: dict[str, Mapping[str, str]] = dict(first.executions)
        self._sources = [first]
        self._additions: list[_Addition] = []
        self._attempts: dict[tuple[str, str], _Known] = {}
        self._numbers: dict[str, int] = {}
        for trial, number in used:
            self._numbers[trial] = max(number, self._numbers.get(trial, 0))
        self._others: set[bytes] = set()
        self._ends: dict[str, tuple[bytes, str]] = {}
        for key, run in _runs(first).items():
            self._know(key, run, key[1])
        for event in first.index.others:
            self._know_other(event, first.source)

    @property
    def events(self) -> Events:
        """All events of the union, in order."""
        first, additions = self._sources[0].events, tuple(self._additions)
        return Events(lambda: chain(first, *(addition.events() for addition in additions)))

    def history(self) -> GridHistory:
        """The attempts of the union, and its other events."""
        first = self._sources[0]
        records, others = dict(first.index.records), list(first.index.others)
        for addition in self._additions:
            addition.add_to(records)
            others += addition.other_events()
        return GridHistory.of(Path(first.source), records, others, self.executions)

    def add(self, other: GridEvents) -> tuple[Events, dict[Key, int]]:
        """Add the events of another source.

        Returns:
            The new events; and the attempts of the source with new events, each with its number in the union.

        Raises:
            UsageError: an attempt or an execution has other content than in an earlier source.
        """
        numbers: dict[Key, int] = {}
        missing: dict[Key, Set[bytes] | None] = {}
        self._sources.append(other)
        runs = _runs(other)
        contents = self._contents(runs)
        for key, run in runs.items():
            known = self._attempts.get((key[0], run))
            if known is None:
                numbers[key], missing[key] = self._free_number(key), None
            elif self._has_same_lines(known, key):
                numbers[key], missing[key] = known.number, frozenset()
                continue
            else:
                earlier, later = contents[known.source, known.key], contents[len(self._sources) - 1, key]
                if not (earlier <= later or later <= earlier):
                    raise UsageError(
                        f"Attempt {key[1]} at trial {key[0]} differs between {self._sources[known.source].source} and "
                        f"{other.source}, although it is the same run: one of them was changed, or is anonymous. Leave "
                        "one of them out."
                    )
                numbers[key], missing[key] = known.number, later - earlier
                if later <= earlier:
                    continue
            self._know(key, run, numbers[key])
        new_others = {content_digest(event) for event in other.index.others} - self._others
        for event in other.index.others:
            self._know_other(event, other.source)
        origin = other.index.id if other.index.id != self._own_id else ""
        addition = _Addition(other, numbers, missing, new_others, origin)
        self._additions.append(addition)
        for folder, files in other.executions.items():
            self.executions.setdefault(folder, files)
        return Events(addition.events), {
            key: number for key, number in numbers.items() if missing[key] is None or missing[key]
        }

    def _contents(self, runs: Mapping[Key, str]) -> dict[tuple[int, Key], set[bytes]]:
        """The contents of the attempts that have to be compared, by the position of their source and their key.

        Attempts with the same lines need not be compared, and those that only one source has.
        """
        last = len(self._sources) - 1
        counts = Counter((trial, run) for (trial, _), run in runs.items())
        wanted: dict[int, set[Key]] = {}
        for key, run in runs.items():
            known = self._attempts.get((key[0], run))
            if counts[key[0], run] > 1 or (known and not self._has_same_lines(known, key)):
                wanted.setdefault(last, set()).add(key)
                if known:
                    wanted.setdefault(known.source, set()).add(known.key)
        contents: dict[tuple[int, Key], set[bytes]] = {}
        for source, keys in wanted.items():
            for event in self._sources[source].events:
                if (key_of_event := attempt_of(event)) in keys:
                    contents.setdefault((source, key_of_event), set()).add(content_digest(event))
        return contents

    def _has_same_lines(self, known: _Known, key: Key) -> bool:
        """Whether an attempt of the last source has the same lines as the known one."""
        earlier = self._sources[known.source].index.attempts[known.key]
        return earlier.digest == self._sources[-1].index.attempts[key].digest

    def _know(self, key: Key, run: str, number: int) -> None:
        self._attempts[key[0], run] = _Known(number, len(self._sources) - 1, key)
        self._numbers[key[0]] = max(number, self._numbers.get(key[0], 0))

    def _know_other(self, event: Event, source: str) -> None:
        """Remember an event that concerns no attempt.

        Raises:
            UsageError: it is the end of an execution of which another end is known.
        """
        digest, execution = content_digest(event), event.get("execution")
        self._others.add(digest)
        if event.get("event") == ENDED and isinstance(execution, str):
            known, earlier = self._ends.setdefault(execution, (digest, source))
            if known != digest:
                raise UsageError(
                    f"The execution {execution} differs between {earlier} and {source}; leave out the source that was "
                    "changed."
                )

    def _free_number(self, key: Key) -> int:
        highest = self._numbers.get(key[0], 0)
        return key[1] if key[1] > highest else highest + 1


def with_distinct_hosts(
    attempts: Mapping[Key, Attempt], checks: Sequence[Event]
) -> tuple[dict[Key, Attempt], list[Event]]:
    """Give machines of the same name, but with another machine id, names of their own.

    The first one keeps its name.

    Args:
        attempts: all attempts of a grid.
        checks: the ends of its checks, which have the name of their host.
    """
    names = _distinct_names(attempts.values())
    renamed_attempts = {
        key: replace(attempt, host={**attempt.host, "name": name})
        if (name := names.get((attempt.origin, attempt.host.get("name"))))
        else attempt
        for key, attempt in attempts.items()
    }
    renamed_checks = [
        {**event, "host": name} if (name := names.get((event.get(ORIGIN), str(event.get("host"))))) else event
        for event in checks
    ]
    return renamed_attempts, renamed_checks


def _distinct_names(attempts: Iterable[Attempt]) -> dict[tuple[Any, Any], str]:
    """The names of hosts that need another one, by origin and name."""
    ids: dict[Any, dict[Any, str]] = {}
    for attempt in attempts:
        if machine := attempt.host.get("machine_id"):
            ids.setdefault(attempt.host.get("name"), {}).setdefault(attempt.origin, str(machine))
    return {
        (origin, name): f"{name} ({machine.removeprefix('machine-')[:4]})"
        for name, by_origin in ids.items()
        for origin, machine in by_origin.items()
        if machine != by_origin.get(None, next(iter(by_origin.values())))
    }


def as_further_repeats(attempts: Mapping[Key, Attempt], repeats: Mapping[str, int]) -> dict[Key, Attempt]:
    """Count a repeat that several machines ran as that many repeats of the cell.

    Of two attempts at a trial on one machine, the later one still replaces the earlier one. Attempts without an origin,
    and all others at their trials, keep their trial.

    Args:
        attempts: all attempts of a grid.
        repeats: the number of requested repeats of each cell, if it is known.
    """
    by_trial: dict[str, list[Attempt]] = {}
    for attempt in attempts.values():
        by_trial.setdefault(attempt.trial, []).append(attempt)
    next_repeat = dict(repeats)
    for same_trial in by_trial.values():
        cell, repeat = same_trial[0].cell_id, same_trial[0].repeat
        next_repeat[cell] = max(repeat + 1, next_repeat.get(cell, 0))
    renamed: dict[Key, str] = {}
    for same_trial in by_trial.values():
        cell = same_trial[0].cell_id
        for machine in _by_machine(same_trial)[1:]:
            renamed |= {each.key: trial_id(cell, next_repeat[cell]) for each in machine}
            next_repeat[cell] += 1
    renamed_attempts = (replace(attempt, trial=renamed.get(key, attempt.trial)) for key, attempt in attempts.items())
    return {attempt.key: attempt for attempt in renamed_attempts}


def latest_of_machines(attempts: Iterable[Attempt]) -> list[Attempt]:
    """The attempt that counts for each trial on each machine (`raybench.results.attempt.latest`)."""
    by_trial: dict[str, list[Attempt]] = {}
    for attempt in attempts:
        by_trial.setdefault(attempt.trial, []).append(attempt)
    return [next(iter(latest(machine).values())) for same in by_trial.values() for machine in _by_machine(same)]


def _by_machine(attempts: Sequence[Attempt]) -> list[list[Attempt]]:
    """Group the attempts at one trial by origin, and the origins by the machine of the attempt that counts."""
    origins: dict[str | None, list[Attempt]] = {}
    for attempt in attempts:
        origins.setdefault(attempt.origin, []).append(attempt)
    machines: dict[Any, list[Attempt]] = {}
    for group in origins.values():
        (last,) = latest(group).values()
        machines.setdefault((last.host.get("name"), last.host.get("machine_id") or None), []).extend(group)
    return list(machines.values())


def _runs(source: GridEvents) -> dict[Key, str]:
    """The run of each attempt; a digest of its events if its start is damaged."""
    runs = {key: attempt.run or "" for key, attempt in source.index.attempts.items()}
    contents: dict[Key, dict[str, None]] = {key: {} for key, run in runs.items() if not run}
    if contents:
        for event in source.events:
            if (key := attempt_of(event)) in contents:
                contents[key][content(event)] = None  # an event may be there twice
    return runs | {key: short_digest("".join(texts)) for key, texts in contents.items()}


def _marked(event: Event, origin: str) -> Event:
    origin = str(event.get(ORIGIN) or origin)
    return {**event, ORIGIN: origin} if origin and event.get("event") in MARKED else event
