"""Whether a machine was the same all through a grid, by the canaries before and after each block of its trials."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from raybench.analysis.results import Attempt, Key
from raybench.identity import canonical
from raybench.trial.events import Event

LEAST = 0.05
"""A canary that takes less longer than this part says nothing: two on the same quiet machine differ by some percent."""

DEVIATIONS = 3.0
"""How many standard errors of the medians are noise; three are exceeded by chance once in some hundred pairs."""

MEDIAN = 1.2533
"""The standard error of a median, in those of a mean (√(π/2))."""


@dataclass(frozen=True)
class Drift:
    """A device on which canaries took longer at one time than at another.

    Attributes:
        about: which one, such as "torch on cpu".
        slower: how many times as long as the fastest the slowest took.
        noise: the part by which they may differ for nothing.
        trials: what ran between two canaries of which one was slow.
        keys: what names their attempts.
    """

    about: str
    slower: float
    noise: float
    trials: tuple[str, ...]
    keys: tuple[Key, ...] = ()

    def __str__(self) -> str:
        named = ", ".join(self.trials[:3]) + (f" and {len(self.trials) - 3} more" if len(self.trials) > 3 else "")
        return (
            f"{self.about} changed while the grid ran: a job that is always the same took up to {self.slower:.2f} × as "
            f"long (noise: {1 + self.noise:.2f} ×); it touches {named or 'no trial'}"
        )


@dataclass(frozen=True)
class _Canary:
    t: str
    call_s: float
    error: float

    @classmethod
    def of(cls, event: Event) -> _Canary | None:
        try:
            error = MEDIAN * float(event["noise"]) / math.sqrt(event["calls"])
            found = cls(str(event["t"]), float(event["call_s"]), error)
        except (KeyError, TypeError, ValueError, ArithmeticError):
            return None
        return found if found.call_s > 0 else None


def drifts(told: Iterable[Event], attempts: Iterable[Attempt]) -> list[Drift]:
    """Where canaries differ by more than noise, with the attempts that it touches.

    Args:
        told: the ends of canaries, of which others are left aside.
        attempts: those of which somebody wants to know.
    """
    groups: dict[str, tuple[Event, list[_Canary]]] = {}
    for event in told:
        found = _Canary.of(event)
        if found and isinstance(event.get("subject"), Mapping):
            place = canonical({name: event.get(name) for name in ("subject", "host", "visible")})
            groups.setdefault(place, (event, []))[1].append(found)
    known = list(attempts)
    return [drift for event, canaries in groups.values() for drift in _of_one(event, canaries, known)]


def _of_one(event: Event, canaries: list[_Canary], attempts: list[Attempt]) -> Iterator[Drift]:
    """The drift of one device, if there is one."""
    canaries = sorted(canaries, key=lambda canary: canary.t)
    fastest = min(canary.call_s for canary in canaries)
    noise = max(LEAST, DEVIATIONS * math.sqrt(2) * max(canary.error for canary in canaries))
    slow = {canary.t for canary in canaries if canary.call_s > (1 + noise) * fastest}
    if not slow:
        return
    subject, host = event["subject"], event.get("host")
    between = [(first.t, second.t) for first, second in pairwise(canaries) if slow & {first.t, second.t}]
    touched = [
        attempt
        for attempt in attempts
        if _is_on(attempt, subject, host)
        and any((attempt.started or "") < end and (attempt.ended or "") > start for start, end in between)
    ]
    about = f"{subject.get('framework')} on {subject.get('device', {}).get('kind')}"
    slowest = max(canary.call_s for canary in canaries)
    names = tuple(attempt.label or attempt.trial for attempt in touched)
    yield Drift(about, slowest / fastest, noise, names, tuple(attempt.key for attempt in touched))


def _is_on(attempt: Attempt, subject: Mapping[str, Any], host: Any) -> bool:
    device = attempt.cell.get("device", {})
    same = all(device.get(name) == value for name, value in subject.get("device", {}).items())
    return same and attempt.cell.get("framework") == subject.get("framework") and attempt.host.get("name") == host
