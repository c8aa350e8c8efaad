"""A trial's own journal: every event is on disk where the trial runs before anyone else hears of it."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from raybench.trial import events
from raybench.trial.check import check
from raybench.trial.events import Event
from raybench.trial.job import Job
from raybench.trial.ledger import Ledger
from raybench.trial.ranks import ranks_of, spread
from raybench.trial.run import run
from raybench.trial.writing import append_to

EVENTS = "events.jsonl"
OUTPUT = "output.log"
ERROR = "error.txt"


def line(event: Event) -> str:
    """An event as one line of JSON."""
    return json.dumps(event, ensure_ascii=False, allow_nan=False, separators=(",", ":")) + "\n"


def keep(folder: Path, event: Event) -> None:
    """Append an event to the attempt's journal and, where it carries a traceback, write that beside it.

    Raises:
        OSError: it cannot be written; of the event nothing is.
    """
    folder.mkdir(parents=True, exist_ok=True)
    append_to(folder / EVENTS, line(event).encode("utf-8", errors="replace"))
    trace = (event.get("error") or {}).get("traceback")
    if trace:
        (folder / ERROR).write_text(trace, encoding="utf-8")


def end_for(
    job: Job, status: str, error: Mapping[str, Any], wall: float | None = None, template_import: float | None = None
) -> Event:
    """The end of a job that could not tell it itself: a trial ends with a status; a check, without a result."""
    if job.check:
        told = {"check": job.check, **job.labels, "seconds": wall, "error": dict(error)}
        return events.check_ended(job.trial, job.attempt, **told)
    return events.trial_ended(
        job.trial,
        job.attempt,
        status,
        wall=wall,
        template_import=template_import,
        warnings=job.warnings,
        error=error,
    )


def record(job: Job, ledger: Ledger | None = None, template_import: float = 0.0) -> Iterator[Event]:
    """Run an attempt as `raybench.trial.run.run` does, or make its check; each event is kept on disk, then yielded.

    Where this host's disk is full the trial goes on, for whoever hears of its events keeps them too; its end says so.
    """
    work = partial(check, job) if job.check else partial(run, job, ledger, template_import)
    unkept = ""
    for event in spread(ranks_of(job.cell), Path(job.folder), work):
        if unkept and event["event"] == "trial_ended":
            event["warnings"].append(unkept)
        try:
            keep(Path(job.folder), event)
        except OSError as error:
            unkept = f"its own record lacks events: {job.folder}: {error.strerror or error}"
        yield event
