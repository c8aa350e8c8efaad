"""Changes of a machine's speed during a grid, from the canaries before and after each block of its trials."""

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
"""Logarithm of a canary's seconds, and variance of it, beyond which its record is damaged."""

QUIET = 0.03
"""Standard deviation between canaries on a quiet machine, as a part of their time: 0.5 to 3 % were seen."""

ALPHA = 0.05
"""How often quiet machines may be taken for changed ones: in one grid of twenty, over all its devices together."""

MEDIAN = 1.2533
"""The standard error of a median, in those of a mean (√(π/2))."""


@dataclass(frozen=True)
class Drift:
    """A device on which canaries took longer at one time than at another.

    Attributes:
        about: which one, such as "torch on cpu".
        slower: how many times as long as usual the slowest canary took.
        noise: the part by which the slowest of so many may differ on a quiet machine.
        trials: labels of what ran between two canaries of which one was slow.
        excess: for each of these attempts, by which part the slower of the two took longer than noise explains.
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
    """Devices on which canaries differ by more than noise, with the attempts that it touches.

    Args:
        events: the ends of canaries; other events are left aside.
        attempts: those that may be touched.
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
    """The drift of one device, if there is one."""
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
    about = f"{subject.get('framework')} on {subject.get('device', {}).get('kind')}"
    yield Drift(about, math.exp(slowest.log - baseline), noise, tuple(names), affected)


def _have_changed(canaries: Sequence[_Canary], alpha: float) -> bool:
    """Whether canaries differ by more than on a quiet machine: a chi-squared test of their variance."""
    from scipy.special import chdtrc

    weights = [1 / canary.variance for canary in canaries]
    mean = sum(weight * canary.log for weight, canary in zip(weights, canaries, strict=True)) / sum(weights)
    distance = sum(weight * (canary.log - mean) ** 2 for weight, canary in zip(weights, canaries, strict=True))
    return len(canaries) > 1 and float(chdtrc(len(canaries) - 1, distance)) < alpha


def _usual(canaries: Sequence[_Canary]) -> float:
    """The logarithm of what a canary takes when the machine is fast: the mean of the faster of two clusters."""
    logs = sorted(canary.log for canary in canaries)

    def spread(split: int) -> float:
        return sum(sum((log - fmean(part)) ** 2 for log in part) for part in (logs[:split], logs[split:]))

    return fmean(logs[: min(range(1, len(logs)), key=spread)])


def _is_on(attempt: Attempt, subject: Mapping[str, Any], host: Any) -> bool:
    device = attempt.cell.device
    is_device = all(getattr(device, name, None) == value for name, value in subject.get("device", {}).items())
    return is_device and attempt.cell.framework == subject.get("framework") and attempt.host.get("name") == host
