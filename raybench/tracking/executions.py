"""What one execution of a grid leaves beside its trials: the grid file, the plan and the comparison, on disk first."""

from __future__ import annotations

import re
import shutil
from collections.abc import Mapping
from pathlib import Path

from raybench.errors import JournalError
from raybench.tracking.journal import Journal
from raybench.tracking.projection import Summary
from raybench.trial.events import VERSION, Event, now

FOLDER = "executions"
ENDED = "grid_ended"


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


def recall(journal: Path, event: Event) -> Summary | None:
    """The summary that an event names; None where it is no such event, or what it says makes no sense."""
    name, execution, counts = event.get("folder"), event.get("execution"), event.get("counts")
    known = isinstance(name, str) and re.fullmatch(r"[\w-]+", name) and isinstance(execution, str)
    if event.get("event") != ENDED or not known or not isinstance(counts, Mapping):
        return None
    folder = journal.parent / FOLDER / str(name)
    files = {path.name: path.read_text(encoding="utf-8") for path in sorted(folder.glob("*")) if path.is_file()}
    numbers = {str(status): count for status, count in counts.items() if isinstance(count, int)}
    times = [told if isinstance(told, str) else None for told in (event.get("started"), event.get("t"))]
    return Summary(str(execution), files, numbers, *times)
