"""The one vocabulary everything downstream speaks: what happened in a trial, as plain JSON objects."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

VERSION = 1

COMPLETED = "completed"
OOM = "oom"
DIVERGED = "diverged"
TIMEOUT = "timeout"
FAILED = "failed"
LOST = "lost"
SKIPPED = "skipped"
KILLED = "killed"

RESULTS = frozenset({COMPLETED, OOM, DIVERGED, TIMEOUT})
"""Ends that are results: shown, counted, not tried again, and no fault of the command."""

AGAIN_NEXT_TIME = frozenset({LOST, SKIPPED, KILLED})
"""Ends after which the same file, run again, tries again."""

Event = dict[str, Any]

ENDS = frozenset({"trial_ended", "check_ended"})
"""The kinds of event that are the last of a job."""


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
    """An epoch is trained and evaluated: its steps, examples, ledger and metrics, and the evidence for its times.

    Evidence: `cpu`, processor seconds of all threads in each of the ledger's sections; `device_s`, seconds of `train`
    and `evaluate` by the device's own clock, from the first mark to the last, where it has one; `settle_s`, seconds
    that a value which depends on the last training step took to reach the host once `train` had been closed (evaluation
    has none: its sums are fetched inside its section); `step_s`, mean seconds of a step in blocks of equal length,
    where single steps are timed. `sections`, where they were asked for: seconds of data, forward, loss, backward and
    step over all steps, with a wait for the device at every boundary. An epoch that is told
    again after `trial_resumed` names the attempt that it was, `of_attempt`.
    """
    return _event("epoch_ended", trial, attempt, fields)


def trial_audited(trial: str, attempt: int, **fields: Any) -> Event:
    """What the conditions around a trial came to (`raybench.audit`); told by its supervisor, just before its end."""
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
    """A trial is over: its status, its whole ledger and, where it went wrong, what went wrong."""
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
