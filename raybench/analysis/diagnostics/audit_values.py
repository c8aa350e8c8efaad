"""What an attempt's audit tells, as numbers; what is damaged or was not told is None."""

from __future__ import annotations

from collections.abc import Mapping, Set
from typing import Any

from raybench.monitoring.summary import LEAST_S
from raybench.results.attempt import Attempt


def gpu_shares(attempt: Attempt, reasons: Set[str]) -> dict[str, float]:
    """For each of these reasons the largest part of the time in which it held a GPU of the trial back."""
    shares: dict[str, float] = {}
    gpus = (attempt.audit or {}).get("gpus")
    for gpu in gpus if isinstance(gpus, list) else []:
        throttled = gpu.get("throttled") if isinstance(gpu, Mapping) else None
        for reason, value in throttled.items() if isinstance(throttled, Mapping) else ():
            if reason in reasons:
                shares[reason] = max(number(value) or 0.0, shares.get(reason, 0.0))
    return shares


def share(attempt: Attempt, name: str) -> float:
    """The part of the trial's cores' time that a total of its audit is; 0 where that is not known."""
    total, cores = audited(attempt, "host", name), audited(attempt, "host", "cores")
    seconds = audited(attempt, "seconds")
    if total is None or not seconds or not cores or seconds < LEAST_S:
        return 0.0
    return total / (seconds * cores)


def window(attempt: Attempt) -> str:
    """The time that its shares are of: `the epochs`, or `the trial` if those were too short."""
    return "the trial" if (attempt.audit or {}).get("within") == "trial" else "the epochs"


def unmeasured(attempt: Attempt) -> float | None:
    """The seconds of an audited trial that was too short for shares; None if it was long enough or not audited."""
    seconds = audited(attempt, "seconds")
    has_audit = audited(attempt, "host", "other_cpu_s") is not None
    return seconds if has_audit and seconds is not None and seconds < LEAST_S else None


def audited(attempt: Attempt, *path: str) -> float | None:
    """A number of the audit (`raybench.monitoring.summary`), by the names on the way to it."""
    value: Any = attempt.audit or {}
    for name in path:
        value = value.get(name) if isinstance(value, Mapping) else None
    return number(value)


def number(value: Any) -> float | None:
    """A value that is a number."""
    return float(value) if isinstance(value, (int, float)) and not isinstance(value, bool) else None
