"""What a published result lets one compare: its machines, each with its fastest cell, by its own rule and by others."""

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
"""What sources compare machines by: seconds by their own rule, or examples a second."""

OTHER_RULES = ("epochs", "first")
"""Rules by which calls are counted too; the source's own may have one for processor time."""

ACCURACIES = ("last_val_accuracy", "best_val_accuracy")

CPU = "_cpu"
"""The end of the name of a rule that counts the same by processor time."""


@dataclass(frozen=True)
class SourceCell:
    """What a source tells of one cell on one machine: a number for each run, or one for several.

    Attributes:
        machine: its short name in the source's file.
        model: what it is.
        label: what the source calls the run; empty where it has no name.
        attempts: its runs.
        rows: what the source says of each, by the names of columns.
        origins: of each, whether these are the source's own numbers, or how they were computed from its data.
    """

    machine: str
    model: str
    label: str
    attempts: list[Attempt] = field(default_factory=list)
    rows: list[Mapping[str, Any]] = field(default_factory=list)
    origins: list[str] = field(default_factory=list)

    @property
    def cell(self) -> Cell:
        """What was run."""
        return self.attempts[0].cell

    @property
    def workload(self) -> str:
        """What was trained; empty where the source does not name it."""
        return str(self.cell.workload.name or "")

    @property
    def form(self) -> str:
        """Which form of the workload, where it is another than raybench's."""
        return str(self.cell.workload.version or "")

    @property
    def work(self) -> tuple[Any, ...]:
        """How much was done: examples, epochs and steps, as far as the source tells."""
        settings = self.cell.settings
        return self.cell.data.examples.train, settings.epochs, settings.steps_per_epoch

    def seconds(self, measure: str, rule: str | None) -> list[float]:
        """By a measure: seconds a run, or seconds an example; none where the source does not have it by this rule."""
        if measure == SECONDS:
            return [each[SECONDS] for each in self.rows if SECONDS in each and each["reported_rule"] == rule]
        return [1 / each[RATE] for each in self.rows if each.get(RATE)]

    @property
    def accuracy(self) -> float | None:
        """The accuracy that the source reports, a share."""
        return next(filter(None, map(self.first, ACCURACIES)), None)

    def first(self, column: str) -> Any:
        """What the source says of the first run that it says it of; None where of none."""
        return next((each[column] for each in self.rows if each.get(column) is not None), None)


@dataclass(frozen=True)
class SourceComparison:
    """Two machines by one measure.

    Attributes:
        claims: what the source states of them, or its data say.
    """

    other: SourceCell
    baseline: SourceCell
    measure: str
    speedup: Speedup
    claims: tuple[Claim, ...] = ()


def source_cells(name: str, publication: Publication) -> list[SourceCell]:
    """A record for each cell of each machine, repeats together, in the order of the file."""
    measurements: dict[str, SourceCell] = {}
    for run, record in zip(publication.runs, publication.records(name), strict=True):
        model = str(record.attempt.cell.device.model or run.machine)
        measurement = measurements.setdefault(record.attempt.cell_id, SourceCell(run.machine, model, run.label or ""))
        measurement.attempts.append(record.attempt)
        measurement.rows.append(record.columns)
        measurement.origins.append(publication.origin(run))
    return list(measurements.values())


def pairs_of(measurements: Sequence[SourceCell], publication: Publication) -> Iterator[SourceComparison]:
    """What is compared: what the source itself compares or, where it does not, each machine with the slowest.

    Seconds are compared of the same work, and rates where there are no seconds, or where the source compares them.
    """
    timed = [each for each in measurements if each.seconds(SECONDS, publication.rule)]
    for work in dict.fromkeys(each.work for each in timed):
        yield from _among([each for each in timed if each.work == work], SECONDS, publication)
    if not timed or any(claim.measure == RATE for claim in publication.claims):
        yield from _among([each for each in measurements if each.seconds(RATE, publication.rule)], RATE, publication)


def _among(measurements: Sequence[SourceCell], measure: str, publication: Publication) -> Iterator[SourceComparison]:
    # A machine stands with its fastest cell; another form of a network is another workload.
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
    """By rule, the ratio of the same runs, where the source tells of each call."""
    ratios = {}
    for rule in (*OTHER_RULES, f"{own_rule}{CPU}"):
        if rule in RULES and any(attempt.epochs for attempt in pair.other.attempts):
            sides = [[RULES[rule](attempt) for attempt in side.attempts] for side in (pair.baseline, pair.other)]
            times = [[seconds for seconds in side if seconds] for side in sides]
            ratio = speedup(times[0], times[1])
            if ratio:
                ratios[rule] = ratio.ratio
    return ratios
