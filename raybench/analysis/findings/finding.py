"""Declaration of findings, and the findings of runs.

A kind of finding is one function, in any module of this package. Its name is the code of the kind, its docstring says
when it is reported, with constants of the module in braces:

    @detects(remedy="use a machine with dedicated cores", caution=True)
    def steal(run: Attempt, context: Context) -> Iterator[Finding]:
        '''A hypervisor gave {STOLEN:.0%} of the cores' time to others.'''

Reports, tables, MLflow's tags and the tables of the documentation come from the declarations.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Protocol

import numpy as np

from raybench.analysis.measured import seconds_since_1970
from raybench.core.status import TrialStatus
from raybench.results.attempt import Attempt


@dataclass(frozen=True)
class Finding:
    """What a detector found in a run.

    Attributes:
        text: one sentence about the run ("the run …", or without a subject), without full stop.
        degree: how bad it is, to choose the worst of several runs.
        too_long: the fraction by which the run's time may be too long, an estimate; None if it is not known.
        too_short: the same for a time that may be too short.
        remedy: the recommended action, if it is not that of the kind.
        code: of its kind.
    """

    text: str
    degree: float
    too_long: float | None = None
    too_short: float | None = None
    remedy: str = ""
    code: str = ""


@dataclass(frozen=True)
class Context:
    """What a detector knows about other runs.

    Attributes:
        axes: the axes of the grid that vary.
        overlap: the fraction of the run's time in which other trials ran on its machine; None if it is not known.
        others: number of these.
        same: findings of runs that differ in one axis or the seed, by code (`settings`).
    """

    axes: Collection[str] = ()
    overlap: float | None = None
    others: int = 0
    same: Mapping[str, Sequence[Finding]] = field(default_factory=dict)


class _Detector(Protocol):
    """A function that yields the findings of a run."""

    __name__: str

    def __call__(self, run: Attempt, context: Context, /) -> Iterator[Finding]: ...


@dataclass(frozen=True)
class FindingKind:
    """A kind of finding.

    Attributes:
        condition: when it is reported, for the documentation.
        remedy: the recommended action.
        caution: whether it can change an answer; else it is a note.
        recurs: whether it comes from the settings and shows in every repeat: if most repeats lack it, it is dropped.
        of_hardware: whether it only matters if devices are compared.
    """

    code: str
    condition: str
    remedy: str
    detector: _Detector
    caution: bool = False
    recurs: bool = False
    of_hardware: bool = False


_DECLARED: dict[str, FindingKind] = {}


@cache
def kinds() -> dict[str, FindingKind]:
    """Return all kinds of findings by code, in alphabetical order."""
    from raybench.analysis.findings import clocks, conditions, settings  # noqa: F401

    return dict(sorted(_DECLARED.items()))


@cache
def _cautions_first() -> list[FindingKind]:
    return sorted(kinds().values(), key=lambda kind: not kind.caution)


def detects(remedy: str, **attributes: bool) -> Callable[[_Detector], _Detector]:
    """Declare a kind of finding by its detector; the attributes are those of `FindingKind`."""

    def declare(detector: _Detector) -> _Detector:
        code, constants = detector.__name__, vars(sys.modules[detector.__module__])
        first, _, _ = (detector.__doc__ or "").partition("\n\n")
        condition = " ".join(first.split()).rstrip(".").format(**constants)
        _DECLARED[code] = FindingKind(code, condition[:1].lower() + condition[1:], remedy, detector, **attributes)
        return detector

    return declare


def findings(run: Attempt, context: Context | None = None) -> tuple[Finding, ...]:
    """Return the findings of one run, cautions first.

    Args:
        run: running or ended; one without epochs only has findings about its conditions.
        context: what is known about other runs.
    """
    if not run.attempt:  # it never started
        return ()
    found = []
    context = context or Context()
    for kind in _cautions_first():
        for each in kind.detector(run, context):
            found.append(replace(each, code=kind.code, remedy=each.remedy or kind.remedy))
    return tuple(found)


def finding_codes(run: Attempt) -> str | None:
    """Return the comma-separated codes of the findings of an ended run, without knowledge of others."""
    return ",".join(finding.code for finding in findings(run)) or None if run.status is not None else None


def find_all(runs: Sequence[Attempt], axes: Collection[str] = ()) -> dict[int, tuple[Finding, ...]]:
    """Return the findings of runs of one grid, by the `id` of each.

    Args:
        runs: the attempts that count.
        axes: the axes of the grid that vary.
    """
    from raybench.analysis.findings.settings import same_results

    overlaps, same = _overlaps(runs), same_results(runs, axes)
    found = {
        id(run): findings(run, Context(axes, *overlaps.get(id(run), (0.0, 0)), same.get(id(run), {}))) for run in runs
    }
    completed = [run for run in runs if run.status == TrialStatus.COMPLETED]
    repeats = Counter(run.cell_id for run in completed)
    counts = Counter((run.cell_id, code) for run in completed for code in {each.code for each in found[id(run)]})
    return {
        id(run): tuple(
            each
            for each in found[id(run)]
            if not kinds()[each.code].recurs or 2 * counts[run.cell_id, each.code] > repeats[run.cell_id]
        )
        for run in runs
    }


def _overlaps(runs: Iterable[Attempt]) -> dict[int, tuple[float, int]]:
    """Return the fraction of each run's time with other trials on its machine, and their number."""
    overlaps: dict[int, tuple[float, int]] = {}
    for group in in_groups(runs, lambda run: run.host.get("name")):
        times = ((id(run), seconds_since_1970(run.started), seconds_since_1970(run.ended)) for run in group)
        spans = {key: (start, end) for key, start, end in times if start and end and start < end}
        once = {run.run or id(run): spans[id(run)] for run in group if id(run) in spans}  # a run may be there twice
        sorted_spans = np.sort(np.array([*once.values()]).reshape(-1, 2).T)
        first = sorted_spans.min(initial=np.inf)
        starts, ends = sorted_spans - first
        before = [np.cumsum([0.0, *each]) for each in (starts, ends)]
        own = np.array([*spans.values()]).reshape(-1, 2).T - first
        places = [np.searchsorted(starts, own), np.searchsorted(ends, own, "right")]
        # Seconds of all runs up to a moment: those since each start minus those since each end.
        begun, over = (own * place - total[place] for place, total in zip(places, before, strict=True))
        shared_s = np.diff(begun - over, axis=0)[0]
        counts = places[0][1] - places[1][0]
        for key, seconds, span, count in zip(spans, shared_s, np.diff(own, axis=0)[0], counts, strict=True):
            overlaps[key] = min(round(float(seconds / span) - 1, 6), 1.0), int(count) - 1  # without the run itself
    return overlaps


def in_groups(runs: Iterable[Attempt], key: Callable[[Attempt], object]) -> Iterator[list[Attempt]]:
    """Yield the runs with equal keys, together."""
    groups: dict[object, list[Attempt]] = {}
    for run in runs:
        groups.setdefault(key(run), []).append(run)
    yield from groups.values()
