"""The one vocabulary everything downstream speaks: what happened in a trial, as plain JSON objects."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

VERSION = 1

Event = dict[str, Any]

ENDS = frozenset({"trial_ended", "check_ended"})
"""The kinds of event that are the last of a job."""

EVENTS = "events.jsonl"
OUTPUT = "output.log"
ERROR = "error.txt"
"""Files of an attempt's folder: its events, its output, and the traceback of its error."""


def to_line(event: Event) -> str:
    """An event as one line of JSON."""
    return json.dumps(event, ensure_ascii=False, allow_nan=False, separators=(",", ":")) + "\n"


def now() -> str:
    """The time, UTC, to the millisecond: 2026-11-21T09:00:00.000Z."""
    return datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _event(kind: str, trial: str, attempt: int, fields: Mapping[str, Any]) -> Event:
    return {"v": VERSION, "event": kind, "t": now(), "trial": trial, "attempt": attempt, **fields}


def trial_started(trial: str, attempt: int, **fields: Any) -> Event:
    """A trial's process is up: its cell, seed, host, versions and how fair the conditions are."""
    return _event("trial_started", trial, attempt, fields)


def trial_skipped(trial: str, cell: str, reason: str | None) -> Event:
    """No machine here can hold the trial, and why; it never ran, so that it has no attempt."""
    return {"v": VERSION, "event": "trial_skipped", "t": now(), "trial": trial, "cell_id": cell, "reason": reason}


def trial_resumed(trial: str, attempt: int, **fields: Any) -> Event:
    """Training goes on from a checkpoint of an earlier attempt; the epochs that are in it follow, as this attempt's.

    `epoch`, the last of those; `gaps`, the epochs after each of which another process took over; `of_attempt`, which
    made the checkpoint.
    """
    return _event("trial_resumed", trial, attempt, fields)


def epoch_ended(trial: str, attempt: int, **fields: Any) -> Event:
    """An epoch is trained and evaluated.

    Its measured fields are those of `raybench.results.epoch.Epoch`, which says what each of them is. An epoch repeated
    after `trial_resumed` has the number of its original attempt, `of_attempt`.
    """
    return _event("epoch_ended", trial, attempt, fields)


def trial_audited(trial: str, attempt: int, **fields: Any) -> Event:
    """What the conditions around a trial came to (`raybench.monitoring`); told by its supervisor, just before its
    end."""
    return _event("trial_audited", trial, attempt, fields)


def check_ended(trial: str, attempt: int, **fields: Any) -> Event:
    """A check is over: which one, what it found, its seconds and, where it could not be made, why."""
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
    """A trial is over: its status, its whole ledger and, where it went wrong, what went wrong.

    If the grid sets `profile_steps`, the first repeat of a cell has `step_profile` too: `steps`, how many training
    steps were taken after everything else had been measured, and `seconds`, the median time over these of each section
    (`raybench.core.ledger.STEP_SECTIONS`) of a step, with the device synchronised at every boundary.
    """
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


def journal_damaged(lines: Sequence[int]) -> Event:
    """Lines of the journal itself (from 1) cannot be read, and a person has been told so."""
    return {"v": VERSION, "event": "journal_damaged", "t": now(), "lines": list(lines)}
