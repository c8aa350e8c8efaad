"""Compared runs from different sessions, reboots or software versions.

Software versions are those of the kernel, the driver and the framework's patch release.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime
from typing import Any

from raybench.analysis.comparison import PlannedCell, baseline_indices
from raybench.analysis.diagnostics.concurrent_runs import span_of
from raybench.analysis.diagnostics.finding import Observation
from raybench.analysis.grid_results import GridResults
from raybench.core.text import join_words
from raybench.results.attempt import Attempt, Key

PAUSE_S = 3600.0
"""Duration of a pause without work that ends a session, in seconds.

After a longer one the machine's temperature and load may have changed.
"""

_OWN = frozenset({"python", "raybench", "ray"})
"""Versions that do not affect a steady epoch.

Those of the framework and its compute libraries do.
"""


_Session = tuple[float, float]
"""Begin and end of a period of uninterrupted work on one host, in seconds since 1970."""


def find_different_sessions(results: GridResults, attempts: Iterable[Attempt]) -> dict[Key, Observation]:
    """Find completed runs from a different session than their baseline's run.

    That run is the one of the same repeat. Runs on two hosts are on different machines by definition, so only their
    software is compared. A cell whose repeats are far apart has no finding if its baseline's are equally far apart: any
    change then affected both.

    Args:
        results: the cells, their runs, and the baseline of each.
        attempts: all attempts, including superseded ones: they show when a host was at work.
    """
    sessions = _sessions(attempts)
    observations: dict[Key, Observation] = {}
    for run, other in compared_runs(results):
        if reasons := list(_reasons(run, other, sessions)):
            observations[run.key] = _observation(run, other, reasons)
    return observations


def compared_runs(results: GridResults) -> Iterator[tuple[Attempt, Attempt]]:
    """Yield each completed run with the baseline's run of the same repeat, or of the nearest time."""
    cells = results.cells
    for number, origin in enumerate(baseline_indices(cells, results.compared_with)):
        baseline_runs = _timed(results, cells[origin]) if origin is not None and origin != number else []
        for run in _timed(results, cells[number]) if baseline_runs else []:
            yield (
                run,
                min(baseline_runs, key=lambda other: (other.repeat != run.repeat, abs(began(other) - began(run)))),
            )


def _timed(results: GridResults, cell: PlannedCell) -> list[Attempt]:
    """Return the completed runs of a cell with known begin and end."""
    return [run for run in results.completed(cell) if span_of(run)]


def _reasons(run: Attempt, other: Attempt, sessions: Mapping[str, list[_Session]]) -> Iterator[str]:
    """Yield the differences between the circumstances of two runs, known or possible."""
    host, other_host = run.host, other.host
    if host.get("name") and host.get("name") == other_host.get("name"):
        if words := _changed("the kernel", other_host.get("kernel"), host.get("kernel")):
            yield words
        elif _changed("", other_host.get("boot"), host.get("boot")):
            yield "the machine was rebooted"
        elif _at(sessions, other) != _at(sessions, run):
            yield f"the machine had no trial for more than {long_time(PAUSE_S)} in between"
        if _kind(run) == _kind(other) and (
            words := _changed("the driver", other.hardware.get("driver"), run.hardware.get("driver"))
        ):
            yield words
    if _framework(run) == _framework(other):
        for program in sorted((run.versions.keys() & other.versions.keys()) - _OWN):
            if words := _changed(program, _public(other, program), _public(run, program)):
                yield words


def _changed(name: str, before: Any, after: Any) -> str:
    """Describe a change of a value.

    Empty if there is none or either value is unknown.
    """
    return f"{name} changed from {before} to {after}" if before and after and before != after else ""


def _observation(run: Attempt, other: Attempt, reasons: list[str]) -> Observation:
    seconds = began(run) - began(other)
    when = "after" if seconds >= 0 else "before"
    dates = f"{date_of(run)} and {date_of(other)} UTC"
    return Observation(
        f"it started {long_time(abs(seconds))} {when} the run it is compared with ({dates}), and {join_words(reasons)}",
        {"hours": abs(seconds) / 3600, "reasons": float(len(reasons))},
    )


def _sessions(attempts: Iterable[Attempt]) -> dict[str, list[_Session]]:
    """Return the sessions of each host, in order."""
    spans_by_host: dict[str, list[tuple[float, float]]] = {}
    for attempt in attempts:
        if times := span_of(attempt):
            spans_by_host.setdefault(str(attempt.host.get("name")), []).append(times)
    sessions: dict[str, list[_Session]] = {}
    for host, spans in spans_by_host.items():
        host_sessions = sessions.setdefault(host, [])
        for begin, end in sorted(spans):
            if host_sessions and begin <= host_sessions[-1][1] + PAUSE_S:
                begin, earlier_end = host_sessions.pop()
                end = max(end, earlier_end)
            host_sessions.append((begin, end))
    return sessions


def _at(sessions: Mapping[str, list[_Session]], run: Attempt) -> _Session | None:
    """The session in which a run started."""
    start_s = began(run)
    host_sessions = sessions.get(str(run.host.get("name")), [])
    return next((session for session in host_sessions if session[0] <= start_s <= session[1]), None)


def _public(run: Attempt, program: str) -> str:
    """Return a version without its build tag.

    The tag differs between CPU and GPU builds.
    """
    return str(run.versions[program]).partition("+")[0]


def _kind(run: Attempt) -> Any:
    return run.cell.device.kind or None


def _framework(run: Attempt) -> Any:
    """Return the framework with the version that is part of the cell."""
    return run.cell.framework or None, run.cell.engine.framework_version or None


def began(run: Attempt) -> float:
    """Return the start of a run, in seconds since 1970; 0 if it is not known."""
    times = span_of(run)
    return times[0] if times else 0.0


def date_of(run: Attempt) -> str:
    """Return the date and time of a run's start, in UTC."""
    return f"{datetime.fromtimestamp(began(run), UTC):%Y-%m-%d %H:%M}"


def long_time(seconds: float) -> str:
    """Format minutes, hours or days."""
    for unit, unit_s in (("day", 86400), ("hour", 3600)):
        if seconds >= unit_s:
            count = round(seconds / unit_s)
            return f"{count} {unit}{'s' if count > 1 else ''}"
    return f"{seconds / 60:.0f} min"
