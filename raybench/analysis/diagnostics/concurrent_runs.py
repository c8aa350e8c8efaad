"""What the other attempts of a journal tell of one: who ran beside it, and how fast the same cores were elsewhere."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from raybench.analysis.diagnostics.audit_values import audited, share
from raybench.results.attempt import Attempt, Key

AT_WORK = 0.5
"""The part of its cores' time that a trial has to use for their frequency to say something: idle cores clock down."""


@dataclass(frozen=True)
class ConcurrentRuns:
    """What the other attempts tell of one.

    Attributes:
        overlap: the part of its time in which others ran on its host, from 0 to 1.
        others: how many did.
        same_cores: whether one of them had a core of its own.
        mhz: the highest frequency at which the cores of the same hardware ended, under as many threads; None where
            nobody tells.
    """

    overlap: float = 0.0
    others: int = 0
    same_cores: bool = False
    mhz: float | None = None


def concurrent_runs_of(attempts: Sequence[Attempt]) -> dict[Key, ConcurrentRuns]:
    """What the other attempts tell of each: those at the same time on its host, and those on the same hardware."""
    fastest: dict[tuple[Any, ...], float] = {}
    for attempt in attempts:
        last = audited(attempt, "host", "mhz", "last")
        if last and share(attempt, "own_cpu_s") >= AT_WORK:
            hardware = _hardware(attempt)
            fastest[hardware] = max(last, fastest.get(hardware, 0.0))
    neighbours = {attempt.key: ConcurrentRuns(mhz=fastest.get(_hardware(attempt))) for attempt in attempts}
    for attempt, others in _at_the_same_time(attempts):
        begin, end = span_of(attempt) or (0.0, 0.0)
        shared_s = sum(min(end, until) - max(begin, since) for _, (since, until) in others)
        cores = set(_cores(attempt))
        neighbours[attempt.key] = ConcurrentRuns(
            overlap=min(1.0, shared_s / (end - begin)) if end > begin else 0.0,
            others=len(others),
            same_cores=any(cores & set(_cores(other)) for other, _ in others),
            mhz=neighbours[attempt.key].mhz,
        )
    return neighbours


Span = tuple[float, float]


def _at_the_same_time(attempts: Iterable[Attempt]) -> Iterator[tuple[Attempt, list[tuple[Attempt, Span]]]]:
    """Each attempt that others overlap on its host, with those; in one sweep over each host's attempts in time."""
    hosts: dict[str, list[tuple[Span, Attempt]]] = {}
    for attempt in attempts:
        span = span_of(attempt)
        if span:
            hosts.setdefault(str(attempt.host.get("name")), []).append((span, attempt))
    for entries in hosts.values():
        entries.sort(key=lambda entry: entry[0])
        overlaps: dict[Key, list[tuple[Attempt, Span]]] = {attempt.key: [] for _, attempt in entries}
        running: list[tuple[Span, Attempt]] = []
        for span, attempt in entries:
            running = [entry for entry in running if entry[0][1] > span[0]]
            for other_span, other in running:
                overlaps[attempt.key].append((other, other_span))
                overlaps[other.key].append((attempt, span))
            running.append((span, attempt))
        yield from ((attempt, overlaps[attempt.key]) for _, attempt in entries if overlaps[attempt.key])


def span_of(attempt: Attempt) -> Span | None:
    """When it began and ended, in seconds since 1970; None where either is not known."""
    try:
        begin, end = (datetime.fromisoformat(text or "").timestamp() for text in (attempt.started, attempt.ended))
    except (ValueError, OverflowError):
        return None
    return begin, end


def _hardware(attempt: Attempt) -> tuple[Any, ...]:
    """What decides how fast cores run: their model, how many work, and whether they are what computes."""
    device = attempt.cell.device
    return device.kind, device.model, device.count, device.threads


def _cores(attempt: Attempt) -> list[Any]:
    cores = attempt.runtime_conditions.get("cores")
    return cores if isinstance(cores, list) else []
