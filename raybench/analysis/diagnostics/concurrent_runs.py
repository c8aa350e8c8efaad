"""Concurrent runs on an attempt's host, and core frequencies of other attempts."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from raybench.analysis.diagnostics.audit_values import audited, share
from raybench.results.attempt import Attempt, Key

AT_WORK = 0.5
"""Minimum core utilization of a trial for an informative core frequency.

Idle cores clock down.
"""


@dataclass(frozen=True)
class ConcurrentRuns:
    """Context of one attempt from the other attempts of its journal.

    Attributes:
        overlap: the fraction of its time during which others ran on its host, from 0 to 1.
        others: number of these.
        same_cores: whether one of them had a core in common with it.
        mhz: the highest final frequency of cores of the same hardware, with as many threads; None if not recorded.
    """

    overlap: float = 0.0
    others: int = 0
    same_cores: bool = False
    mhz: float | None = None


def concurrent_runs_of(attempts: Sequence[Attempt]) -> dict[Key, ConcurrentRuns]:
    """Return the context of each attempt from the other attempts."""
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
    """Yield each attempt with those that overlap it on its host.

    Uses one sweep over each host's attempts in order of time.
    """
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
    """Return begin and end in seconds since 1970.

    None if either is not known.
    """
    try:
        begin, end = (datetime.fromisoformat(text or "").timestamp() for text in (attempt.started, attempt.ended))
    except (ValueError, OverflowError):
        return None
    return begin, end


def _hardware(attempt: Attempt) -> tuple[Any, ...]:
    """Return the determinants of core frequency.

    These are the model of the cores, the number of threads, and whether the host computes.
    """
    device = attempt.cell.device
    return device.kind, device.model, device.count, device.threads


def _cores(attempt: Attempt) -> list[Any]:
    cores = attempt.runtime_conditions.get("cores")
    return cores if isinstance(cores, list) else []
