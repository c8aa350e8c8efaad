"""How the planned runs of a cell ended."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from raybench.core.status import TrialStatus
from raybench.results.attempt import Attempt

NOT_RUN, UNFINISHED = "not run", "unfinished"
"""Statuses of runs without an end.

These are runs that were not started, and runs that are still running or were interrupted.
"""


@dataclass(frozen=True)
class Ending:
    """A way in which runs ended, and the number of such runs.

    Attributes:
        status: one of `raybench.core.events`, `NOT_RUN` or `UNFINISHED`.
        phase: the phase in which memory ran out, if known.
        asked_bytes: size of the allocation that failed, if known.
    """

    status: str
    count: int
    phase: str | None = None
    asked_bytes: int | None = None


@dataclass(frozen=True)
class RunCounts:
    """Number of a cell's completed runs, and endings of the others.

    Attributes:
        skip: the reason why the cell cannot run here; None if it can. Runs skipped for it are not among `endings`.
        endings: of the runs that did not complete, by status.
    """

    planned: int
    completed: int = 0
    skip: str | None = None
    endings: tuple[Ending, ...] = ()

    @property
    def none_ran(self) -> bool:
        """Whether all runs were skipped."""
        return bool(self.skip) and not self.completed and not self.endings

    @property
    def skipped(self) -> int:
        """Number of runs skipped because the cell cannot run here."""
        return self.planned - self.completed - sum(ending.count for ending in self.endings) if self.skip else 0

    @property
    def by_status(self) -> dict[str, int]:
        """Number of runs that did not complete, by status."""
        counts: Counter[str] = Counter()
        for ending in self.endings:
            counts[ending.status] += ending.count
        return dict(counts)


def count_runs(planned: int, runs: Sequence[Attempt], skip: str | None = None) -> RunCounts:
    """Count the runs of a cell by the way they ended.

    Args:
        planned: number of runs requested.
        runs: the existing runs.
        skip: the reason why the cell cannot run here.
    """
    skip_messages = [str(run.error["message"]) for run in runs if run.status == TrialStatus.SKIPPED and run.error]
    if not skip:
        skip = skip_messages[0] if skip_messages and len(skip_messages) == len(runs) else None
    counts = Counter(map(_ending, runs))
    completed = counts.pop((TrialStatus.COMPLETED, None, None), 0)
    if skip:
        counts.pop((TrialStatus.SKIPPED, None, None), None)
    elif len(runs) < planned:
        counts[NOT_RUN, None, None] = planned - len(runs)
    endings = sorted(counts, key=lambda ending: (ending[0], ending[1] or "", ending[2] or 0))
    return RunCounts(planned, completed, skip, tuple(Ending(end[0], counts[end], *end[1:]) for end in endings))


def _ending(run: Attempt) -> tuple[str, str | None, int | None]:
    """Return the status and, if memory ran out, phase and requested bytes."""
    error: Mapping[str, Any] = (run.error if run.status == TrialStatus.OOM else None) or {}
    phase, asked_bytes = error.get("phase"), error.get("asked_bytes")
    return (
        run.status or UNFINISHED,
        str(phase) if phase else None,
        asked_bytes if isinstance(asked_bytes, int) else None,
    )
