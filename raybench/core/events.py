"""Events of a trial as plain JSON objects."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any
from zlib import crc32

VERSION = 1

Event = dict[str, Any]

ENDS = frozenset({"trial_ended", "check_ended"})  # the kinds of event that end a job
TRAINED = "trained"  # the kind of event by which a rank says that its training is done: its end, if what follows fails

OUTPUT = "output.log"
ERROR = "error.txt"  # files of an attempt's folder: its output, and the traceback of its error


def events_file(folder: Path) -> Path:
    """The file of the events of an attempt or a check: next to its folder, with its name."""
    return folder.with_name(f"{folder.name}.jsonl")


to_json = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode
"""Encode as compact JSON; made before the user's code, which may change the module `json`, runs."""


CHECKSUM = ',"crc":'  # begins the last field of a line
OF_LINE = frozenset({"at", "crc"})  # fields of a line, and not of its event


def to_line(event: Event, at: int) -> str:
    """An event as one line of JSON, with its place in the file and a checksum of what is in front of it.

    Args:
        at: the bytes in front of it in its file, by which a reader sees that lines are missing.
    """
    text = f'{to_json(event)[:-1]},"at":{at}'
    return f"{text}{CHECKSUM}{crc32(text.encode(errors='replace'))}}}\n"


def now() -> str:
    """The current time in UTC, to the millisecond: 2026-11-21T09:00:00.000Z."""
    return time_text(datetime.now(UTC))


def time_text(time: datetime) -> str:
    """A time in UTC as text."""
    return time.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _event(kind: str, trial: str, attempt: int, /, **fields: Any) -> Event:
    return {"v": VERSION, "event": kind, "t": now(), "trial": trial, "attempt": attempt, **fields}


trial_started = partial(_event, "trial_started")
"""Event at the start of a trial's process: the cell, seed, host, versions and runtime conditions."""

trial_resumed = partial(_event, "trial_resumed")
"""Event when training resumes from a checkpoint of an earlier attempt.

The epochs in the checkpoint follow, as epochs of this attempt. `epoch`: the last of them; `gaps`: the epochs after each
of which another process took over; `of_attempt`: the attempt that made the checkpoint."""

epoch_ended = partial(_event, "epoch_ended")
"""Event after an epoch is trained and evaluated.

Its measured fields are documented at `raybench.results.epoch.Epoch`. An epoch repeated after `trial_resumed` has the
number of its original attempt, `of_attempt`."""

EPOCH_SEEN = "epoch_seen"
"""The kind of event about the last epoch of a running command, for the display: its time may still be corrected."""

trial_audited = partial(_event, "trial_audited")
"""Event with the monitored conditions during a trial (`raybench.monitoring`), just before its end."""

check_ended = partial(_event, "check_ended")
"""Event at the end of a check: its name, its result, its seconds and, if it failed, the reason."""


def trial_ended(trial: str, attempt: int, status: str, **fields: Any) -> Event:
    """Event at the end of a trial: its status and, if they are known, ledger, wall time, warnings and error."""
    unknown: dict[str, Any] = {"ledger": {}, "wall": None, "template_import": None, "warnings": [], "error": None}
    given = {name: value for name, value in fields.items() if value is not None}
    return _event("trial_ended", trial, attempt, status=status, **unknown | given)
