"""Tables of evidence for a verdict, as data with columns and captions."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from statistics import fmean
from typing import Any

from raybench.analysis.comparison import PlannedCell, baseline_indices
from raybench.analysis.grid_results import PLACE, GridResults
from raybench.analysis.pairs import Comparison
from raybench.analysis.statistics import break_even, time_to_target
from raybench.analysis.statistics.break_even import RunCost, speedup_at
from raybench.analysis.statistics.speedup import Speedup
from raybench.analysis.target import mean_accuracy
from raybench.analysis.verdict import Outcome
from raybench.reporting.sentences import digits, end, render_phrase, times

Record = Mapping[str, Any]

NOTHING = "–"

EPOCHS = 100
"""Job length in epochs for the comparison of devices."""


@dataclass(frozen=True)
class Column:
    """A column: key of its value, head with unit, number format, alignment; an extra one is left out first."""

    key: str
    head: str
    show: Callable[[Any], str] = str
    right: bool = True
    extra: bool = False


@dataclass(frozen=True)
class ReportTable:
    """A table of the report.

    Attributes:
        name: its name in the data; the macro `…_table` of this name has its title and caption.
        columns: those without any value are left out.
        records: one per row, with plain values by the columns' keys, and further data.
        arguments: arguments of the macro.
    """

    name: str
    columns: Sequence[Column]
    records: Sequence[Record]
    arguments: Sequence[Any] = ()

    @property
    def title(self) -> str:
        """The heading."""
        return self._lines[0]

    @property
    def says(self) -> str:
        """The caption: how to read the table."""
        return " ".join(self._lines[1:])

    @property
    def _lines(self) -> list[str]:
        lines = render_phrase(f"{self.name}_table", *self.arguments, of="tables.html.j2").strip().split("\n")
        return [line.strip() for line in lines if line.strip()]

    @cached_property
    def shown(self) -> list[Column]:
        """The columns with at least one value."""
        return [column for column in self.columns if any(record.get(column.key) is not None for record in self.records)]

    def cells(self, record: Record) -> list[tuple[Column, str]]:
        """Format a row for display."""
        values = ((column, record.get(column.key)) for column in self.shown)
        return [(column, NOTHING if value is None else column.show(value)) for column, value in values]


def sections(results: GridResults, pairs: Sequence[Comparison]) -> list[ReportTable]:
    """Return every table that the grid has data for, in report order."""
    all_sections = (
        to_target(results, pairs),
        job_lengths(results, pairs),
        jobs(results, pairs),
        best(results),
    )
    return [section for section in all_sections if section and section.records]


def between(ends: tuple[float | None, float | None] | None) -> str:
    """Format the ends of an interval for a column of their own."""
    low, high = ends or (None, None)
    return NOTHING if low is None or high is None else f"{end(low)}–{end(high)}"


def _share(value: float) -> str:
    return f"{100 * value:.0f}%"


def to_target(results: GridResults, pairs: Sequence[Comparison]) -> ReportTable | None:
    """Return success rates and times to target of settings by device.

    None without a target.
    """
    target = results.target
    if target is None:
        return None
    records: list[Record] = []
    for cell, pair in zip(results.cells, pairs, strict=True):
        estimate = pair.other.to_target
        if estimate and not cell.aa_of:
            epochs = [each.epochs for each in pair.other.target_attempts if each.reached and each.epochs]
            records.append(
                {
                    "cell": results.label(cell),
                    "reached": estimate.successes,
                    "runs": estimate.tries,
                    "of": f"{estimate.successes} of {estimate.tries}",
                    "censored": estimate.censored,
                    "share_95": (estimate.share_low, estimate.share_high),
                    "epochs": fmean(epochs) if epochs else None,
                    "half": time_to_target.median_time_to_target(pair.other.target_attempts),
                    "seconds": estimate.seconds,
                    "seconds_95": (estimate.low, estimate.high) if estimate.high is not None else None,
                    "price": _price(cell, estimate.seconds),
                    **_on_average(pair),
                }
            )
    records.sort(key=lambda record: (record["seconds"] is None, record["seconds"] or 0.0))
    return ReportTable(
        "target",
        (
            Column("cell", "setting", right=False),
            Column("of", "reached"),
            Column("share_95", "share (95% CI)", lambda ends: f"{100 * ends[0]:.0f}–{_share(ends[1])}"),
            Column("epochs", "epochs", digits),
            Column("half", "median, s", digits, extra=True),
            Column("seconds", "expected, s", digits),
            Column("seconds_95", "95% CI", between),
            Column("price", "price", digits),
            Column("mean", "mean accuracy", "{:.4f}".format),
            Column("proof", "mean vs. target", right=False),
        ),
        records,
        (target, any("mean" in record for record in records)),
    )


def _on_average(pair: Comparison) -> Record:
    """Return the check of a cell's mean accuracy against the target."""
    accuracy = mean_accuracy(pair)
    if accuracy is None:
        return {}
    shown = accuracy.outcome == Outcome.HIGHER
    return {
        "mean": accuracy.mean,
        "mean_95": (accuracy.low, accuracy.high),
        "shown": shown,
        "proof": render_phrase("proof", accuracy),
    }


def jobs(results: GridResults, pairs: Sequence[Comparison]) -> ReportTable:
    """Return time and cost of a long job.

    There is one row per device, framework and precision. Each is at its fastest setting.
    """
    fastest: dict[str, tuple[float, Record]] = {}
    for cell, pair in zip(results.cells, pairs, strict=True):
        steps = results.steps(cell)
        estimate = break_even.job(pair.other.processes, EPOCHS * steps) if steps else None
        if estimate is None or cell.aa_of:
            continue
        device = results.places[cell.cell_id] or NOTHING
        if device in fastest and estimate.value >= fastest[device][0]:
            continue
        record = {
            "device": device,
            "cell": results.label(cell, PLACE) or None,
            "seconds": estimate.value,
            "seconds_95": (estimate.low, estimate.high),
            "once": fmean(process.once for process in pair.other.processes),
            "price": _price(cell, estimate.value),
        }
        fastest[device] = (estimate.value, record)
    return ReportTable(
        "jobs",
        (
            Column("device", "device", right=False),
            Column("cell", "setting", right=False),
            Column("once", "start-up, s", digits),
            Column("seconds", f"{EPOCHS} epochs, s", digits),
            Column("seconds_95", "95% CI", between),
            Column("price", "price", digits),
        ),
        [record for _, record in sorted(fastest.values(), key=lambda pair: pair[0])],
        (EPOCHS,),
    )


def best(results: GridResults) -> ReportTable:
    """Return the most accurate and the fastest setting of each device.

    Frameworks and precisions of a device have rows of their own.
    """
    devices: dict[str, list[PlannedCell]] = {}
    for cell in results.cells:
        if not cell.aa_of:
            devices.setdefault(results.places[cell.cell_id] or NOTHING, []).append(cell)
    rows = {row.cell_id: row for row in results.rows}
    records: list[Record] = []
    sign = -1 if results.less_is_better else 1
    for device, cells in devices.items():
        # Runs that stop at their target do not show the accuracy that they could reach.
        full_cells = [cell for cell in cells if not any(run.stops for run in results.completed(cell))]
        cell_means = [(fmean(values), cell) for cell in full_cells if (values := results.values(cell))]
        cell_times = [(row.steady.value, cell) for cell in cells if (row := rows[cell.cell_id]).steady]
        if cell_means and cell_times and len(cells) > 1:
            value, best_cell = max(cell_means, key=lambda pair: sign * pair[0])
            seconds, fastest_cell = min(cell_times, key=lambda pair: pair[0])
            records.append(
                {
                    "device": device,
                    "best": results.label(best_cell, PLACE) or NOTHING,
                    "value": value,
                    "fastest": results.label(fastest_cell, PLACE) or NOTHING,
                    "seconds": seconds,
                }
            )
    return ReportTable(
        "best",
        (
            Column("device", "device", right=False),
            Column("best", "most accurate", right=False),
            Column("value", results.metric, lambda value: f"{value:.3f}"),
            Column("fastest", "fastest", right=False),
            Column("seconds", "s/epoch", digits),
        ),
        records,
    )


def _price(cell: PlannedCell, seconds: float | None) -> float | None:
    return None if cell.price_per_hour is None or seconds is None else cell.price_per_hour * seconds / 3600


JOB_LENGTHS = (1, 10, 100)
"""Job lengths of the table of job lengths, in epochs.

The table also has a single step and the long run.
"""


def job_lengths(results: GridResults, pairs: Sequence[Comparison]) -> ReportTable:
    """Return speed-ups for jobs of several lengths, with one-time costs.

    An epoch has on each side as many steps as its batch size requires, and is compared if both have equally many
    examples. A single step, and the break-even number of steps, are given if a step is the same work on both sides.
    """
    records: list[Record] = []
    for cell, pair, origin in zip(
        results.cells, pairs, baseline_indices(results.cells, results.compared_with), strict=True
    ):
        if pair.baseline is None or origin is None or cell.aa_of or pair.baseline.from_warmup or pair.other.from_warmup:
            continue
        sides = [
            (pair.baseline.processes, results.steps(results.cells[origin])),
            (pair.other.processes, results.steps(cell)),
        ]
        baseline, other = (_in_epochs(processes, steps) for processes, steps in sides)
        if not baseline or not other:
            continue
        record: dict[str, Any] = {"cell": results.label(cell)}
        if pair.even:
            record["long_run"] = _ratio(pair.speedup)
            record |= {f"epochs_{number}": _ratio(speedup_at(baseline, other, number)) for number in JOB_LENGTHS}
        if pair.same_steps:
            record["step"] = _ratio(speedup_at(pair.baseline.processes, pair.other.processes, 1))
            crossing = pair.break_even
            if crossing and crossing.long_run.differs:
                record |= {"turns_at": crossing.turns_at, "sure_from": crossing.sure_from}
        if len(record) > 1:
            records.append(record)
    return ReportTable(
        "lengths",
        (
            Column("cell", "setting", right=False),
            Column("step", "one step", _shown),
            *(Column(f"epochs_{n}", "1 epoch" if n == 1 else f"{n} epochs", _shown) for n in JOB_LENGTHS),
            Column("long_run", "long run", _shown),
            Column("turns_at", "ahead from step", "{:,}".format),
            Column("sure_from", "significantly from step", "{:,}".format),
        ),
        records,
        (any("turns_at" in record for record in records),),
    )


def _in_epochs(processes: Sequence[RunCost], steps: int | None) -> list[RunCost]:
    """Convert processes from steps to epochs.

    Empty if the number of steps per epoch is not recorded.
    """
    return [replace(each, steady=each.steady * steps) for each in processes] if steps else []


def _ratio(speedup: Speedup | None) -> Record | None:
    return None if speedup is None else {"ratio": speedup.ratio, "low": speedup.low, "high": speedup.high}


def _shown(record: Record) -> str:
    return times(record["ratio"], record["low"], record["high"])
