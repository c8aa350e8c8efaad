"""Events of a trial as plain JSON objects."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

VERSION = 1

Event = dict[str, Any]

ENDS = frozenset({"trial_ended", "check_ended"})
"""The kinds of event that end a job."""

OUTPUT = "output.log"
ERROR = "error.txt"
"""Files of an attempt's folder: its output, and the traceback of its error."""


def events_file(folder: Path) -> Path:
    """The file of the events of an attempt or a check: next to its folder, with its name."""
    return folder.with_name(f"{folder.name}.jsonl")


def to_line(event: Event) -> str:
    """An event as one line of JSON."""
    return json.dumps(event, ensure_ascii=False, allow_nan=False, separators=(",", ":")) + "\n"


def now() -> str:
    """The current time in UTC, to the millisecond: 2026-11-21T09:00:00.000Z."""
    return datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _event(kind: str, trial: str, attempt: int, fields: Mapping[str, Any]) -> Event:
    return {"v": VERSION, "event": kind, "t": now(), "trial": trial, "attempt": attempt, **fields}


def trial_started(trial: str, attempt: int, **fields: Any) -> Event:
    """Event at the start of a trial's process.

    It has the cell, seed, host, versions and runtime conditions.
    """
    return _event("trial_started", trial, attempt, fields)


def trial_resumed(trial: str, attempt: int, **fields: Any) -> Event:
    """Event when training resumes from a checkpoint of an earlier attempt.

    The epochs in the checkpoint follow, as epochs of this attempt. `epoch`: the last of them; `gaps`: the epochs after
    each of which another process took over; `of_attempt`: the attempt that made the checkpoint.
    """
    return _event("trial_resumed", trial, attempt, fields)


def epoch_ended(trial: str, attempt: int, **fields: Any) -> Event:
    """Event after an epoch is trained and evaluated.

    Its measured fields are documented at `raybench.results.epoch.Epoch`. An epoch repeated after `trial_resumed` has
    the number of its original attempt, `of_attempt`.
    """
    return _event("epoch_ended", trial, attempt, fields)


def trial_audited(trial: str, attempt: int, **fields: Any) -> Event:
    """Event with the monitored conditions during a trial (`raybench.monitoring`).

    The supervisor emits it just before the end of the trial.
    """
    return _event("trial_audited", trial, attempt, fields)


def check_ended(trial: str, attempt: int, **fields: Any) -> Event:
    """Event at the end of a check.

    It has its name, its result, its seconds and, if it failed, the reason.
    """
    return _event("check_ended", trial, attempt, fields)


def trial_ended(
    trial: str,
    attempt: int,
    status: str,
    *,
    ledger: Mapping[str, float] | None = None,
    cpu: Mapping[str, float] | None = None,
    wall: float | None = None,
    template_import: float | None = None,
    warnings: Sequence[str] = (),
    error: Mapping[str, Any] | None = None,
) -> Event:
    """Event at the end of a trial: status, ledger and any error."""
    fields = {
        "status": status,
        "ledger": dict(ledger or {}),
        **({"cpu": dict(cpu)} if cpu else {}),
        "wall": wall,
        "template_import": template_import,
        "warnings": list(warnings),
        "error": dict(error) if error else None,
    }
    return _event("trial_ended", trial, attempt, fields)
