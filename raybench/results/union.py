"""Unite the events of one grid from several machines.

An attempt is identified by its trial and its `run`, a UUID. The same attempt in two sources counts once; another
attempt with the same number gets the next free one. Events from another source have its `origin`.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from raybench.core.events import Event
from raybench.core.identity import trial_id
from raybench.errors import UsageError
from raybench.results.attempt import Attempt, Key, key_of, latest
from raybench.results.executions import ENDED, REQUEST, read_execution
from raybench.results.history import GridHistory

ORIGIN = "origin"
"""Field of an event from another source: the id of the journal for which it was written."""

MARKED = frozenset({"trial_started", "trial_skipped", "check_ended", ENDED})
"""The kinds of events that have an origin; the other events of an attempt follow its start."""

_NUMBERS = ("attempt", "of_attempt")
_NOT_CONTENT = frozenset({*_NUMBERS, ORIGIN})
"""Fields that may differ between two copies of an event."""


@dataclass(frozen=True)
class GridEvents:
    """The events of one grid in one source.

    Attributes:
        source: the name of the source in messages.
        grid: the grid's name.
        events: all events, without those about damage of the journal itself.
        executions: the text of each file that says what an execution requested, by its folder's name.
        problems: descriptions of damaged or missing parts.
    """

    source: str
    grid: str
    events: Sequence[Event]
    executions: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    problems: tuple[str, ...] = ()

    @property
    def id(self) -> str:
        """The id of the journal, which never changes: a digest of the first run that is not from another journal."""
        own_events = [event for event in self.events if not event.get(ORIGIN)]
        runs = (event["run"] for event in own_events if isinstance(event.get("run"), str))
        return _digest(next(runs, None) or "".join(map(_content, own_events[:1])))


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
    history = GridHistory.read(journal, all_events=True)
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
    events = [event for event in history.events if event.get("event") != "journal_damaged"]
    return GridEvents(source, name or grid or journal.absolute().parent.name, events, executions, problems)


@dataclass(frozen=True)
class _Known:
    """An attempt in the union."""

    number: int
    contents: frozenset[str]
    source: str


class EventUnion:
    """Events of one grid, to which those of other sources are added.

    Args:
        first: the events of the first source, which stay as they are.
        used: further attempts, whose numbers are taken.

    Attributes:
        events: all events of the union, in order.
        executions: the files of all executions, by the folder's name.
    """

    def __init__(self, first: GridEvents, used: Iterable[Key] = ()) -> None:
        self.events: list[Event] = list(first.events)
        self._own_id = first.id if first.events else ""
        self.executions: dict[str, Mapping[str, str]] = dict(first.executions)
        self._attempts: dict[tuple[str, str], _Known] = {}
        self._numbers: dict[str, int] = {}
        for trial, number in used:
            self._numbers[trial] = max(number, self._numbers.get(trial, 0))
        self._others: set[str] = set()
        self._ends: dict[str, tuple[str, str]] = {}
        for key, events in _by_attempt(first.events).items():
            self._know(key, events, first.source)
        for event in first.events:
            if _attempt_of(event) is None:
                self._know_other(event, first.source)

    def add(self, other: GridEvents) -> tuple[list[Event], dict[Key, int]]:
        """Add the events of another source.

        Returns:
            The new events; and the attempts of the source with new events, each with its number in the union.

        Raises:
            UsageError: an attempt or an execution has other content than in an earlier source.
        """
        numbers: dict[Key, int] = {}
        missing: dict[Key, frozenset[str]] = {}
        for key, events in _by_attempt(other.events).items():
            contents = _contents(events)
            known = self._attempts.get((key[0], _run(events)))
            if known is None:
                numbers[key], missing[key] = self._free_number(key), contents
            elif contents <= known.contents:
                numbers[key], missing[key] = known.number, frozenset()
                continue
            elif known.contents < contents:
                numbers[key], missing[key] = known.number, contents - known.contents
            else:
                raise UsageError(
                    f"Attempt {key[1]} at trial {key[0]} differs between {known.source} and {other.source}, although "
                    "it is the same run: one of them was changed, or is anonymous. Leave one of them out."
                )
            self._know((key[0], numbers[key]), events, other.source)
        new = list(self._new(other, numbers, missing))
        self.events += new
        for folder, files in other.executions.items():
            self.executions.setdefault(folder, files)
        return new, {key: number for key, number in numbers.items() if missing[key]}

    def _new(
        self, other: GridEvents, numbers: Mapping[Key, int], missing: Mapping[Key, frozenset[str]]
    ) -> Iterator[Event]:
        origin, known_others = other.id if other.id != self._own_id else "", frozenset(self._others)
        for event in other.events:
            key = _attempt_of(event)
            if key is None:
                self._know_other(event, other.source)
                if _content(event) not in known_others:
                    yield _marked(event, origin)
            elif _content(event) in missing[key]:
                renumbered = {
                    name: numbers[key[0], event[name]]
                    for name in _NUMBERS
                    if isinstance(event.get(name), int) and (key[0], event[name]) in numbers
                }
                yield _marked({**event, **renumbered}, origin)

    def _know(self, key: Key, events: Sequence[Event], source: str) -> None:
        trial, number = key
        self._attempts[trial, _run(events)] = _Known(number, _contents(events), source)
        self._numbers[trial] = max(number, self._numbers.get(trial, 0))

    def _know_other(self, event: Event, source: str) -> None:
        """Remember an event that concerns no attempt.

        Raises:
            UsageError: it is the end of an execution of which another end is known.
        """
        content, execution = _content(event), event.get("execution")
        self._others.add(content)
        if event.get("event") == ENDED and isinstance(execution, str):
            known, earlier = self._ends.setdefault(execution, (content, source))
            if known != content:
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


def _attempt_of(event: Event) -> Key | None:
    """The attempt of an event; None for one that concerns no attempt, or a trial that was skipped."""
    key = key_of(event)
    return key if key and key[1] else None


def _by_attempt(events: Iterable[Event]) -> dict[Key, list[Event]]:
    groups: dict[Key, list[Event]] = {}
    for event in events:
        if key := _attempt_of(event):
            groups.setdefault(key, []).append(event)
    return groups


def _run(events: Sequence[Event]) -> str:
    """The run of an attempt's events; a digest of them if their start is damaged."""
    runs = (event["run"] for event in events if isinstance(event.get("run"), str))
    return next(runs, None) or _digest("".join(dict.fromkeys(map(_content, events))))  # an event may be there twice


def _contents(events: Iterable[Event]) -> frozenset[str]:
    return frozenset(map(_content, events))


def _content(event: Event) -> str:
    """An event as text, the same in every source."""
    try:
        return json.dumps({name: value for name, value in event.items() if name not in _NOT_CONTENT}, sort_keys=True)
    except RecursionError:  # nested almost as deeply as JSON can be read
        return ""


def _marked(event: Event, origin: str) -> Event:
    origin = str(event.get(ORIGIN) or origin)
    return {**event, ORIGIN: origin} if origin and event.get("event") in MARKED else event


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:12]
