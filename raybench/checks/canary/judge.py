"""Changes of a machine's speed during a grid, from its canaries.

Canaries run before and after each block of trials.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from statistics import fmean
from typing import Any

from raybench.core.events import Event
from raybench.core.identity import canonical
from raybench.results.attempt import Attempt, Key
from raybench.results.parsing import mapping_in, valid_values_in

LARGEST = 50.0
"""Maximum log seconds and variance of a canary; larger values mean a damaged record."""

QUIET = 0.03
"""Relative standard deviation between canaries on a quiet machine.

0.5 to 3 % were observed."""

ALPHA = 0.05
"""Significance level per grid, over all its devices together."""

MEDIAN = 1.2533
"""Ratio of the standard error of a median to that of a mean (√(π/2))."""


@dataclass(frozen=True)
class Drift:
    """A device on which canaries became slower during part of the grid.

    Attributes:
        about: the device, such as "torch on cpu".
        slower: time of the slowest canary relative to the baseline.
        noise: relative deviation expected of the slowest of as many canaries on a quiet machine.
        trials: labels of the trials that ran next to a slow canary.
        excess: by attempt, the relative slowdown of the slower of its two canaries beyond noise.
    """

    about: str
    slower: float
    noise: float
    trials: tuple[str, ...]
    excess: Mapping[Key, float] = field(default_factory=dict)


@dataclass(frozen=True)
class _Canary:
    t: str
    log: float
    variance: float

    @classmethod
    def of(cls, event: Event) -> _Canary | None:
        try:
            error = MEDIAN * float(event["noise"]) / math.sqrt(event["calls"])
            canary = cls(str(event["t"]), math.log(event["call_s"]), QUIET**2 + error**2)
        except (KeyError, TypeError, ValueError, ArithmeticError):
            return None
        return canary if abs(canary.log) < LARGEST and canary.variance < LARGEST else None


def drifts(events: Iterable[Event], attempts: Iterable[Attempt]) -> list[Drift]:
    """Devices on which canaries differ by more than noise, with the affected attempts.

    Args:
        events: the ends of canaries; other events are ignored.
        attempts: those that may be affected.
    """
    groups: dict[str, tuple[Event, list[_Canary]]] = {}
    for event in map(dict, map(valid_values_in, events)):
        canary, subject = _Canary.of(event), mapping_in(event.get("subject"))
        if canary and subject and isinstance(subject.get("device", {}), Mapping):
            group_key = canonical({name: event.get(name) for name in ("subject", "host", "visible")})
            groups.setdefault(group_key, (event, []))[1].append(canary)
    records = list(attempts)
    alpha = ALPHA / max(len(groups), 1)
    return [drift for event, canaries in groups.values() for drift in _of_one(event, canaries, records, alpha)]


def _of_one(event: Event, canaries: list[_Canary], attempts: list[Attempt], alpha: float) -> Iterator[Drift]:
    """Yield the drift of one device, if there is one."""
    from scipy.special import ndtri

    canaries = sorted(canaries, key=lambda canary: canary.t)
    if not _have_changed(canaries, alpha):
        return
    baseline = _usual(canaries)
    deviations = float(ndtri(1 - alpha / len(canaries)))
    excess = {canary.t: canary.log - baseline - deviations * math.sqrt(canary.variance) for canary in canaries}
    slowdowns = {t: math.expm1(slowdown) for t, slowdown in excess.items() if slowdown > 0}
    if not slowdowns:
        return
    affected: dict[Key, float] = {}
    names: dict[str, None] = {}
    for attempt in attempts:
        if not _is_on(attempt, event["subject"], event.get("host")):
            continue
        for first, second in pairwise(canaries):
            slowdown = max(slowdowns.get(first.t, 0.0), slowdowns.get(second.t, 0.0))
            if slowdown and (attempt.started or "") < second.t and (attempt.ended or "") > first.t:
                affected[attempt.key] = max(slowdown, affected.get(attempt.key, 0.0))
                names[attempt.label or attempt.trial] = None
    slowest = max(canaries, key=lambda canary: canary.log)
    noise = math.expm1(deviations * math.sqrt(slowest.variance))
    subject = event["subject"]
    about = subject_name(subject.get("framework"), subject.get("device", {}).get("kind"))
    yield Drift(about, math.exp(slowest.log - baseline), noise, tuple(names), affected)


def subject_name(framework: object, kind: object) -> str:
    """What a canary measured: `torch on cpu`; `cpu` for functions and commands without a framework."""
    return str(kind) if framework == "none" else f"{framework} on {kind}"


def _have_changed(canaries: Sequence[_Canary], alpha: float) -> bool:
    """Return whether canaries differ by more than on a quiet machine.

    It is a chi-squared test of their variance.
    """
    from scipy.special import chdtrc

    weights = [1 / canary.variance for canary in canaries]
    mean = sum(weight * canary.log for weight, canary in zip(weights, canaries, strict=True)) / sum(weights)
    distance = sum(weight * (canary.log - mean) ** 2 for weight, canary in zip(weights, canaries, strict=True))
    return len(canaries) > 1 and float(chdtrc(len(canaries) - 1, distance)) < alpha


def _usual(canaries: Sequence[_Canary]) -> float:
    """Baseline log seconds: the mean of the faster of two clusters of canaries."""
    logs = sorted(canary.log for canary in canaries)

    def spread(split: int) -> float:
        return sum(sum((log - fmean(part)) ** 2 for log in part) for part in (logs[:split], logs[split:]))

    return fmean(logs[: min(range(1, len(logs)), key=spread)])


def _is_on(attempt: Attempt, subject: Mapping[str, Any], host: Any) -> bool:
    device = attempt.cell.device
    is_device = all(getattr(device, name, None) == value for name, value in subject.get("device", {}).items())
    return is_device and attempt.cell.framework == subject.get("framework") and attempt.host.get("name") == host
