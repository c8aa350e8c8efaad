"""Remarks on a grid's results, as facts: cautions could change the answer, notes could not."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from string import ascii_lowercase
from typing import Any

from raybench.analysis.comparison import Row
from raybench.analysis.diagnostics.diagnose import by_code
from raybench.analysis.fact import Fact
from raybench.analysis.grid_results import GridResults
from raybench.analysis.pairs import Comparison, SettingDifference
from raybench.analysis.verdict import ConfounderFact, confounders, one_machine_each, unique
from raybench.core.status import TrialStatus
from raybench.devices import hosted
from raybench.results import energy


@dataclass(frozen=True)
class FindingFact(Fact):
    """A kind of finding, described by its worst occurrence among the runs.

    Attributes:
        mark: the letter that refers to it in the table; empty if it cannot change a verdict.
        message, remedy: those of the worst occurrence.
        varies: whether other runs have a different message.
        runs: number of runs that have the finding.
        too_long, too_short: the fraction by which the time of the worst run may be too long or too short; 0 if not
            known.
    """

    code: str
    mark: str
    message: str
    remedy: str
    varies: bool
    runs: int
    too_long: float
    too_short: float


@dataclass(frozen=True)
class SyntheticDataFact(Fact):
    """The cells are trained on generated data instead of real data."""

    name: str


@dataclass(frozen=True)
class IncompleteTrialsFact(Fact):
    """Some trials did not complete.

    Attributes:
        planned: number of trials, without those that were skipped.
        completed: number of them that completed.
        by_status: number of the others by status.
    """

    planned: int
    completed: int
    by_status: Mapping[str, int]


@dataclass(frozen=True)
class OtherDifferencesFact(Fact):
    """Two sides differ in settings that are not compared."""

    other: str
    baseline: str
    differences: tuple[SettingDifference, ...]


@dataclass(frozen=True)
class SingleRunCellsFact(Fact):
    """The number of cells with a single run, which gives no interval."""

    cells: int


@dataclass(frozen=True)
class BaselineStandInFact(Fact):
    """The baseline has no completed run and another cell replaces it.

    Attributes:
        baseline, stand_in: both cells by their values on the axes.
    """

    baseline: Mapping[str, Any]
    stand_in: Mapping[str, Any]


@dataclass(frozen=True)
class PerExampleCellsFact(Fact):
    """The number of cells whose epochs differ in size from their baseline's."""

    cells: int


@dataclass(frozen=True)
class IdenticalTimesFact(Fact):
    """The number of cells with identical times of runs, as after rounding."""

    cells: int


@dataclass(frozen=True)
class WarmupTimesFact(Fact):
    """Some times are those of warm-up epochs."""


@dataclass(frozen=True)
class OtherTrialsFact(Fact):
    """The journal contains trials of other cells."""

    trials: int
    grid: str


@dataclass(frozen=True)
class FurtherRepeatsFact(Fact):
    """The journal contains more repeats of the grid's cells than requested."""

    trials: int


@dataclass(frozen=True)
class EnergyMissingFact(Fact):
    """The energy of some runs was not measured.

    Attributes:
        reason: why, in the most frequent of the words that differ in numbers alone.
        runs: number of runs with that reason.
    """

    reason: str
    runs: int


@dataclass(frozen=True)
class PercentFact(Fact):
    """Accuracies were recorded in percent and are shown as fractions."""


@dataclass(frozen=True)
class NoStartupFact(Fact):
    """The results lack the start-up time of the runs."""


@dataclass(frozen=True)
class PartOfGridFact(Fact):
    """Only part of the grid was requested.

    Attributes:
        part: a description of that part.
    """

    part: str


def finding_facts(rows: Sequence[Row]) -> list[FindingFact]:
    """Return the findings of all rows by code, those that can only be notes last.

    Findings that could change a verdict have a letter as their mark.
    """
    groups = by_code(finding for row in rows for findings in row.findings.values() for finding in findings)
    turning_codes = {code for row in rows for code in row.cautions}
    marks = dict(zip((code for code in groups if code in turning_codes), ascii_lowercase, strict=False))
    return [
        FindingFact(
            code=code,
            mark=marks.get(code, ""),
            message=group[0].says,
            remedy=group[0].remedy,
            varies=any(finding.says != group[0].says for finding in group),
            runs=len(group),
            too_long=max(finding.too_long or 0.0 for finding in group),
            too_short=max(finding.too_short or 0.0 for finding in group),
        )
        for code, group in groups.items()
    ]


def remarks(results: GridResults, pairs: Sequence[Comparison]) -> Iterator[Fact]:
    """Yield Remarks other than findings, in the order of a report."""
    rows = results.rows
    if results.synthetic_data:
        yield SyntheticDataFact(results.synthetic_data)
    yield from _incomplete(rows)
    if not results.smoke:
        yield from _not_comparable(pairs)
    yield from unique(fact for pair in pairs if pair.baseline and (fact := one_machine_each(pair, pair.baseline)))
    counts = Counter(row.steady.runs for row in rows if row.steady)
    if counts[1] and not results.smoke and any(pair.baseline for pair in pairs):
        yield SingleRunCellsFact(counts[1])
    if results.compared_with != results.baseline:
        yield BaselineStandInFact(results.baseline, results.compared_with)
    uneven_cells = sum(not pair.even for pair in pairs)
    if uneven_cells and not results.smoke:
        yield PerExampleCellsFact(uneven_cells)
    exact_cells = sum(row.steady.runs > 1 and row.steady.low == row.steady.high for row in rows if row.steady)
    if exact_cells and not results.smoke:
        yield IdenticalTimesFact(exact_cells)
    if any(row.from_warmup for row in rows):
        yield WarmupTimesFact()
    if other_trials := results.aside - results.further:
        yield OtherTrialsFact(other_trials, results.name)
    if results.further:
        yield FurtherRepeatsFact(results.further)
    if not results.smoke:
        yield from _energy_missing(results)


def _energy_missing(results: GridResults) -> Iterator[Fact]:
    """Yield why energy was not measured, one fact for each reason.

    Hardware without a counter is not a reason worth reading, unless the energy of another cell was measured or the grid
    file has the price of energy or its CO2.
    """
    is_priced = results.price_per_kwh is not None or results.gco2_per_kwh is not None
    is_measured = any(row.energy for row in results.rows)
    counts: Counter[str] = Counter()
    for cell in results.cells:
        for run in results.runs(cell):
            has_device = energy.total(run) is not None
            is_complete = has_device and (hosted(str(run.cell.device.kind)) or energy.total(run, energy.HOST))
            if run.status == TrialStatus.COMPLETED and not is_complete:
                counts.update(energy.missing_reasons(run, with_hardware=is_priced or (is_measured and not has_device)))
    runs: Counter[str] = Counter()
    examples: dict[str, str] = {}
    for reason, count in counts.most_common():
        words = re.sub(r"[\d.]+", "", reason)
        runs[words] += count
        examples.setdefault(words, reason)
    yield from (EnergyMissingFact(examples[words], count) for words, count in runs.most_common())


def _incomplete(rows: Sequence[Row]) -> Iterator[Fact]:
    """Yield how trials ended that did not complete."""
    counts: Counter[str] = Counter()
    for row in rows:
        counts.update(row.counts.by_status)
    if counts:
        completed = sum(row.counts.completed for row in rows)
        yield IncompleteTrialsFact(completed + counts.total(), completed, dict(counts))


def _not_comparable(pairs: Sequence[Comparison]) -> Iterator[Fact]:
    """Yield reasons why ratios may not be due to the compared axis, other than findings."""
    compared = [(pair, pair.baseline) for pair in pairs if pair.baseline and pair.speedup and not pair.is_aa_test]
    sides: dict[ConfounderFact, dict[str, None]] = {}
    for pair, baseline in compared if any(pair.hardware for pair, _ in compared) else ():
        codes = baseline.cautions | pair.other.cautions
        for fact in confounders(baseline, pair.other):
            if isinstance(fact, ConfounderFact) and fact.code not in codes:
                sides.setdefault(replace(fact, sides=()), {}).update(dict.fromkeys(fact.sides))
    yield from (replace(fact, sides=tuple(names)) for fact, names in sides.items())
    yield from unique(
        OtherDifferencesFact(pair.other.name, baseline.name, pair.differences)
        for pair, baseline in compared
        if pair.differences
    )
