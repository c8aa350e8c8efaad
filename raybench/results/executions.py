"""What one execution of a grid leaves beside its trials: the grid file, the plan and the comparison, on disk first."""

from __future__ import annotations

import os
import platform
import re
import shutil
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from raybench.core.events import VERSION, Event, now
from raybench.errors import JournalError
from raybench.results.journal import Journal, is_own

EFFECTIVE, PLAN = "grid.json", "plan.json"
"""What an execution leaves of its grid beside the file: every setting as it held, and the cells that it asked for."""

FOLDER = "executions"
ENDED = "grid_ended"
_WRITTEN = re.compile(
    r"grid\.yaml|(grid|plan|comparison|decay_proofs|report)\.json|comparison\.txt|report\.html|figure_\w+\.svg"
)
"""The names of the files that an execution writes."""


@dataclass(frozen=True)
class Summary:
    """What one execution of a grid comes to, as a run of its own.

    Attributes:
        execution: names the execution; the same one is written once.
        files: from a file's name to its text: the grid file, the plan, the comparison.
        counts: from a status to how many trials ended so.
        started, ended: when, UTC, as in the journal.
        interrupted: whether the user stopped it.
    """

    execution: str
    files: Mapping[str, str]
    counts: Mapping[str, int]
    started: str | None = None
    ended: str | None = None
    interrupted: bool = False


def execution_name(start: str) -> str:
    """The name of this process's execution that began then, UTC."""
    return f"{start} {platform.node()} {os.getpid()}"


def start_of(execution: str) -> str:
    """The time at which an execution began, with which its name begins."""
    return execution.partition(" ")[0]


def folder_of(execution: str) -> str:
    """The name of the folder of an execution's files."""
    return re.sub(r"[^\w-]+", "-", execution)


def write_execution(journal: Journal, summary: Summary) -> Event:
    """Write a summary's files into a folder of their own beside the journal, and an event that names it.

    Returns:
        The event, as the journal has it.

    Raises:
        JournalError: they cannot be written, and then none of them is.
    """
    name = folder_of(summary.execution)
    folder = journal.path.parent / FOLDER / name
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for file, text in summary.files.items():
            (folder / file).write_text(text, encoding="utf-8")
    except OSError as error:
        shutil.rmtree(folder, ignore_errors=True)
        raise JournalError(f"{folder}: {error.strerror or error}") from error
    return journal.append(
        {
            "v": VERSION,
            "event": ENDED,
            "t": summary.ended or now(),
            "execution": summary.execution,
            "started": summary.started,
            "counts": dict(summary.counts),
            "interrupted": summary.interrupted,
            "folder": name,
        }
    )


def read_execution(grid_folder: Path, event: Event) -> Summary | None:
    """The summary that an event names; None where it is no such event, or what it says makes no sense.

    Its files are read when they are asked for.
    """
    name, execution, counts = event.get("folder"), event.get("execution"), event.get("counts")
    # A quote would end the search for its run.
    is_valid = isinstance(name, str) and re.fullmatch(r"[\w-]+", name) and re.fullmatch(r"[^'\\]+", str(execution))
    if event.get("event") != ENDED or not is_valid or not isinstance(counts, Mapping):
        return None
    folder = grid_folder / FOLDER / str(name)
    numbers = {str(status): count for status, count in counts.items() if isinstance(count, int)}
    started, t = (value if isinstance(value, str) else None for value in (event.get("started"), event.get("t")))
    files = _Files(folder, grid_folder)
    return Summary(str(execution), files, numbers, started, t, event.get("interrupted") is True)


class _Files(Mapping[str, str]):
    """The files of an execution, each read when it is asked for; without others' files, links and damaged text."""

    def __init__(self, folder: Path, grid_folder: Path) -> None:
        self._folder, self._grid_folder = folder, grid_folder
        self._texts: dict[str, str] = {}

    def __getitem__(self, name: str) -> str:
        path = self._folder / name
        if name not in self._texts and _WRITTEN.fullmatch(name) and is_own(path, self._grid_folder):
            with suppress(OSError, UnicodeDecodeError):
                self._texts[name] = path.read_text(encoding="utf-8")
        return self._texts[name]

    def __iter__(self) -> Iterator[str]:
        return (path.name for path in sorted(self._folder.glob("*")) if path.name in self)

    def __len__(self) -> int:
        return sum(1 for _ in self)
