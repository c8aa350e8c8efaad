"""Numeric values of an attempt's audit; None if damaged or not recorded."""

from __future__ import annotations

from collections.abc import Mapping, Set
from typing import Any

from raybench.monitoring.summary import LEAST_S
from raybench.results.attempt import Attempt


def gpu_shares(attempt: Attempt, reasons: Set[str]) -> dict[str, float]:
    """Return the largest fraction of time of each GPU throttling reason."""
    shares: dict[str, float] = {}
    gpus = (attempt.audit or {}).get("gpus")
    for gpu in gpus if isinstance(gpus, list) else []:
        throttled = gpu.get("throttled") if isinstance(gpu, Mapping) else None
        for reason, value in throttled.items() if isinstance(throttled, Mapping) else ():
            if reason in reasons:
                shares[reason] = max(number(value) or 0.0, shares.get(reason, 0.0))
    return shares


def share(attempt: Attempt, name: str) -> float:
    """Return an audit total as a fraction of the trial's core time.

    0 if unknown.
    """
    if not attempt.audit:
        return 0.0
    total, cores = audited(attempt, "host", name), audited(attempt, "host", "cores")
    seconds = audited(attempt, "seconds")
    if total is None or not seconds or not cores or seconds < LEAST_S:
        return 0.0
    return total / (seconds * cores)


def window(attempt: Attempt) -> str:
    """Return the period that the fractions cover.

    This is `the epochs`, or `the trial` if the epochs were too short.
    """
    return "the trial" if (attempt.audit or {}).get("within") == "trial" else "the epochs"


def unmeasured(attempt: Attempt) -> float | None:
    """Return the duration of an audited trial too short for fractions.

    In seconds. None if it was long enough or not audited.
    """
    seconds = audited(attempt, "seconds")
    has_audit = audited(attempt, "host", "other_cpu_s") is not None
    return seconds if has_audit and seconds is not None and seconds < LEAST_S else None


def audited(attempt: Attempt, *path: str) -> float | None:
    """Return a number of the audit (`raybench.monitoring.summary`) by its path."""
    value: Any = attempt.audit
    if not value:
        return None
    for name in path:
        value = value.get(name) if isinstance(value, Mapping) else None
    return number(value)


def number(value: Any) -> float | None:
    """Return a number as a float, or None for other values."""
    return float(value) if isinstance(value, (int, float)) and not isinstance(value, bool) else None
