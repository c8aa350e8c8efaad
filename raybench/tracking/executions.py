"""What one execution of a grid leaves beside its trials: the grid file, the plan and the comparison, on disk first."""

from __future__ import annotations

import os
import platform
import re
import shutil
from collections.abc import Iterable, Mapping
from pathlib import Path

from raybench.errors import JournalError
from raybench.tracking.journal import Journal
from raybench.tracking.projection import Summary
from raybench.trial.events import VERSION, Event, now

FOLDER = "executions"
ENDED = "grid_ended"


def named(begun: str) -> str:
    """The name of this process's execution that began then, UTC."""
    return f"{begun} {platform.node()} {os.getpid()}"


def ended(told: Iterable[Event]) -> list[Event]:
    """Of a journal's events, those of executions that have come to their end (`recall`)."""
    return [event for event in told if event.get("event") == ENDED]


def keep(journal: Journal, summary: Summary) -> None:
    """Write a summary's files into a folder of their own beside the journal, and an event that names it.

    Raises:
        JournalError: they cannot be written, and then none of them is.
    """
    name = re.sub(r"[^\w-]+", "-", summary.execution)
    folder = journal.path.parent / FOLDER / name
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for file, text in summary.files.items():
            (folder / file).write_text(text, encoding="utf-8")
    except OSError as error:
        shutil.rmtree(folder, ignore_errors=True)
        raise JournalError(f"{folder}: {error.strerror or error}") from error
    journal.append(
        {
            "v": VERSION,
            "event": ENDED,
            "t": summary.ended or now(),
            "execution": summary.execution,
            "started": summary.started,
            "counts": dict(summary.counts),
            "folder": name,
        }
    )


def recall(grid_folder: Path, event: Event) -> Summary | None:
    """The summary that an event names; None where it is no such event, or what it says makes no sense."""
    name, execution, counts = event.get("folder"), event.get("execution"), event.get("counts")
    # A quote would end the search for its run.
    known = isinstance(name, str) and re.fullmatch(r"[\w-]+", name) and re.fullmatch(r"[^'\\]+", str(execution))
    if event.get("event") != ENDED or not known or not isinstance(counts, Mapping):
        return None
    folder = grid_folder / FOLDER / str(name)
    files = {path.name: path.read_text(encoding="utf-8") for path in sorted(folder.glob("*")) if path.is_file()}
    numbers = {str(status): count for status, count in counts.items() if isinstance(count, int)}
    times = [told if isinstance(told, str) else None for told in (event.get("started"), event.get("t"))]
    return Summary(str(execution), files, numbers, *times)
