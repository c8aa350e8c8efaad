"""Parts of a grid's journal in an MLflow store: ranges of whole lines, from which the journal can be rebuilt.

A part is named after its range of bytes and its digest: `000000000000-000000057344-1f2e3d4c5b6a7980.jsonl`. The names
alone therefore show what a store lacks, even if a results folder was copied and both copies were continued.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

from raybench.results.journal import is_own
from raybench.results.parsing import json_object

FOLDER = "journal"
"""The folder of the parts among the artifacts of a run."""

LONGEST = 16 * 2**20
"""Bytes per part, exceeded by at most one line: each part is one upload, which has a timeout."""

BLOCK = 2**16

_NAME = re.compile(r"(?:.*/)?(\d{12})-(\d{12})-([0-9a-f]{16})\.jsonl")

Range = tuple[int, int]


class Part(NamedTuple):
    """A range of whole lines of a journal in bytes, and their digest."""

    start: int
    end: int
    digest: str

    @property
    def name(self) -> str:
        """The name of its file."""
        return f"{self.start:012}-{self.end:012}-{self.digest}.jsonl"


@dataclass(frozen=True)
class JoinedJournal:
    """A journal joined from its parts.

    Attributes:
        text: its lines, without those of missing parts.
        damaged: number of parts whose content has changed; their valid lines are in the text.
        missing: number of bytes that no part covers.
    """

    text: bytes
    damaged: int
    missing: int


def part_named(name: str) -> Part | None:
    """The part whose file has this name or path; None for another file."""
    match = _NAME.fullmatch(name)
    return Part(int(match[1]), int(match[2]), match[3]) if match and int(match[1]) < int(match[2]) else None


def journal_id(journal: Path) -> str | None:
    """The id of a journal, which never changes: a digest of its first line. None if it has no whole line yet."""
    if not is_own(journal, journal.parent):
        return None
    with journal.open("rb") as file:
        first = file.readline()
    return _digest(first)[:12] if first.endswith(b"\n") else None


def end_of_lines(journal: Path) -> int:
    """The end of the last whole line of a journal; an incomplete line may follow."""
    with journal.open("rb") as file:
        end = file.seek(0, os.SEEK_END)
        while end:
            start = max(0, end - BLOCK)
            file.seek(start)
            newline = file.read(end - start).rfind(b"\n")
            if newline >= 0:
                return start + newline + 1
            end = start
    return 0


def missing_parts(journal: Path, stored: Iterable[Part], start: int, end: int) -> Iterator[tuple[Part, bytes]]:
    """Yield the missing parts of a range of a journal, with their content.

    Args:
        journal: the journal, which another process may be writing.
        stored: the parts in the store; those whose content differs from this journal's are ignored.
        start, end: the range.
    """
    with journal.open("rb") as file:
        valid_ranges = [
            (part.start, part.end) for part in stored if part.end > start and _digest(_read(file, part)) == part.digest
        ]
        for first, last in _gaps([(0, start), *valid_ranges], end):
            while first < last:
                file.seek(first)
                text = file.read(min(LONGEST, last - first))
                if not text.endswith(b"\n"):
                    text += file.readline()
                if not text:  # it was truncated
                    return
                yield Part(first, first + len(text), _digest(text)), text
                first += len(text)


def join(parts: Iterable[tuple[Part, bytes]], size: int) -> JoinedJournal:
    """Join a journal from its parts; a line that is in several parts counts once.

    Args:
        parts: the parts, each with its content as read.
        size: size of the complete journal in bytes.
    """
    intact: list[tuple[Part, bytes]] = []
    broken: list[tuple[Part, bytes]] = []
    for part, text in sorted(parts):
        (intact if _digest(text) == part.digest else broken).append((part, text))
    ranges = [(part.start, part.end) for part, _ in intact]
    # A part may exist twice, once damaged and once intact.
    gaps = _gaps(ranges, max([size, *(part.end for part, _ in broken)]))
    damaged = [
        (part, text) for part, text in broken if any(part.start < end and start < part.end for start, end in gaps)
    ]
    missing = _gaps([*ranges, *((part.start, part.end) for part, _ in damaged)], size)
    if not damaged and all(end <= start for (_, end), (start, _) in pairwise(ranges)):
        joined = b"".join(text for _, text in intact)  # in less time and memory than by lines
    else:
        lines = dict.fromkeys(line for _, text in sorted([*intact, *damaged]) for line in text.split(b"\n") if line)
        joined = b"".join(line + b"\n" for line in lines)
    return JoinedJournal(joined, len(damaged), sum(end - start for start, end in missing))


def merged(journals: Sequence[bytes]) -> bytes:
    """Merge the journals of several results folders into one.

    The one with the latest event comes last.

    Attempts at the same trial are renumbered across journals, so that each remains a separate attempt.
    """
    if len(journals) == 1:
        return journals[0]
    highest: dict[str, int] = {}
    lines: list[bytes] = []
    event_lists = [[(line, json_object(line) or {}) for line in text.splitlines(keepends=True)] for text in journals]
    for journal in sorted(event_lists, key=lambda each: max((str(event.get("t")) for _, event in each), default="")):
        offsets = dict(highest)
        for line, event in journal:
            trial, attempt = event.get("trial"), event.get("attempt")
            if isinstance(trial, str) and isinstance(attempt, int):
                highest[trial] = max(highest.get(trial, 0), attempt + offsets.get(trial, 0))
                if offsets.get(trial):
                    line = json.dumps(_renumbered(event, offsets[trial]), ensure_ascii=False).encode() + b"\n"
            lines.append(line)
    return b"".join(lines)


def _renumbered(event: Mapping[str, Any], offset: int) -> dict[str, Any]:
    numbers = {name: event[name] for name in ("attempt", "of_attempt") if isinstance(event.get(name), int)}
    return {**event, **{name: number + offset for name, number in numbers.items()}}


def _gaps(ranges: Iterable[Range], size: int) -> list[Range]:
    """The ranges from 0 to a size that no range covers."""
    position, gaps = 0, []
    for start, end in [*sorted(ranges), (size, size)]:
        if position < min(start, size):
            gaps.append((position, min(start, size)))
        position = max(position, end)
    return gaps


def _read(file: BinaryIO, part: Part) -> bytes:
    file.seek(part.start)
    return file.read(part.end - part.start)


def _digest(text: bytes) -> str:
    return hashlib.sha256(text).hexdigest()[:16]
