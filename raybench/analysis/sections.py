"""The evidence behind a verdict, as tables of data: each knows its columns, how to write them and how to read it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any

from raybench.analysis import crossover, target
from raybench.analysis.accuracy import prove
from raybench.analysis.comparison import ACCURACY, PlannedCell
from raybench.analysis.reaching import goal
from raybench.analysis.sentences import digits, end
from raybench.analysis.sides import Pair
from raybench.analysis.standing import PLACE, Standing
from raybench.analysis.step_sections import NOTE, step_sections
from raybench.plan import short
from raybench.trial.job import Target
from raybench.trial.ledger import STEP_SECTIONS

Record = Mapping[str, Any]

NOTHING = "–"

EPOCHS = 100
"""The length of the job that every device is asked about."""


EXACT = 10_000
"""From here on a published number is written without digits after the point."""


@dataclass(frozen=True)
class Column:
    """A column: the name of its value in a record, its head with its unit, and how a value is written."""

    key: str
    head: str
    show: Callable[[Any], str] = str
    right: bool = True


@dataclass(frozen=True)
class Section:
    """A table of the report.

    Attributes:
        name: what data calls it.
        title, says: what it shows, and how to read it.
        columns: of which those without any value are left out.
        records: a row each, plain values by the columns' keys and what else belongs to it.
    """

    name: str
    title: str
    says: str
    columns: Sequence[Column]
    records: Sequence[Record]

    @property
    def shown(self) -> list[Column]:
        """The columns in which something stands."""
        return [column for column in self.columns if any(record.get(column.key) is not None for record in self.records)]

    def cells(self, record: Record) -> list[tuple[Column, str]]:
        """A row as people read it."""
        values = ((column, record.get(column.key)) for column in self.shown)
        return [(column, NOTHING if value is None else column.show(value)) for column, value in values]


def sections(standing: Standing, pairs: Sequence[Pair]) -> list[Section]:
    """Every table that the grid has something for, in the order of a report."""
    from raybench.analysis.job_lengths import job_lengths
    from raybench.analysis.predictions import predictions
    from raybench.analysis.variation import variation

    made = (
        predictions(standing),
        to_target(standing, pairs),
        job_lengths(standing, pairs),
        jobs(standing, pairs),
        best(standing),
        steps(standing),
        variation(standing, pairs),
    )
    return [section for section in made if section and section.records]


def between(ends: tuple[float | None, float | None] | None) -> str:
    """The ends of an interval as they stand in a column of their own."""
    low, high = ends or (None, None)
    return NOTHING if low is None or high is None else f"{end(low)}–{end(high)}"


def _share(value: float) -> str:
    return f"{100 * value:.0f} %"


def _as_told(value: float) -> str:
    """A number with no more digits than publications have: 74, 0.9942, 39868."""
    return f"{value:.4g}" if abs(value) < EXACT else f"{value:.0f}"


def to_target(standing: Standing, pairs: Sequence[Pair]) -> Section | None:
    """Which settings reach the target on which device, and what that takes; None without a target."""
    wanted = standing.target
    if wanted is None:
        return None
    records: list[Record] = []
    for cell, pair in zip(standing.cells, pairs, strict=True):
        found = target.expected(pair.other.tries)
        if found and not cell.again:
            epochs = [each.epochs for each in pair.other.tries if each.reached and each.epochs]
            records.append(
                {
                    "cell": standing.label(cell),
                    "reached": found.successes,
                    "runs": found.tries,
                    "of": f"{found.successes} of {found.tries}",
                    "share_95": (found.share_low, found.share_high),
                    "epochs": fmean(epochs) if epochs else None,
                    "half": target.reached_by_half(pair.other.tries),
                    "seconds": found.seconds,
                    "seconds_95": (found.low, found.high) if found.high is not None else None,
                    "price": _price(cell, found.seconds),
                    **_on_average(pair, wanted),
                }
            )
    bound = f"at least {short(wanted.at_least)}" if wanted.at_least is not None else f"at most {short(wanted.at_most)}"
    mean = " The mean accuracy is that of the last epoch." if any("mean" in record for record in records) else ""
    records.sort(key=lambda record: (record["seconds"] is None, record["seconds"] or 0.0))
    return Section(
        "target",
        f"Time to the target: {wanted.metric} {bound}",
        "Training time (compilation, steps, waiting for input) until the end of the first epoch that reaches it, as "
        "expected when a run that misses it is followed by another; the fastest first. Runs that ended without it are "
        "misses. By when half of them have reached it is Kaplan and Meier's estimate, for which a run that stopped "
        "early counts as long as it ran. The price is of that time alone, without loading and evaluation." + mean,
        (
            Column("cell", "setting", right=False),
            Column("of", "runs that reached it"),
            Column("share_95", "share, 95 %", lambda ends: f"{_share(ends[0])}–{_share(ends[1])}"),
            Column("epochs", "epochs", digits),
            Column("half", "half by, s", digits),
            Column("seconds", "expected, s", digits),
            Column("seconds_95", "95 %", between),
            Column("price", "price", digits),
            Column("mean", "mean accuracy", "{:.4f}".format),
            Column("proof", f"{goal(wanted)} on average", right=False),
        ),
        records,
    )


def _on_average(pair: Pair, wanted: Target) -> Record:
    """Whether the mean accuracy over runs is shown to reach the target, and how many runs would show it."""
    if wanted.metric != ACCURACY or wanted.at_least is None or pair.other.stops:
        return {}
    found = prove(pair.other.accuracies, wanted.at_least, pair.examples)
    if found is None:
        return {}
    told = {"mean": found.mean, "mean_95": (found.low, found.high), "shown": found.shown, "runs_to_show": found.runs}
    if found.shown:
        return {**told, "proof": "shown"}
    if found.low is None:
        return {**told, "proof": "one run shows no mean"}
    if found.high is not None and found.high < wanted.at_least:
        return {**told, "proof": "shown to be below"}
    if found.mean <= wanted.at_least:
        return {**told, "proof": "the mean is not above it"}
    return {**told, "proof": f"not shown; about {found.runs} runs would" if found.runs else "not shown"}


def jobs(standing: Standing, pairs: Sequence[Pair]) -> Section:
    """What a job of many epochs would take and cost on each device, framework and precision, at its fastest setting."""
    fastest: dict[str, tuple[float, Record]] = {}
    for cell, pair in zip(standing.cells, pairs, strict=True):
        steps = standing.steps(cell)
        found = crossover.job(pair.other.processes, EPOCHS * steps) if steps else None
        if found is None or cell.again:
            continue
        device = standing.places[cell.cell_id] or NOTHING
        record = {
            "device": device,
            "cell": standing.label(cell, PLACE) or None,
            "seconds": found.value,
            "seconds_95": (found.low, found.high),
            "once": fmean(process.once for process in pair.other.processes),
            "price": _price(cell, found.value),
        }
        if device not in fastest or found.value < fastest[device][0]:
            fastest[device] = (found.value, record)
    return Section(
        "jobs",
        f"What {EPOCHS} epochs would take",
        "At the fastest setting of each device: loading the framework, data, compilation, steps; without evaluation.",
        (
            Column("device", "device", right=False),
            Column("cell", "setting", right=False),
            Column("once", "paid once, s", digits),
            Column("seconds", f"{EPOCHS} epochs, s", digits),
            Column("seconds_95", "95 %", between),
            Column("price", "price", digits),
        ),
        [record for _, record in sorted(fastest.values(), key=lambda pair: pair[0])],
    )


def best(standing: Standing) -> Section:
    """For each device, framework and precision the setting that learned best, and the one that was fastest."""
    devices: dict[str, list[PlannedCell]] = {}
    for cell in standing.cells:
        if not cell.again:
            devices.setdefault(standing.places[cell.cell_id] or NOTHING, []).append(cell)
    rows = {row.cell_id: row for row in standing.rows}
    records: list[Record] = []
    sign = -1 if standing.less_is_better else 1
    for device, cells in devices.items():
        # Runs that stop at their target have learned enough, and not what they could.
        whole = [cell for cell in cells if not any(run.stops for run in standing.completed(cell))]
        learned = [(fmean(values), cell) for cell in whole if (values := standing.values(cell))]
        timed = [(row.steady.value, cell) for cell in cells if (row := rows[cell.cell_id]).steady]
        if learned and timed and len(cells) > 1:
            value, top = max(learned, key=lambda pair: sign * pair[0])
            seconds, quick = min(timed, key=lambda pair: pair[0])
            records.append(
                {
                    "device": device,
                    "best": standing.label(top, PLACE) or NOTHING,
                    "value": value,
                    "fastest": standing.label(quick, PLACE) or NOTHING,
                    "seconds": seconds,
                }
            )
    return Section(
        "best",
        "The best settings of each device",
        "By the mean of the last epoch over runs, and by the steady epoch. The best of many had some luck.",
        (
            Column("device", "device", right=False),
            Column("best", "learned best", right=False),
            Column("value", standing.metric, lambda value: f"{value:.3f}"),
            Column("fastest", "fastest", right=False),
            Column("seconds", "s/epoch", digits),
        ),
        records,
    )


def steps(standing: Standing) -> Section:
    """Where a step of training goes, of the cells that timed its sections."""
    found = [(cell, runs, step_sections(runs)) for cell in standing.cells if (runs := standing.completed(cell))]
    records = [
        {"cell": standing.label(cell), "runs": len(runs), **took, "whole": sum(took.values())}
        for cell, runs, took in found
        if took
    ]
    return Section(
        "steps",
        "Where a step goes",
        f"Milliseconds of a step: the median over steady epochs, and over runs. {NOTE[:1].upper()}{NOTE[1:]}",
        (
            Column("cell", "setting", right=False),
            *(Column(name, f"{name}, ms", digits) for name in STEP_SECTIONS),
            Column("whole", "together, ms", digits),
            Column("runs", "runs"),
        ),
        records,
    )


def published(standing: Standing, reports: Iterable[Record]) -> Section | None:
    """What others have reported of the same workload; None where nobody has.

    Args:
        standing: the grid.
        reports: source, machine, the number, its unit and rule, and what is said of them (`raybench.sources`).
    """
    records = list(reports)
    if not records:
        return None
    sources = list(dict.fromkeys(str(record["source"]) for record in records))
    return Section(
        "published",
        "What others reported",
        f"Published results of {standing.workload}, as their sources count them, beside this grid's best by the same "
        "rule and protocol, where raybench has it. Another machine: no ratio between the two is a verdict. "
        + " ".join(dict.fromkeys(caveat for record in records for caveat in record["caveats"]))
        + (f" Source: {sources[0]}" if len(sources) == 1 else ""),
        (
            *([Column("source", "source", right=False)] if len(sources) > 1 else []),
            Column("machine", "on", right=False),
            Column("reported", "reported", _as_told),
            Column("unit", "in", right=False),
            Column("counts", "counting", right=False),
            Column("mine", "here", _as_told),
            Column("cell", "on", right=False),
        ),
        records,
    )


def _price(cell: PlannedCell, seconds: float | None) -> float | None:
    return None if cell.price_per_hour is None or seconds is None else cell.price_per_hour * seconds / 3600
