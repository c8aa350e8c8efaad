"""The file of a trial's events, written by its process before the events are sent on."""

from __future__ import annotations

import os
import time
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

from raybench.core import events, memory
from raybench.core.events import ERROR, Event, events_file, to_line
from raybench.core.files import append_to
from raybench.core.job import Job
from raybench.core.ledger import Ledger
from raybench.core.process_guard import daemons
from raybench.core.temp_folders import short_ray_folder
from raybench.trial.failure import describe_error
from raybench.trial.journal import Send
from raybench.trial.launch_ranks import run_ranks
from raybench.trial.run import run
from raybench.trial.run_command import run_command

MAX_MESSAGE_CHARS, MAX_TRACEBACK_CHARS = 4_000, 16_000  # length of a message or output, and of a traceback, in an event


def shortened(event: Event) -> Event:
    """An event with the long texts of its error cut; the files `ERROR` and `OUTPUT` have the full ones."""
    error = event.get("error")
    return {**event, "error": {name: _cut(name, value) for name, value in error.items()}} if error else event


def _cut(name: str, value: Any) -> Any:
    longest = MAX_TRACEBACK_CHARS if name == "traceback" else MAX_MESSAGE_CHARS
    if not isinstance(value, str) or len(value) <= longest:
        return value
    half = longest // 2
    return f"{value[:half]}\n[{len(value) - 2 * half:,} characters are only in the trial's folder]\n{value[-half:]}"


def append_event(folder: Path, event: Event) -> None:
    """Append an event to the file of an attempt, and write its full traceback to `ERROR`."""
    folder.mkdir(parents=True, exist_ok=True)
    path = events_file(folder)
    line = to_line(shortened(event), path.stat().st_size if path.exists() else 0)
    append_to(path, line.encode("utf-8", errors="replace"))
    trace = (event.get("error") or {}).get("traceback")
    if trace:
        (folder / ERROR).write_text(trace, encoding="utf-8", errors="backslashreplace")


def record(job: Job, send: Send, ledger: Ledger | None = None) -> None:
    """Run an attempt or check; write each event to its file, then send it."""
    own_pid = os.getpid()
    ledger = ledger or Ledger()

    def store(event: Event) -> None:
        if os.getpid() != own_pid:  # a process that the user's function has forked
            os._exit(0)
        if job.own_process and event["event"] == "trial_ended" and (names := daemons()):
            killed = f"killed, as they ran on after the end of the trial: {', '.join(names)}"
            event = {**event, "warnings": [*event["warnings"], killed]}
        append_event(Path(job.folder), event)
        send(shortened(event))

    train = run_command if job.is_command else run
    work = partial(check, job) if job.check else partial(train, job, ledger=ledger)

    with short_ray_folder():
        run_ranks(job, work, store, ledger)


def check(job: Job, send: Send) -> None:
    """Run the job's check and send its one event, `check_ended`, even after an error.

    The function `measure` of the module in `raybench.checks` with its name returns plain values for a job.
    """
    start_s = time.perf_counter()
    result: dict[str, Any] = {}
    error = None
    try:
        result = import_module(f"raybench.checks.{job.check}").measure(job)
    except (Exception, SystemExit) as exc:
        memory.remove_limit()
        error = describe_error(exc, "check", job)
        if isinstance(exc, memory.OutOfMemory):
            error |= exc.sizes
    seconds = round(time.perf_counter() - start_s, 6)
    fields = {"check": job.check, **job.labels, **result, "seconds": seconds, "error": error}
    send(events.check_ended(job.trial, job.attempt, **fields))
