"""Comparisons of the machines of a published result.

Each machine is represented by its fastest cell; comparisons use the source's own timing rule and others.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import fmean
from typing import Any

from raybench.analysis.statistics.speedup import Speedup, speedup
from raybench.core.cell import Cell
from raybench.results.attempt import Attempt
from raybench.sources.published_results import RULES, Claim, Publication

SECONDS, RATE = "reported_s", "examples_per_s"
"""Measures for comparing machines.

These are seconds by the source's own rule, and examples per second.
"""

OTHER_RULES = ("epochs", "first")
"""Rules that also count individual calls.

The source's own rule may have a variant for processor time.
"""

ACCURACIES = ("last_val_accuracy", "best_val_accuracy")

CPU = "_cpu"
"""Suffix of the names of rules that measure processor time."""


@dataclass(frozen=True)
class SourceCell:
    """The results of one cell on one machine, from a source.

    There is one number per run, or one for several runs.

    Attributes:
        machine: its short name in the source's file.
        model: its model.
        label: the source's name of the run; empty if it has none.
        attempts: its runs.
        rows: reported values of each run, by column name.
        origins: for each run, whether these are the source's own numbers, or how they were computed from its data.
    """

    machine: str
    model: str
    label: str
    attempts: list[Attempt] = field(default_factory=list)
    rows: list[Mapping[str, Any]] = field(default_factory=list)
    origins: list[str] = field(default_factory=list)

    @property
    def cell(self) -> Cell:
        """The cell of the runs."""
        return self.attempts[0].cell

    @property
    def workload(self) -> str:
        """The workload; empty if the source does not name it."""
        return str(self.cell.workload.name or "")

    @property
    def form(self) -> str:
        """The variant of the workload, if it differs from raybench's."""
        return str(self.cell.workload.version or "")

    @property
    def work(self) -> tuple[Any, ...]:
        """The amount of work as far as reported: examples, epochs and steps."""
        settings = self.cell.settings
        return self.cell.data.examples.train, settings.epochs, settings.steps_per_epoch

    def seconds(self, measure: str, rule: str | None) -> list[float]:
        """Return seconds per run, or seconds per example, by measure.

        Empty if the source does not report them by this rule.
        """
        if measure == SECONDS:
            return [each[SECONDS] for each in self.rows if SECONDS in each and each["reported_rule"] == rule]
        return [1 / each[RATE] for each in self.rows if each.get(RATE)]

    @property
    def accuracy(self) -> float | None:
        """The accuracy that the source reports, as a fraction."""
        return next(filter(None, map(self.first, ACCURACIES)), None)

    def first(self, column: str) -> Any:
        """Return the first reported value of a column.

        None if there is none.
        """
        return next((each[column] for each in self.rows if each.get(column) is not None), None)


@dataclass(frozen=True)
class SourceComparison:
    """A comparison of two machines by one measure.

    Attributes:
        claims: statements of the source about them, or of its data.
    """

    other: SourceCell
    baseline: SourceCell
    measure: str
    speedup: Speedup
    claims: tuple[Claim, ...] = ()


def source_cells(name: str, publication: Publication) -> list[SourceCell]:
    """Return one record per cell and machine, in file order.

    Repeats are combined.
    """
    measurements: dict[str, SourceCell] = {}
    for run, record in zip(publication.runs, publication.records(name), strict=True):
        model = str(record.attempt.cell.device.model or run.machine)
        measurement = measurements.setdefault(record.attempt.cell_id, SourceCell(run.machine, model, run.label or ""))
        measurement.attempts.append(record.attempt)
        measurement.rows.append(record.columns)
        measurement.origins.append(publication.origin(run))
    return list(measurements.values())


def pairs_of(measurements: Sequence[SourceCell], publication: Publication) -> Iterator[SourceComparison]:
    """Yield the source's own comparisons, or each machine with the slowest.

    Seconds are compared if the work is the same; rates are compared if there are no seconds, or if the source compares
    rates.
    """
    timed = [each for each in measurements if each.seconds(SECONDS, publication.rule)]
    for work in dict.fromkeys(each.work for each in timed):
        yield from _among([each for each in timed if each.work == work], SECONDS, publication)
    if not timed or any(claim.measure == RATE for claim in publication.claims):
        yield from _among([each for each in measurements if each.seconds(RATE, publication.rule)], RATE, publication)


def _among(measurements: Sequence[SourceCell], measure: str, publication: Publication) -> Iterator[SourceComparison]:
    # A machine is represented by its fastest cell; a variant of a network is a different workload.
    best: dict[str, SourceCell] = {}
    means = {id(each): fmean(each.seconds(measure, publication.rule)) for each in measurements}
    for each in sorted((each for each in measurements if not each.form), key=lambda each: means[id(each)]):
        best.setdefault(each.machine, each)
    stated_claims: dict[tuple[str, str], list[Claim]] = {}
    for claim in publication.claims:
        if claim.measure == measure and {claim.machine, claim.over} <= set(best):
            stated_claims.setdefault((claim.machine, claim.over), []).append(claim)
    *machines, slowest = best or [""]
    for (machine, over), claims in (stated_claims or {(machine, slowest): [] for machine in machines}).items():
        other, baseline = best[machine], best[over]
        ratio = speedup(*(side.seconds(measure, publication.rule) for side in (baseline, other)))
        if ratio:
            yield SourceComparison(other, baseline, measure, ratio, tuple(claims))


def by_other_rules(pair: SourceComparison, own_rule: str | None) -> dict[str, float]:
    """Return the ratio of the same runs by each other rule.

    Empty if the source does not report individual calls.
    """
    ratios = {}
    for rule in (*OTHER_RULES, f"{own_rule}{CPU}"):
        if rule in RULES and any(attempt.epochs for attempt in pair.other.attempts):
            sides = [[RULES[rule](attempt) for attempt in side.attempts] for side in (pair.baseline, pair.other)]
            times = [[seconds for seconds in side if seconds] for side in sides]
            ratio = speedup(times[0], times[1])
            if ratio:
                ratios[rule] = ratio.ratio
    return ratios
