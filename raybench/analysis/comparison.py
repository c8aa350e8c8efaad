"""What a grid has come to: a row for each of its cells, each beside its baseline."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import fmean, geometric_mean, median
from typing import Any

from raybench.analysis import rules
from raybench.analysis.findings import Finding
from raybench.analysis.results import Attempt, Key
from raybench.analysis.roofline import roofline
from raybench.analysis.speedup import Speedup, by_repeat
from raybench.analysis.step_sections import step_sections
from raybench.identity import trial_id
from raybench.trial import events
from raybench.trial.memory import in_words

ACCURACY = "val/accuracy"

ENOUGH = 40
"""Cells beside two that are compared: how well it is known what repeats do to them is up to the number of repeats."""


@dataclass(frozen=True)
class PlannedCell:
    """A cell that was asked for.

    Attributes:
        axes: where it lies in the grid: each axis and its value.
        repeats: how many runs of it are wanted; 0 for one that a factored study predicts.
        skip: why it cannot run here; None where it can.
        price_per_hour: what its device costs, in any one currency for the whole grid.
        again: the cell which this is once more under another name, for an A/A check; None for any other.
        content: what its identity is made of; empty where only its runs know.
    """

    cell_id: str
    axes: Mapping[str, Any]
    repeats: int
    skip: str | None = None
    price_per_hour: float | None = None
    again: str | None = None
    content: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Spread:
    """One number a run, over the repeats of a cell: the middle one (see `Row`), the least, the most, and how many."""

    value: float
    low: float
    high: float
    runs: int


@dataclass(frozen=True)
class Bound:
    """What held the completed runs of a cell up (`raybench.analysis.roofline`), most often first, and how far they got.

    Attributes:
        by: such as "compute", or "compute, memory" where repeats differ.
        share: the median over repeats of what a device's probes reached or, for "input", of the time.
    """

    by: str
    share: float


@dataclass(frozen=True)
class Row:
    """One cell's results. Times, metrics and prices are those of completed runs; every run is in the status.

    Attributes:
        status: such as "3/3 completed", "predicted", "2/3 completed, 1 oom in train", "skipped: no TPU on any node".
        steady: steady seconds an epoch, with the geometric mean over repeats: a speed-up is the ratio of two of these.
        from_warmup: a run had no epoch after its warm-up, so that `steady` holds a warm-up epoch.
        metric: the metric of the last epoch, with the mean over repeats.
        is_baseline: whether others are compared with this one.
        is_again: whether it is another one once more, and is compared with that: an A/A check.
        speedup: over the cell that differs in the baseline's fields alone; None for the baseline, and where that cell
            is not in the grid or has no completed run.
        bound: what held its runs up; None where nothing was found out of the device or the model.
        findings: what to doubt of its completed runs, or to note, by the trial; runs without findings are not in it.
        sections: milliseconds of a step in each of its sections; empty where the cell does not time them.
        epoch_price, total_price: of a steady epoch, and of a whole run; None without a price.
        runs: how many of them completed.
    """

    cell_id: str
    axes: Mapping[str, Any]
    status: str
    steady: Spread | None = None
    from_warmup: bool = False
    metric: Spread | None = None
    is_baseline: bool = False
    is_again: bool = False
    speedup: Speedup | None = None
    bound: Bound | None = None
    findings: Mapping[str, Sequence[Finding]] = field(default_factory=dict)
    sections: Mapping[str, float] = field(default_factory=dict)
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
        latest: the latest attempt of each trial (`raybench.analysis.results.latest`); others are left aside.
        baseline: axes and the value that the baseline has there; without it nothing is compared.
        metric: the metric that is shown.
        findings: of attempts (`raybench.analysis.findings.survey`).
    """
    findings = findings or {}
    runs = [runs_of(cell, latest) for cell in cells]
    times = [times_of(mine) for mine in runs]
    others = Beside(runs, times)
    rows = []
    for number, (cell, mine, origin) in enumerate(zip(cells, runs, origins(cells, baseline), strict=True)):
        steady = _spread(list(times[number].values()), _geometric_mean)
        compared = origin is not None and origin != number
        whole = [run for run in _completed(mine) if not run.only_timed]
        totals = [seconds for run in whole if (seconds := rules.total(run)) is not None]
        rows.append(
            Row(
                cell_id=cell.cell_id,
                axes=cell.axes,
                status=_status(cell, mine),
                runs=len(_completed(mine)),
                steady=steady,
                from_warmup=any(map(rules.steady_from_warmup, _completed(mine))),
                metric=_spread([value for run in _completed(mine) if (value := run.metric(metric)) is not None], fmean),
                is_baseline=origin == number,
                is_again=cell.again is not None,
                speedup=by_repeat(times[origin], times[number], others.of(origin, number))
                if compared and origin is not None
                else None,
                bound=bound(mine),
                findings={run.trial: told for run in _completed(mine) if (told := findings.get(run.key))},
                sections=step_sections(_completed(mine)),
                epoch_price=_price(cell, steady.value if steady else None),
                total_price=_price(cell, median(totals) if totals else None),
            )
        )
    return rows


def origins(cells: Sequence[PlannedCell], baseline: Mapping[str, Any] | None) -> list[int | None]:
    """The place of the cell that each is compared with: its own for a baseline, None where there is none.

    Args:
        cells: the cells of the grid.
        baseline: axes and the value that the baseline has there; without it only A/A checks have one.
    """
    places = {_frozen(cell.axes): number for number, cell in enumerate(cells) if not cell.again}
    named = {cell.cell_id: number for number, cell in enumerate(cells)}
    return [
        named.get(cell.again) if cell.again else places.get(_frozen({**cell.axes, **baseline})) if baseline else None
        for cell in cells
    ]


def lacking(axis: str, cells: Sequence[PlannedCell]) -> bool:
    """Whether some cell is not on an axis, as where one that is included has a setting of its own.

    One of which nothing is known but that it was skipped is on none.
    """
    return any(cell.axes and axis not in cell.axes for cell in cells)


def runs_of(cell: PlannedCell, latest: Mapping[str, Attempt]) -> list[Attempt]:
    """The runs of a cell that there are, by repeat; latest attempts alone."""
    names = [trial_id(cell.cell_id, repeat) for repeat in range(cell.repeats)]
    return [latest[name] for name in names if name in latest]


def times_of(runs: Sequence[Attempt]) -> dict[int, float]:
    """Repeat and steady seconds an epoch of the completed ones; an epoch that took none, as damage may say, is none."""
    return {run.repeat: seconds for run in _completed(runs) if (seconds := rules.steady(run))}


class Beside:
    """The cells of a grid by the one machine on which each ran.

    Those that are not compared tell whether what happens to the machine moves the repeats
    (`raybench.analysis.speedup.by_repeat`). Of very many, some that lie all over the grid tell as well.

    Args:
        runs: of each cell.
        times: of the same (`times_of`).
    """

    def __init__(self, runs: Sequence[Sequence[Attempt]], times: Sequence[dict[int, float]]) -> None:
        self._hosts = [{run.host.get("name") for run in _completed(some)} for some in runs]
        every: dict[Any, list[tuple[int, dict[int, float]]]] = {}
        for place, (hosts, mine) in enumerate(zip(self._hosts, times, strict=True)):
            if len(hosts) == 1:
                every.setdefault(next(iter(hosts)), []).append((place, mine))
        self._cells = {host: cells[:: -(-len(cells) // ENOUGH)] for host, cells in every.items()}

    def of(self, origin: int, number: int) -> list[dict[int, float]]:
        """Times of the other cells on the machine on which these two ran; none if they ran on several."""
        here = self._hosts[origin] | self._hosts[number]
        others = self._cells.get(next(iter(here)), []) if len(here) == 1 else []
        return [times for place, times in others if place not in (origin, number)]


def bound(runs: Sequence[Attempt]) -> Bound | None:
    """What held the completed ones of some runs up; None where nothing was found out of the device or the model."""
    found = [line for run in _completed(runs) if (line := roofline(run)) is not None]
    ordered = [name for name, _ in Counter(line.bound_by for line in found).most_common()]
    return Bound(", ".join(ordered), median(line.share for line in found)) if found else None


def _completed(runs: Sequence[Attempt]) -> list[Attempt]:
    return [run for run in runs if run.status == events.COMPLETED]


def _spread(values: Sequence[float], middle: Any) -> Spread | None:
    return Spread(middle(values), min(values), max(values), len(values)) if values else None


def _geometric_mean(values: Sequence[float]) -> float:
    """Without the noise of binary floats, as every result."""
    return round(geometric_mean(values), 9)


def _price(cell: PlannedCell, seconds: float | None) -> float | None:
    return None if cell.price_per_hour is None or seconds is None else cell.price_per_hour * seconds / 3600


def _status(cell: PlannedCell, runs: Sequence[Attempt]) -> str:
    if not cell.repeats:
        return "predicted"
    counts = Counter(map(_end, runs))
    reasons = [str(run.error["message"]) for run in runs if run.status == events.SKIPPED and run.error]
    if cell.skip or (reasons and counts[events.SKIPPED] == len(runs)):
        # What ran while it could stays shown.
        del counts[events.SKIPPED]
        if not counts:
            return f"skipped: {cell.skip or reasons[0]}"
    elif len(runs) < cell.repeats:
        counts["not run"] = cell.repeats - len(runs)
    done = counts.pop(events.COMPLETED, 0)
    others = [f"{count} {status}" for status, count in sorted(counts.items())]
    timed = ["only timed"] if any(run.only_timed for run in runs) else []
    apart = ["by sections"] if any(run.by_sections for run in runs) else []
    return ", ".join([f"{done}/{cell.repeats} completed", *others, *timed, *apart])


def _end(run: Attempt) -> str:
    """How a run ended; of memory that ran out, where and what was asked for: `oom in evaluate, asked 2.0 GiB`."""
    if run.status == events.OOM and run.error:
        known = {name: run.error.get(name) for name in ("phase", "asked_bytes")}
        return " ".join(filter(None, [run.status, in_words(known)]))
    return run.status or "unfinished"


def _frozen(value: Any) -> Hashable:
    """A value that can be a key and is equal where JSON's is: lists and maps compare by what they hold."""
    if isinstance(value, Mapping):
        return frozenset((name, _frozen(item)) for name, item in value.items())
    if isinstance(value, (list, tuple)):
        return tuple(map(_frozen, value))
    hashable: Hashable = value
    return hashable
