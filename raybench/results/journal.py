"""The journal: every event of a grid, one JSON object a line, the truth that everything else is made from."""

from __future__ import annotations

import errno
import json
import logging
import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from threading import Lock
from types import TracebackType
from typing import Self

from raybench.core.events import Event, to_line
from raybench.core.files import append
from raybench.errors import JournalError

log = logging.getLogger("raybench")

JOURNAL = "journal.jsonl"
"""What a grid's journal is called in the grid's own folder."""

ON_DISK_AT_ONCE = frozenset({"trial_started", "trial_ended", "grid_ended"})
"""Events after which the journal is flushed to the disk itself: a power failure loses no result, and no run that MLflow
shows as running is without its attempt here. Other events may be repeated."""


RESULTS = Path("raybench-results")
"""The results folder, where a person names none."""


def grid_folder(results: Path, name: str) -> Path:
    """Where everything of one grid is kept."""
    return results.absolute() / name


def attempt_folder(grid_folder: Path, trial: str, attempt: int) -> Path:
    """Where, beside a grid's journal, an attempt keeps its own events, its output and its traceback."""
    return grid_folder / "trials" / trial / f"attempt-{attempt}"


def attempts_in(grid_folder: Path) -> Iterator[tuple[str, int]]:
    """The attempts, each as its trial and its number, that have a folder beside a grid's journal."""
    for folder in sorted(grid_folder.glob("trials/*/attempt-*")):
        number = folder.name.removeprefix("attempt-")
        if number.isdecimal() and int(number):
            yield folder.parent.name, int(number)


def is_own(path: Path, grid_folder: Path) -> bool:
    """Whether a path below a grid's folder is a regular file without a link on the way.

    raybench makes no links there: those in a folder from somebody else may lead to private files of this user.
    """
    parts = [level for level in (path, *path.parents) if level != grid_folder and level.is_relative_to(grid_folder)]
    return path.is_file() and not any(part.is_symlink() for part in parts)


def has_journal(folder: Path) -> bool:
    """Whether a folder is a grid's: it has a journal or, if that was removed, attempts of which one can be made."""
    return (folder / JOURNAL).exists() or any(attempts_in(folder))


def grids_in(results: Path) -> list[str]:
    """The names of the grids of a results folder."""
    return sorted(folder.name for folder in results.glob("*/") if has_journal(folder))


class Journal:
    """A journal, open to be appended to, by any thread.

    A line that a crash left torn is closed with a newline: it is damaged, and what follows is not. A line that finds no
    room on the disk is not there at all.

    Raises:
        JournalError: the file cannot be written; so does `append`.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._lock = Lock()
        with self._telling():
            path.parent.mkdir(parents=True, exist_ok=True)
            # A link in a results folder from somebody else may lead anywhere.
            self._file = open(path, "a+b", buffering=0, opener=_without_links)  # noqa: SIM115
            fd = self._file.fileno()
            size = os.fstat(fd).st_size
            if size and os.pread(fd, 1, size - 1) != b"\n":
                append(fd, b"\n")

    def append(self, event: Event) -> Event:
        """Write one event to the system, and events of `ON_DISK_AT_ONCE` to the disk.

        Returns:
            The event as whoever reads the journal gets it: a tuple is a list there.

        Raises:
            JournalError: it cannot be written, or the journal has been taken away.
            ValueError: it holds a number that is not finite, or the journal is closed.
            TypeError: it holds something JSON cannot say.
        """
        text = to_line(event).encode("utf-8", errors="replace")
        with self._lock, self._telling():
            fd = self._file.fileno()
            # A file that was removed still takes everything in, and keeps nothing.
            path_stat = self.path.stat()
            if (path_stat.st_dev, path_stat.st_ino) != (os.fstat(fd).st_dev, os.fstat(fd).st_ino):
                raise FileNotFoundError(errno.ENOENT, "it was taken away, and another put in its place")
            append(fd, text)
            if event.get("event") in ON_DISK_AT_ONCE:
                os.fsync(fd)
        written: Event = json.loads(text)
        return written

    @contextmanager
    def _telling(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise JournalError(f"{self.path}: {error.strerror or error}") from error

    def close(self) -> None:
        """Close it; more than once is no harm."""
        with self._lock:
            self._file.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self.close()


def _without_links(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_NOFOLLOW, 0o666)


def read(path: Path, damaged: list[int] | None = None) -> Iterator[Event]:
    """Every event of a journal, in order.

    A last line without its newline is what somebody is writing right now, or was when he died: it counts where it is
    whole. Any other line that is no JSON object is left out and reported. Nothing in a journal is ever run.

    Args:
        path: the journal.
        damaged: gets the numbers (from 1) of the lines left out; without it they are logged as a warning.

    Raises:
        OSError: there is no such file, or it cannot be read.
    """
    lines: list[int] = [] if damaged is None else damaged
    with path.open("rb") as file:
        for number, text in enumerate(file, 1):
            event = _event(text)
            if event is not None:
                yield event
            elif text.endswith(b"\n") and text.strip():
                lines.append(number)
    if lines and damaged is None:
        log.warning("%s", damage(path, lines))


def damage(path: Path, lines: Sequence[int]) -> str:
    """What a person is told of a journal's damaged lines."""
    numbers = ", ".join(map(str, lines[:5])) + (", …" if len(lines) > 5 else "")
    return f"{path}: left out {len(lines)} damaged line{'s' if len(lines) > 1 else ''} ({numbers})"


def reported_damage(events: Iterable[Event]) -> set[int]:
    """The damaged lines that were reported before."""
    notes = (event.get("lines") for event in events if event.get("event") == "journal_damaged")
    return {line for lines in notes if isinstance(lines, list) for line in lines if isinstance(line, int)}


def _event(text: bytes) -> Event | None:
    try:
        value = json.loads(text)
    # ValueError: no JSON, no UTF-8, or a number too long; RecursionError: brackets without end.
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None
