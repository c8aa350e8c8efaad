"""Two versions of one grid: which cells have become slower, and what has changed in between."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from itertools import starmap
from statistics import geometric_mean
from typing import Any

from raybench.analysis.comparison import PlannedCell, interleaved_speedup, speedup_of
from raybench.analysis.grid_results import GridResults
from raybench.analysis.samples import steady_seconds_by_repeat
from raybench.analysis.statistics.speedup import Speedup
from raybench.core.cell import BASE, NEW, VERSION_AXIS
from raybench.core.text import format_value
from raybench.results.attempt import Attempt

_Runs = tuple[Sequence[Attempt], Sequence[Attempt]]
"""The completed runs of a cell in the base and in the new session."""


class ChangeVerdict(StrEnum):
    """The conclusion from the times of a cell in two sessions."""

    SLOWER = "slower"
    WITHIN = "within the limit"
    INCONCLUSIVE = "inconclusive"


class Reason(StrEnum):
    """The reason for an inconclusive comparison."""

    NO_TIMES = "no_times"
    ONE_RUN = "one_run"
    WIDE = "wide"


@dataclass(frozen=True)
class Session:
    """The results of a grid, measured before or after a change.

    Attributes:
        source: where they are, as the user wrote it.
        results: the cells and their runs.
    """

    source: str
    results: GridResults


@dataclass(frozen=True)
class CellChange:
    """A cell that both sessions have.

    Attributes:
        label: the values that distinguish it from the grid's other cells.
        base_s, new_s: steady seconds per epoch; None without a completed run.
        ratio: new ÷ base, with its interval.
        verdict, reason: what follows; the reason of one that is inconclusive.
    """

    label: str
    base_s: float | None
    new_s: float | None
    ratio: Speedup | None
    verdict: ChangeVerdict
    reason: Reason | None = None


@dataclass(frozen=True)
class ChangedValue:
    """Something that differs between the two sessions.

    Attributes:
        name: such as "torch", "driver" or "workload.digest".
        base, new: its values there.
    """

    name: str
    base: tuple[str, ...]
    new: tuple[str, ...]


@dataclass(frozen=True)
class BeforeAfter:
    """A comparison of two sessions, or of two versions that one grid ran.

    Attributes:
        max_slowdown: the accepted increase of the time, as a fraction.
        interleaved: whether the runs of the two alternated in one grid.
        cells: the cells that both have.
        only_in_base, only_in_new: labels of the other cells.
        differences: what changed between them.
    """

    max_slowdown: float
    interleaved: bool
    cells: Sequence[CellChange]
    only_in_base: Sequence[str]
    only_in_new: Sequence[str]
    differences: Sequence[ChangedValue]

    @property
    def slower(self) -> list[CellChange]:
        """The cells that have become slower by more than the limit."""
        return [cell for cell in self.cells if cell.verdict is ChangeVerdict.SLOWER]


def interleaved(
    results: GridResults, max_slowdown: float, files: tuple[Mapping[str, str], Mapping[str, str]] = ({}, {})
) -> BeforeAfter:
    """Compare the two versions of a grid that ran both (`raybench.planning.versions`).

    A cell is slower if the whole 95% interval of its ratio of times is above the limit. The runs of each repeat ran one
    after the other, so they are paired by repeat.

    Args:
        results: of the grid.
        max_slowdown: the accepted increase of the time, as a fraction.
        files: the digests of the user's files in the base and in the new version, by name.
    """
    base, new = (_version(results, version) for version in (BASE, NEW))
    compared = before_after(base, new, max_slowdown, is_interleaved=True)
    names = sorted({name for side in files for name in side if files[0].get(name) != files[1].get(name)})
    changed_files = [ChangedValue(name, *(tuple(filter(None, [side.get(name)])) for side in files)) for name in names]
    # The digest of all files says nothing more.
    others = [each for each in compared.differences if not (names and each.name == "workload.digest")]
    return replace(compared, differences=[*changed_files, *others])


def _version(results: GridResults, version: str) -> Session:
    cells = [
        replace(cell, axes={axis: value for axis, value in cell.axes.items() if axis != VERSION_AXIS})
        for cell in results.cells
        if cell.axes.get(VERSION_AXIS) == version
    ]
    return Session(version, replace(results, cells=cells, baseline={}))


def before_after(base: Session, new: Session, max_slowdown: float, is_interleaved: bool = False) -> BeforeAfter:
    """Compare two sessions of one grid.

    Cells are the same if the grid file asks for the same (`request_id`) or, if another version of the user's code
    changes that, have the same values on the axes. A cell is slower if the whole 95% interval of its ratio of times is
    above the limit, and within the limit if no part of the interval is above it. Sessions are not interleaved, so runs
    are not paired by repeat, and the ratio includes any change of the machine between the sessions.

    If results of other machines were imported, only runs of machines that both sessions have are compared, unless they
    have none in common.

    Args:
        base, new: the sessions.
        max_slowdown: the accepted increase of the time, as a fraction.
        is_interleaved: whether the runs of each repeat ran one after the other.
    """
    base_cells, new_cells = ([cell for cell in session.results.cells if not cell.aa_of] for session in (base, new))
    pairs = list(cell_pairs(base_cells, new_cells))
    in_pairs = {id(cell) for pair in pairs for cell in pair}
    runs_of_pairs: list[_Runs] = [
        (base.results.completed(base_cell), new.results.completed(new_cell)) for base_cell, new_cell in pairs
    ]
    if not is_interleaved:
        runs_of_pairs = list(starmap(_of_common_hosts, runs_of_pairs))
    return BeforeAfter(
        max_slowdown,
        is_interleaved,
        [
            _change(base.results.label(base_cell), runs, max_slowdown, is_interleaved)
            for (base_cell, _), runs in zip(pairs, runs_of_pairs, strict=True)
        ],
        [base.results.label(cell) for cell in base_cells if id(cell) not in in_pairs],
        [new.results.label(cell) for cell in new_cells if id(cell) not in in_pairs],
        list(_differences(runs_of_pairs)),
    )


def _of_common_hosts(base_runs: Sequence[Attempt], new_runs: Sequence[Attempt]) -> _Runs:
    """The runs on hosts that both sides have; all runs if there is no such host."""
    hosts = {run.host.get("name") for run in base_runs} & {run.host.get("name") for run in new_runs}
    if not hosts:
        return base_runs, new_runs
    return [run for run in base_runs if run.host.get("name") in hosts], [
        run for run in new_runs if run.host.get("name") in hosts
    ]


def _change(label: str, runs: _Runs, max_slowdown: float, is_interleaved: bool) -> CellChange:
    base_runs, new_runs = runs
    ratio = (interleaved_speedup if is_interleaved else speedup_of)(new_runs, base_runs)
    verdict, reason = _verdict(ratio, 1 + max_slowdown)
    return CellChange(label, _mean_seconds(base_runs), _mean_seconds(new_runs), ratio, verdict, reason)


def _mean_seconds(runs: Sequence[Attempt]) -> float | None:
    seconds = steady_seconds_by_repeat(runs).values()
    return geometric_mean(seconds) if seconds else None


def _verdict(ratio: Speedup | None, limit: float) -> tuple[ChangeVerdict, Reason | None]:
    if ratio is None:
        return ChangeVerdict.INCONCLUSIVE, Reason.NO_TIMES
    if ratio.low is None or ratio.high is None:
        return ChangeVerdict.INCONCLUSIVE, Reason.ONE_RUN
    if ratio.low <= limit < ratio.high:
        return ChangeVerdict.INCONCLUSIVE, Reason.WIDE
    return (ChangeVerdict.WITHIN if ratio.high <= limit else ChangeVerdict.SLOWER), None


def _differences(pairs: Sequence[_Runs]) -> Iterator[ChangedValue]:
    sides = [_values(run for pair in pairs for run in pair[number]) for number in range(2)]
    for name in dict.fromkeys([*sides[0], *sides[1]]):
        values = [tuple(sorted(side.get(name, ()))) for side in sides]
        if values[0] != values[1]:
            yield ChangedValue(name, *values)


def _values(runs: Iterable[Attempt]) -> dict[str, set[str]]:
    """The machine, software and code of some runs, and the fields of their cells."""
    values: dict[str, set[str]] = {}

    def add(name: str, value: Any) -> None:
        if value not in (None, ""):
            values.setdefault(name, set()).add(format_value(value))

    for run in runs:
        for program, version in run.versions.items():
            add(program, version)
        add("driver", run.hardware.get("driver"))
        for name in ("name", "kernel", "boot"):
            add(f"host.{name}", run.host.get(name))
        for name, value in run.cell.leaves().items():
            if not name.startswith("compared."):
                add(name, value)
    return values


def cell_pairs(base: Sequence[PlannedCell], new: Sequence[PlannedCell]) -> Iterator[tuple[PlannedCell, PlannedCell]]:
    """Yield the cells of the same request or, if the code changes that, with the same values on the axes."""
    rest = list(new)
    for cell in base:
        match = next((other for other in rest if cell.request_id and other.request_id == cell.request_id), None)
        match = match or next((other for other in rest if dict(other.axes) == dict(cell.axes)), None)
        if match:
            rest.remove(match)
            yield cell, match
