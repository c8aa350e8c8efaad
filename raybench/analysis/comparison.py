"""Comparison of each cell of a grid with its baseline."""

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
from raybench.analysis.energy import CellEnergy, cell_energy, energy_ratio
from raybench.analysis.run_counts import RunCounts, count_runs
from raybench.analysis.samples import completed, samples_of, steady_seconds_by_repeat
from raybench.analysis.statistics.speedup import Speedup, paired_or_welch, paired_speedup
from raybench.checks.roofline.judge import roofline
from raybench.core.cell import UNKNOWN_CELL, Cell
from raybench.core.identity import trial_id
from raybench.results import timing
from raybench.results.attempt import Attempt, Key
from raybench.results.parsing import cell_in

ACCURACY = "val/accuracy"

EVEN = 1.01
"""Largest ratio of examples at which epochs count as equal work.

Epochs with different batch sizes each drop a different incomplete last batch.
"""

OF_HARDWARE = ("model", "count", "devices", "threads")
"""The fields of a device that identify the hardware and its amount.

The device's kind is not among them: different kinds can refer to the same hardware.
"""

ENOUGH = 40
"""Maximum number of neighbouring cells per host.

They are used to estimate the effect of repeats. The precision of that estimate is limited by the number of repeats, so
more cells add little.
"""


def _content(value: Any) -> Cell:
    """Parse the content of a cell as stored with a plan.

    Raises:
        ValueError: it is damaged.
    """
    cell = cell_in(value)
    if value and not cell:
        raise ValueError("the content of a cell is damaged")
    return cell


@dataclass(frozen=True)
class PlannedCell:
    """A requested cell of a grid.

    Attributes:
        axes: its coordinates in the grid: each axis and its value.
        repeats: number of runs requested, at least 1.
        skip: the reason why it cannot run here; None if it can.
        price_per_hour: price of its device, in one currency for the whole grid.
        aa_of: the id of the cell that this one repeats under another name for an A/A check; None for any other cell.
        content: the fields that its identity is computed from; falsy if only its runs have them.
        request_id: the digest of its request, the same on machines on which the cells differ; empty if not known.
    """

    cell_id: str
    axes: Mapping[str, Any]
    repeats: int
    skip: str | None = None
    price_per_hour: float | None = None
    aa_of: str | None = None
    content: Annotated[Cell, GetPydanticSchema(lambda *_: no_info_plain_validator_function(_content))] = UNKNOWN_CELL
    request_id: str = ""


@dataclass(frozen=True)
class MeanMinMax:
    """Summary of one number per run over the repeats of a cell.

    Attributes:
        value: the mean (see `Row` for which kind).
        low, high: the minimum and the maximum.
        runs: number of runs.
    """

    value: float
    low: float
    high: float
    runs: int


@dataclass(frozen=True)
class Bottleneck:
    """Bottlenecks of a cell's completed runs (`raybench.checks.roofline.judge`) and their utilization.

    Attributes:
        causes: for example "compute"; several if repeats differ, the most frequent first.
        share: median over repeats of the fraction of the device's probed rate that was reached or, for "input", of the
            time.
    """

    causes: tuple[str, ...]
    share: float


@dataclass(frozen=True)
class Row:
    """The results of one cell.

    Times, metrics and prices are those of completed runs; the counts include every run.

    Attributes:
        counts: number of runs by how they ended.
        steady: steady seconds per epoch, with the geometric mean over repeats: a speed-up is the ratio of two of these.
        from_warmup: a run had no epoch after its warm-up, so `steady` includes a warm-up epoch.
        metric: the metric of the last epoch, with the mean over repeats.
        is_baseline: whether other cells are compared with this one.
        is_aa_test: whether it repeats another cell and is compared with it (an A/A check).
        speedup: relative to the cell that differs in the baseline's fields alone; None for the baseline, and if that
            cell is not in the grid or has no completed run.
        per_example: whether the speed-up is one of examples per second, because the epochs differ in size.
        bottleneck: the bottleneck of its runs; None if the device's probes or the model's cost are not known.
        findings: findings of its completed runs by trial; runs without findings are left out.
        cautions: codes of findings that could reverse its verdict or, for a baseline, that of another cell.
        epoch_price, total_price: price of a steady epoch and of a whole run; None without a price.
        runs: number of completed runs.
        energy: joules of its runs; None if none was measured.
        energy_ratio: the baseline's joules per example ÷ the cell's, as `speedup`.
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
    cautions: tuple[str, ...] = ()
    epoch_price: float | None = None
    total_price: float | None = None
    runs: int = 0
    energy: CellEnergy | None = None
    energy_ratio: Speedup | None = None


def compare(
    cells: Sequence[PlannedCell],
    latest: Mapping[str, Attempt],
    baseline: Mapping[str, Any] | None = None,
    metric: str = ACCURACY,
    findings: Mapping[Key, Sequence[Finding]] | None = None,
) -> list[Row]:
    """Compare the cells of a grid; one row per cell, in order.

    Args:
        cells: the cells of the grid.
        latest: the latest attempt of each trial (`raybench.results.attempt.latest`); attempts of other cells are
            ignored.
        baseline: axes and the baseline's values on them; without it nothing is compared.
        metric: the metric to show.
        findings: findings by attempt (`raybench.analysis.diagnostics.diagnose.diagnose_all`).
    """
    findings = findings or {}
    runs = [runs_of(cell, latest) for cell in cells]
    times = [steady_seconds_by_repeat(cell_runs) for cell_runs in runs]
    neighbours = CoLocatedCells(runs, times)
    rows: list[Row] = []
    cautions: list[set[str]] = [set() for _ in cells]
    for number, (cell, cell_runs, origin) in enumerate(
        zip(cells, runs, baseline_indices(cells, baseline), strict=True)
    ):
        steady = _spread(list(times[number].values()), _geometric_mean)
        speedup = None
        if origin is not None and origin != number:
            speedup = speedup_of(runs[origin], cell_runs, neighbours.of(origin, number))
        if speedup and origin is not None:
            for place, codes in zip(
                (origin, number), cautions_of(speedup, runs[origin], cell_runs, findings), strict=True
            ):
                cautions[place] |= codes
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
                epoch_price=_price(cell, steady.value if steady else None),
                total_price=_price(cell, median(totals) if totals else None),
                energy=cell_energy(cell_runs, next((run.target for run in cell_runs if run.target), None)),
                energy_ratio=energy_ratio(runs[origin], cell_runs) if origin is not None and origin != number else None,
            )
        )
    return [replace(row, cautions=tuple(sorted(codes))) for row, codes in zip(rows, cautions, strict=True)]


def speedup_of(
    baseline: Sequence[Attempt], other: Sequence[Attempt], neighbours: Sequence[Mapping[int, float]] = ()
) -> Speedup | None:
    """Return the speed-up of a cell over its baseline.

    None without times. It is a ratio of examples per second if the epochs differ in their number of examples.

    Args:
        baseline, other: the runs of each.
        neighbours: times of other cells by repeat (`CoLocatedCells`).
    """
    sides = _scaled([samples_of(runs) for runs in (baseline, other)], baseline, other)
    return paired_or_welch(sides[0], sides[1], neighbours)


def interleaved_speedup(baseline: Sequence[Attempt], other: Sequence[Attempt]) -> Speedup | None:
    """Return the speed-up of a cell over its baseline if the runs of each repeat ran one after the other.

    They are always paired by repeat, since that is how they were run. As for `speedup_of`, None without times.
    """
    sides = _scaled([steady_seconds_by_repeat(runs) for runs in (baseline, other)], baseline, other)
    return paired_speedup(sides[0], sides[1])


def _scaled(sides: list[dict[Any, float]], *runs_of_sides: Sequence[Attempt]) -> list[dict[Any, float]]:
    """The times of both sides, per example if the epochs differ in their number of examples."""
    if are_even(*runs_of_sides):
        return sides
    return [
        {sample: seconds / (examples_of(runs) or 1) for sample, seconds in side.items()}
        for side, runs in zip(sides, runs_of_sides, strict=True)
    ]


def are_even(baseline: Sequence[Attempt], other: Sequence[Attempt]) -> bool:
    """Return whether epochs of both sides have equally many examples, within 1%.

    An unknown number of examples counts as equal.
    """
    counts = [count for count in map(examples_of, (baseline, other)) if count]
    return len(counts) < 2 or max(counts) <= EVEN * min(counts)


def have_equal_steps(baseline: Sequence[Attempt], other: Sequence[Attempt]) -> bool:
    """Return whether steps of two training loops have equally many examples, within 1%.

    A loop that accumulates gradients has several steps for each of the optimizer. Unknown numbers count as equal, and
    so do those of raybench's own loops: their batch sizes are compared.
    """
    sizes = [size for size in map(_examples_per_step, (baseline, other)) if size]
    return len(sizes) < 2 or max(sizes) <= EVEN * min(sizes)


def _examples_per_step(runs: Sequence[Attempt]) -> float | None:
    epochs = (timing.steady_epochs(run)[-1] for run in completed(runs) if run.epochs and run.cell.has_own_loop)
    counts = ((epoch.examples, epoch.steps) for epoch in epochs)
    return next((examples / steps for examples, steps in counts if examples and steps), None)


def examples_of(runs: Sequence[Attempt]) -> int | None:
    """Return the number of examples in a steady epoch.

    None if not known.
    """
    return next((timing.steady_epochs(run)[-1].examples for run in completed(runs) if run.epochs), None) or None


def cautions_of(
    speedup: Speedup, baseline: Sequence[Attempt], other: Sequence[Attempt], findings: Mapping[Key, Sequence[Finding]]
) -> tuple[frozenset[str], frozenset[str]]:
    """Return codes of findings that could reverse a verdict, the baseline's first."""
    same_hardware = not on_other_hardware(baseline, other)

    def bearing(runs: Sequence[Attempt]) -> list[list[Finding]]:
        all_findings = (findings.get(run.key, ()) for run in completed(runs))
        return [
            [finding for finding in run_findings if not (same_hardware and is_of_hardware(finding.code))]
            for run_findings in all_findings
        ]

    return could_reverse(speedup, bearing(baseline), bearing(other))


def on_other_hardware(baseline: Sequence[Attempt], other: Sequence[Attempt]) -> bool:
    """Return whether two cells ran on different hardware or amounts of it.

    Returns True if the hardware of either is not known.
    """
    first, second = (next((run.cell for run in runs if run.cell), None) for runs in (baseline, other))
    if not first or not second:
        return True
    return any(getattr(first.device, name) != getattr(second.device, name) for name in OF_HARDWARE)


def baseline_indices(cells: Sequence[PlannedCell], baseline: Mapping[str, Any] | None) -> list[int | None]:
    """Return the index of each cell's baseline.

    Args:
        cells: the cells of the grid.
        baseline: axes and the baseline's values on them; without it only A/A checks have a baseline.

    Returns:
        One index per cell: its own for a baseline, None if the cell has no baseline.
    """
    by_axes = {_frozen(cell.axes): number for number, cell in enumerate(cells) if not cell.aa_of}
    by_id = {cell.cell_id: number for number, cell in enumerate(cells)}
    return [
        by_id.get(cell.aa_of) if cell.aa_of else by_axes.get(_frozen({**cell.axes, **baseline})) if baseline else None
        for cell in cells
    ]


def is_partial_axis(axis: str, cells: Sequence[PlannedCell]) -> bool:
    """Return whether some cells have no value on an axis.

    This is the case if an included cell has a setting of its own. Skipped cells of which nothing else is known have no
    axes and are ignored.
    """
    return any(cell.axes and axis not in cell.axes for cell in cells)


def runs_of(cell: PlannedCell, latest: Mapping[str, Attempt]) -> list[Attempt]:
    """Return the latest attempts of a cell's repeats, in order of repeat."""
    names = [trial_id(cell.cell_id, repeat) for repeat in range(cell.repeats)]
    return [latest[name] for name in names if name in latest]


class CoLocatedCells:
    """The cells of a grid, grouped by the machine they ran on.

    Cells that ran on several machines are left out. The cells that are not being compared show whether events on the
    machine affect all cells of a repeat (`raybench.analysis.statistics.speedup.paired_or_welch`). If there are more
    than `ENOUGH`, an evenly spaced subset is used.

    Args:
        runs: the runs of each cell.
        times: steady seconds of each cell by repeat (`steady_seconds_by_repeat`).
    """

    def __init__(self, runs: Sequence[Sequence[Attempt]], times: Sequence[dict[int, float]]) -> None:
        self._hosts = [{run.host.get("name") for run in completed(cell_runs)} for cell_runs in runs]
        by_host: dict[Any, list[tuple[int, dict[int, float]]]] = {}
        for place, (hosts, cell_times) in enumerate(zip(self._hosts, times, strict=True)):
            if len(hosts) == 1:
                by_host.setdefault(next(iter(hosts)), []).append((place, cell_times))
        self._cells = {host: cells[:: -(-len(cells) // ENOUGH)] for host, cells in by_host.items()}

    def of(self, origin: int, number: int) -> list[dict[int, float]]:
        """Return times of the other cells on the machine of two cells.

        The list is empty if the two ran on several machines.
        """
        hosts = self._hosts[origin] | self._hosts[number]
        host_cells = self._cells.get(next(iter(hosts)), []) if len(hosts) == 1 else []
        return [times for place, times in host_cells if place not in (origin, number)]


def bottleneck_of(runs: Sequence[Attempt]) -> Bottleneck | None:
    """Return the bottleneck of runs; None without probes or the model's cost."""
    rooflines = [line for run in completed(runs) if (line := roofline(run)) is not None]
    names = [name for name, _ in Counter(line.bottleneck for line in rooflines).most_common()]
    return Bottleneck(tuple(names), median(line.share for line in rooflines)) if rooflines else None


def _spread(values: Sequence[float], middle: Any) -> MeanMinMax | None:
    return MeanMinMax(middle(values), min(values), max(values), len(values)) if values else None


def _geometric_mean(values: Sequence[float]) -> float:
    """Return the geometric mean, rounded to remove floating-point noise like every result."""
    return round(geometric_mean(values), 9)


def _price(cell: PlannedCell, seconds: float | None) -> float | None:
    return None if cell.price_per_hour is None or seconds is None else cell.price_per_hour * seconds / 3600


def _frozen(value: Any) -> Hashable:
    """Convert a JSON-like value to a hashable one with the same equality.

    Lists and maps are compared by their contents.
    """
    if isinstance(value, Mapping):
        return frozenset((name, _frozen(item)) for name, item in value.items())
    if isinstance(value, (list, tuple)):
        return tuple(map(_frozen, value))
    hashable: Hashable = value
    return hashable
