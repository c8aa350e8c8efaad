"""What a grid has come to: a row for each of its cells, each beside its baseline."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from statistics import fmean, geometric_mean, median
from typing import Annotated, Any

from pydantic import GetPydanticSchema
from pydantic_core.core_schema import no_info_plain_validator_function

from raybench.analysis.diagnostics.distortion import could_reverse
from raybench.analysis.diagnostics.finding import Finding, is_of_hardware
from raybench.analysis.run_counts import RunCounts, count_runs
from raybench.analysis.statistics.speedup import Speedup, paired_or_welch
from raybench.analysis.step_breakdown import step_profile
from raybench.checks.roofline.judge import roofline
from raybench.core.cell import UNKNOWN_CELL, Cell
from raybench.core.identity import trial_id
from raybench.core.status import TrialStatus
from raybench.results import timing
from raybench.results.attempt import Attempt, Key
from raybench.results.parsing import cell_in

ACCURACY = "val/accuracy"

EVEN = 1.01
"""Up to this ratio of examples two epochs are the same work: of different batches each leaves out its ragged end."""

OF_HARDWARE = ("model", "count", "devices", "threads")
"""What of a cell's device says which hardware it is, and how much of it; its kind may be another way to the same."""

ENOUGH = 40
"""Cells beside two that are compared: how well it is known what repeats do to them is up to the number of repeats."""


def _content(value: Any) -> Cell:
    """The content of a cell as a plan was written with it.

    Raises:
        ValueError: it is damaged.
    """
    cell = cell_in(value)
    if value and not cell:
        raise ValueError("the content of a cell is damaged")
    return cell


@dataclass(frozen=True)
class PlannedCell:
    """A cell that was asked for.

    Attributes:
        axes: where it lies in the grid: each axis and its value.
        repeats: number of runs requested, at least 1.
        skip: why it cannot run here; None where it can.
        price_per_hour: what its device costs, in any one currency for the whole grid.
        aa_of: the cell which this is once more under another name, for an A/A check; None for any other.
        content: what its identity is made of; false where only its runs know.
    """

    cell_id: str
    axes: Mapping[str, Any]
    repeats: int
    skip: str | None = None
    price_per_hour: float | None = None
    aa_of: str | None = None
    content: Annotated[Cell, GetPydanticSchema(lambda *_: no_info_plain_validator_function(_content))] = UNKNOWN_CELL


@dataclass(frozen=True)
class MeanMinMax:
    """One number a run, over the repeats of a cell: the middle one (see `Row`), the least, the most, and how many."""

    value: float
    low: float
    high: float
    runs: int


@dataclass(frozen=True)
class Bottleneck:
    """What held the completed runs of a cell up (`raybench.checks.roofline.judge`), most often first, and how far they
    got.

    Attributes:
        causes: such as "compute"; several if repeats differ, the most frequent first.
        share: the median over repeats of what a device's probes reached or, for "input", of the time.
    """

    causes: tuple[str, ...]
    share: float


@dataclass(frozen=True)
class Row:
    """One cell's results. Times, metrics and prices are those of completed runs; every run is in the counts.

    Attributes:
        counts: how its runs ended.
        steady: steady seconds an epoch, with the geometric mean over repeats: a speed-up is the ratio of two of these.
        from_warmup: a run had no epoch after its warm-up, so that `steady` holds a warm-up epoch.
        metric: the metric of the last epoch, with the mean over repeats.
        is_baseline: whether others are compared with this one.
        is_aa_test: whether it is another one once more, and is compared with that: an A/A check.
        speedup: over the cell that differs in the baseline's fields alone; None for the baseline, and if that cell
            is not in the grid or has no completed run.
        per_example: whether the speed-up is one of examples per second, because the epochs differ in their number.
        bottleneck: what held its runs up; None where nothing was found out of the device or the model.
        findings: those of its completed runs, by the trial; runs without findings are not in it.
        caveats: codes of findings of its runs that could turn its verdict or, of a baseline, that of another cell.
        step_profile: milliseconds of each section of a training step; empty if none of its runs was profiled.
        epoch_price, total_price: of a steady epoch, and of a whole run; None without a price.
        runs: how many of them completed.
    """

    cell_id: str
    axes: Mapping[str, Any]
    counts: RunCounts
    steady: MeanMinMax | None = None
    from_warmup: bool = False
    metric: MeanMinMax | None = None
    is_baseline: bool = False
    is_aa_test: bool = False
    speedup: Speedup | None = None
    per_example: bool = False
    bottleneck: Bottleneck | None = None
    findings: Mapping[str, Sequence[Finding]] = field(default_factory=dict)
    caveats: tuple[str, ...] = ()
    step_profile: Mapping[str, float] = field(default_factory=dict)
    epoch_price: float | None = None
    total_price: float | None = None
    runs: int = 0


def compare(
    cells: Sequence[PlannedCell],
    latest: Mapping[str, Attempt],
    baseline: Mapping[str, Any] | None = None,
    metric: str = ACCURACY,
    findings: Mapping[Key, Sequence[Finding]] | None = None,
) -> list[Row]:
    """A row for each cell, in order.

    Args:
        cells: the cells of the grid.
        latest: the latest attempt of each trial (`raybench.results.attempt.latest`); others are left aside.
        baseline: axes and the value that the baseline has there; without it nothing is compared.
        metric: the metric that is shown.
        findings: of attempts (`raybench.analysis.diagnostics.diagnose.diagnose_all`).
    """
    findings = findings or {}
    runs = [runs_of(cell, latest) for cell in cells]
    times = [steady_seconds_by_repeat(cell_runs) for cell_runs in runs]
    neighbours = CoLocatedCells(runs, times)
    rows: list[Row] = []
    caveats: list[set[str]] = [set() for _ in cells]
    for number, (cell, cell_runs, origin) in enumerate(
        zip(cells, runs, baseline_indices(cells, baseline), strict=True)
    ):
        steady = _spread(list(times[number].values()), _geometric_mean)
        speedup = None
        if origin is not None and origin != number:
            speedup = speedup_of(runs[origin], cell_runs, neighbours.of(origin, number))
        if speedup and origin is not None:
            for place, codes in zip(
                (origin, number), caveats_of(speedup, runs[origin], cell_runs, findings), strict=True
            ):
                caveats[place] |= codes
        totals = [seconds for run in completed(cell_runs) if (seconds := timing.total(run)) is not None]
        rows.append(
            Row(
                cell_id=cell.cell_id,
                axes=cell.axes,
                counts=count_runs(cell.repeats, cell_runs, cell.skip),
                runs=len(completed(cell_runs)),
                steady=steady,
                from_warmup=any(map(timing.steady_from_warmup, completed(cell_runs))),
                metric=_spread(
                    [value for run in completed(cell_runs) if (value := run.metric(metric)) is not None], fmean
                ),
                is_baseline=origin == number,
                is_aa_test=cell.aa_of is not None,
                speedup=speedup,
                per_example=speedup is not None and origin is not None and not are_even(runs[origin], cell_runs),
                bottleneck=bottleneck_of(cell_runs),
                findings={
                    run.trial: run_findings for run in completed(cell_runs) if (run_findings := findings.get(run.key))
                },
                step_profile=step_profile(completed(cell_runs)),
                epoch_price=_price(cell, steady.value if steady else None),
                total_price=_price(cell, median(totals) if totals else None),
            )
        )
    return [replace(row, caveats=tuple(sorted(codes))) for row, codes in zip(rows, caveats, strict=True)]


def speedup_of(
    baseline: Sequence[Attempt], other: Sequence[Attempt], neighbours: Sequence[Mapping[int, float]] = ()
) -> Speedup | None:
    """How many times as fast one cell's runs are as another's; of examples, if their epochs differ in their number.

    Args:
        baseline, other: the runs of each.
        neighbours: times of other cells by repeat (`CoLocatedCells`).
    """
    sides = [samples_of(runs) for runs in (baseline, other)]
    if not are_even(baseline, other):
        for side, runs in zip(sides, (baseline, other), strict=True):
            for sample in side:
                side[sample] /= examples_of(runs) or 1
    return paired_or_welch(sides[0], sides[1], neighbours)


def are_even(baseline: Sequence[Attempt], other: Sequence[Attempt]) -> bool:
    """Whether an epoch is the same work on both sides, as far as is known: as many examples, within 1 %."""
    counts = [count for count in map(examples_of, (baseline, other)) if count]
    return len(counts) < 2 or max(counts) <= EVEN * min(counts)


def examples_of(runs: Sequence[Attempt]) -> int | None:
    """How many examples a steady epoch trains on; None if that is not known."""
    return next((timing.steady_epochs(run)[-1].examples for run in completed(runs) if run.epochs), None) or None


def caveats_of(
    speedup: Speedup, baseline: Sequence[Attempt], other: Sequence[Attempt], findings: Mapping[Key, Sequence[Finding]]
) -> tuple[frozenset[str], frozenset[str]]:
    """Codes of the findings on either side that could turn a verdict, the baseline's first."""
    same_hardware = not on_other_hardware(baseline, other)

    def bearing(runs: Sequence[Attempt]) -> list[list[Finding]]:
        all_findings = (findings.get(run.key, ()) for run in completed(runs))
        return [
            [finding for finding in run_findings if not (same_hardware and is_of_hardware(finding.code))]
            for run_findings in all_findings
        ]

    return could_reverse(speedup, bearing(baseline), bearing(other))


def on_other_hardware(baseline: Sequence[Attempt], other: Sequence[Attempt]) -> bool:
    """Whether two cells ran on different hardware, or on more or less of one, as far as is known."""
    first, second = (next((run.cell for run in runs if run.cell), None) for runs in (baseline, other))
    if not first or not second:
        return True
    return any(getattr(first.device, name) != getattr(second.device, name) for name in OF_HARDWARE)


def baseline_indices(cells: Sequence[PlannedCell], baseline: Mapping[str, Any] | None) -> list[int | None]:
    """The place of the cell that each is compared with: its own for a baseline, None where there is none.

    Args:
        cells: the cells of the grid.
        baseline: axes and the value that the baseline has there; without it only A/A checks have one.
    """
    by_axes = {_frozen(cell.axes): number for number, cell in enumerate(cells) if not cell.aa_of}
    by_id = {cell.cell_id: number for number, cell in enumerate(cells)}
    return [
        by_id.get(cell.aa_of) if cell.aa_of else by_axes.get(_frozen({**cell.axes, **baseline})) if baseline else None
        for cell in cells
    ]


def is_partial_axis(axis: str, cells: Sequence[PlannedCell]) -> bool:
    """Whether some cell is not on an axis, as where one that is included has a setting of its own.

    One of which nothing is known but that it was skipped is on none.
    """
    return any(cell.axes and axis not in cell.axes for cell in cells)


def runs_of(cell: PlannedCell, latest: Mapping[str, Attempt]) -> list[Attempt]:
    """The runs of a cell that there are, by repeat; latest attempts alone."""
    names = [trial_id(cell.cell_id, repeat) for repeat in range(cell.repeats)]
    return [latest[name] for name in names if name in latest]


def steady_seconds_by_repeat(runs: Sequence[Attempt]) -> dict[int, float]:
    """Steady seconds an epoch of completed runs by repeat; one of no time, as in a damaged journal, is left out."""
    return {run.repeat: seconds for run in completed(runs) if (seconds := timing.steady(run))}


def samples_of(runs: Sequence[Attempt]) -> dict[Any, float]:
    """The independent times of a cell: of its runs by repeat or, if they ran on several hosts, each host's mean.

    Runs on one host share what makes it faster or slower than others of its model, so they are no independent sample.
    """
    hosts = hosts_of(runs)
    if len(hosts) < 2:
        return dict(steady_seconds_by_repeat(runs))
    by_host = {host: steady_seconds_by_repeat([run for run in runs if run.host.get("name") == host]) for host in hosts}
    return {host: geometric_mean(times.values()) for host, times in by_host.items() if times}


def hosts_of(runs: Sequence[Attempt]) -> list[Any]:
    """The hosts of completed runs that have a time."""
    return list(dict.fromkeys(run.host.get("name") for run in completed(runs) if timing.steady(run)))


class CoLocatedCells:
    """The cells of a grid by the one machine on which each ran.

    Those that are not compared tell whether what happens to the machine moves the repeats
    (`raybench.analysis.statistics.speedup.paired_or_welch`). Of very many, some that lie all over the grid are enough.

    Args:
        runs: of each cell.
        times: of the same (`times_of`).
    """

    def __init__(self, runs: Sequence[Sequence[Attempt]], times: Sequence[dict[int, float]]) -> None:
        self._hosts = [{run.host.get("name") for run in completed(cell_runs)} for cell_runs in runs]
        by_host: dict[Any, list[tuple[int, dict[int, float]]]] = {}
        for place, (hosts, cell_times) in enumerate(zip(self._hosts, times, strict=True)):
            if len(hosts) == 1:
                by_host.setdefault(next(iter(hosts)), []).append((place, cell_times))
        self._cells = {host: cells[:: -(-len(cells) // ENOUGH)] for host, cells in by_host.items()}

    def of(self, origin: int, number: int) -> list[dict[int, float]]:
        """Times of the other cells on the machine on which these two ran; none if they ran on several."""
        hosts = self._hosts[origin] | self._hosts[number]
        host_cells = self._cells.get(next(iter(hosts)), []) if len(hosts) == 1 else []
        return [times for place, times in host_cells if place not in (origin, number)]


def bottleneck_of(runs: Sequence[Attempt]) -> Bottleneck | None:
    """What held the completed ones of some runs up; None where nothing was found out of the device or the model."""
    rooflines = [line for run in completed(runs) if (line := roofline(run)) is not None]
    names = [name for name, _ in Counter(line.bottleneck for line in rooflines).most_common()]
    return Bottleneck(tuple(names), median(line.share for line in rooflines)) if rooflines else None


def completed(runs: Sequence[Attempt]) -> list[Attempt]:
    """The completed ones of some runs."""
    return [run for run in runs if run.status == TrialStatus.COMPLETED]


def _spread(values: Sequence[float], middle: Any) -> MeanMinMax | None:
    return MeanMinMax(middle(values), min(values), max(values), len(values)) if values else None


def _geometric_mean(values: Sequence[float]) -> float:
    """Without the noise of binary floats, as every result."""
    return round(geometric_mean(values), 9)


def _price(cell: PlannedCell, seconds: float | None) -> float | None:
    return None if cell.price_per_hour is None or seconds is None else cell.price_per_hour * seconds / 3600


def _frozen(value: Any) -> Hashable:
    """A value that can be a key and is equal where JSON's is: lists and maps compare by what they hold."""
    if isinstance(value, Mapping):
        return frozenset((name, _frozen(item)) for name, item in value.items())
    if isinstance(value, (list, tuple)):
        return tuple(map(_frozen, value))
    hashable: Hashable = value
    return hashable
