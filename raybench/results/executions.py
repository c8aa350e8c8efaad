"""Files of one execution of a grid: grid file, plan and comparison, written before MLflow is updated."""

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
"""Files of an execution in addition to the grid file: the effective settings, and the requested cells."""

GRID_FILE = "grid.yaml"
REQUEST = (GRID_FILE, EFFECTIVE, PLAN)
"""The files of an execution that say what was requested; the others follow from the journal."""

FOLDER = "executions"
ENDED = "grid_ended"
_WRITTEN = re.compile(
    r"grid\.yaml|(grid|plan|comparison|decay_proofs|report)\.json|comparison\.txt|report\.html|figure_\w+\.svg"
)
"""The names of the files that an execution writes."""


@dataclass(frozen=True)
class Summary:
    """Summary of one execution of a grid, logged as a separate MLflow run.

    Attributes:
        execution: name of the execution; its key, so that it is logged only once.
        files: text of each file by its name: the grid file, the plan, the comparison.
        counts: number of trials by status.
        started, ended: times in UTC, as in the journal.
        interrupted: whether the user stopped it.
        origin: the id of the journal for which it was written, if that is another one (`raybench.results.union`).
    """

    execution: str
    files: Mapping[str, str]
    counts: Mapping[str, int]
    started: str | None = None
    ended: str | None = None
    interrupted: bool = False
    origin: str | None = None


def execution_name(start: str) -> str:
    """The name of this process's execution, given its start (UTC)."""
    return f"{start} {platform.node()} {os.getpid()}"


def start_of(execution: str) -> str:
    """The start time of an execution, taken from its name."""
    return execution.partition(" ")[0]


def folder_of(execution: str) -> str:
    """The name of the folder of an execution's files."""
    return re.sub(r"[^\w-]+", "-", execution)


def write_execution(journal: Journal, summary: Summary) -> Event:
    """Write a summary's files next to the journal, and a referring event.

    A file that is the same as in the latest earlier execution shares its space on the disk: the plan of a large grid
    has tens of megabytes, and a grid may be stopped and continued many times.

    Returns:
        The event as written to the journal.

    Raises:
        JournalError: the files cannot be written; none of them is kept.
    """
    name = folder_of(summary.execution)
    folder = journal.path.parent / FOLDER / name
    try:
        folder.mkdir(parents=True, exist_ok=True)
        earlier = max((each for each in folder.parent.iterdir() if each < folder), default=folder)
        for file, text in summary.files.items():
            content = text.encode()
            if not _link(earlier / file, folder / file, content):
                (folder / file).write_bytes(content)
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


def _link(source: Path, target: Path, content: bytes) -> bool:
    """Link a file to an earlier one if that has the same content.

    Returns:
        False if it has not, or if the file system has no links.
    """
    try:
        if not is_own(source, source.parents[2]) or source.stat().st_size != len(content):
            return False
        if source.read_bytes() != content:
            return False
        os.link(source, target)
    except OSError:
        return False
    return True


def read_execution(grid_folder: Path, event: Event, texts: Mapping[str, str] | None = None) -> Summary | None:
    """The summary of a `grid_ended` event; None for any other event or invalid values.

    Args:
        grid_folder: the grid's folder, from which files are read lazily.
        event: the event.
        texts: the text of each file, if they are not in the folder.
    """
    name, execution, counts = event.get("folder"), event.get("execution"), event.get("counts")
    # A quote would end the filter string that searches for its MLflow run.
    is_valid = isinstance(name, str) and re.fullmatch(r"[\w-]+", name) and re.fullmatch(r"[^'\\]+", str(execution))
    if event.get("event") != ENDED or not is_valid or not isinstance(counts, Mapping):
        return None
    folder = grid_folder / FOLDER / str(name)
    numbers = {str(status): count for status, count in counts.items() if isinstance(count, int)}
    fields = (event.get("started"), event.get("t"), event.get("origin"))
    started, t, origin = (value if isinstance(value, str) else None for value in fields)
    files = _Files(folder, grid_folder) if texts is None else texts
    return Summary(str(execution), files, numbers, started, t, event.get("interrupted") is True, origin)


class _Files(Mapping[str, str]):
    """The files of an execution, read lazily; unknown files, links and damaged text are left out."""

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
