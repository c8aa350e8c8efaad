"""The journal: every event of a grid as a JSON line; the source of all other results."""

from __future__ import annotations

import errno
import logging
import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from threading import Lock
from types import TracebackType
from typing import Any, BinaryIO, Protocol, Self

import msgspec

from raybench.core.events import Event, to_line
from raybench.core.files import append
from raybench.errors import JournalError
from raybench.results.parsing import json_object

log = logging.getLogger("raybench")

JOURNAL = "journal.jsonl"
"""File name of a grid's journal."""

ON_DISK_AT_ONCE = frozenset({"trial_started", "trial_ended", "grid_ended"})
"""Events that are flushed to the disk (fsync), so that a power failure loses no result and every run that MLflow shows
as running has its attempt in the journal. Other events may be repeated."""


RESULTS = Path("raybench-results")
"""The default results folder."""


def grid_folder(results: Path, name: str) -> Path:
    """The folder of a grid."""
    return results.absolute() / name


def attempt_folder(grid_folder: Path, trial: str, attempt: int) -> Path:
    """The folder of an attempt, for its own events, output and traceback."""
    return grid_folder / "trials" / trial / f"attempt-{attempt}"


def attempts_in(grid_folder: Path) -> Iterator[tuple[str, int]]:
    """The attempts, as trial and number, that have a folder."""
    for folder in sorted(grid_folder.glob("trials/*/attempt-*")):
        number = folder.name.removeprefix("attempt-")
        if number.isdecimal() and int(number):
            yield folder.parent.name, int(number)


def is_own(path: Path, grid_folder: Path) -> bool:
    """Return whether a path is a regular file without symbolic links.

    raybench creates no links below a grid's folder; those in a folder received from another user may point to private
    files.
    """
    parts = [level for level in (path, *path.parents) if level != grid_folder and level.is_relative_to(grid_folder)]
    return path.is_file() and not any(part.is_symlink() for part in parts)


def has_journal(folder: Path) -> bool:
    """Return whether a folder is a grid's: it has a journal or attempts from which one can be rebuilt."""
    return (folder / JOURNAL).exists() or any(attempts_in(folder))


def grids_in(results: Path) -> list[str]:
    """The names of the grids of a results folder."""
    return sorted(folder.name for folder in results.glob("*/") if has_journal(folder))


class Journal:
    """A journal opened for appending by any thread.

    An incomplete line left by a crash is terminated with a newline, so that only this line is damaged. A line that does
    not fit on the disk is not written at all.

    Raises:
        JournalError: the file cannot be written; so does `append`.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._lock = Lock()
        with self._telling():
            path.parent.mkdir(parents=True, exist_ok=True)
            # A link in a results folder received from another user may point anywhere.
            self._file = open(path, "a+b", buffering=0, opener=_without_links)  # noqa: SIM115
            fd = self._file.fileno()
            size = os.fstat(fd).st_size
            if size and os.pread(fd, 1, size - 1) != b"\n":
                append(fd, b"\n")

    def append(self, event: Event) -> Event:
        """Write one event; events of `ON_DISK_AT_ONCE` are flushed to disk.

        Returns:
            The event as read back from the journal: a tuple becomes a list.

        Raises:
            JournalError: it cannot be written, or the journal was removed.
            ValueError: it contains a number that is not finite, or the journal is closed.
            TypeError: it contains a value that JSON cannot represent.
        """
        text = to_line(event).encode("utf-8", errors="replace")
        with self._lock, self._telling():
            fd = self._file.fileno()
            # Writing to a removed file succeeds but keeps nothing.
            path_stat = self.path.stat()
            if (path_stat.st_dev, path_stat.st_ino) != (os.fstat(fd).st_dev, os.fstat(fd).st_ino):
                raise FileNotFoundError(errno.ENOENT, "it was replaced by another file")
            append(fd, text)
            if event.get("event") in ON_DISK_AT_ONCE:
                os.fsync(fd)
        written: Event = msgspec.json.decode(text)
        return written

    @contextmanager
    def _telling(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise JournalError(f"{self.path}: {error.strerror or error}") from error

    def close(self) -> None:
        """Close it; repeated calls are allowed."""
        with self._lock:
            self._file.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self.close()


def _without_links(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_NOFOLLOW, 0o666)


class Watch(Protocol):
    """Another reader of a journal's lines."""

    def lines(self, file: BinaryIO) -> Iterable[bytes]:
        """The lines of the journal's file."""

    def take(self, item: Any, text: bytes) -> None:
        """Take an event, or the line of an epoch, with its text."""


def read(path: Path, damaged: list[int] | None = None) -> Iterator[Event]:
    """Read the events of a journal, in order (see `read_lines`)."""
    return read_lines(path, damaged)


def read_lines(
    path: Path,
    damaged: list[int] | None = None,
    watch: Watch | None = None,
) -> Iterator[Any]:
    """Read the lines of a journal as events.

    A last line without a newline is being written, or its writer died: it is read if it is complete. Any other line
    that is not a JSON object with the name of an event is skipped and reported. Nothing in a journal is ever executed.

    Args:
        path: the journal.
        damaged: gets the numbers (from 1) of the skipped lines; without it they are logged as a warning.
        watch: gets each event with its line.

    Raises:
        OSError: the file is missing or cannot be read.
    """
    lines: list[int] = [] if damaged is None else damaged
    with path.open("rb") as file:
        for number, text in enumerate(watch.lines(file) if watch else file, 1):
            event = parse_event(text)
            if event is not None:
                if watch:
                    watch.take(event, text)
                yield event
            elif text.endswith(b"\n") and text.strip():
                lines.append(number)
    if lines and damaged is None:
        log.warning("%s", damage(path, lines))


def damage(path: Path, lines: Sequence[int]) -> str:
    """The message to the user about a journal's damaged lines."""
    numbers = ", ".join(map(str, lines[:5])) + (", …" if len(lines) > 5 else "")
    return f"{path}: skipped {len(lines)} damaged line{'s' if len(lines) > 1 else ''} ({numbers})"


def reported_damage(events: Iterable[Event]) -> set[int]:
    """The damaged lines that were already reported."""
    notes = (event.get("lines") for event in events if event.get("event") == "journal_damaged")
    return {line for lines in notes if isinstance(lines, list) for line in lines if isinstance(line, int)}


def parse_event(text: bytes) -> Event | None:
    """The event of a line; None if it is damaged."""
    try:
        value = msgspec.json.decode(text)  # several times as fast as json
    except (msgspec.MsgspecError, ValueError, RecursionError):
        value = json_object(text)  # accepts more, such as other encodings than UTF-8
    return value if isinstance(value, dict) and isinstance(value.get("event"), str) else None
