"""What the numbers of a grid have to be read with, as facts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from string import ascii_lowercase
from typing import Any

from raybench.analysis.comparison import Row
from raybench.analysis.diagnostics.diagnose import by_code
from raybench.analysis.fact import Fact
from raybench.analysis.grid_results import GridResults
from raybench.analysis.pairs import Comparison


@dataclass(frozen=True)
class FindingFact(Fact):
    """A finding as it was seen in the worst of the runs that have it.

    Attributes:
        mark: the letter that stands for it in the table; empty if it could change no verdict.
        message, remedy: of the worst.
        varies: whether the message is another for other runs.
        runs: how many have it.
        too_long, too_short: by which part the time of the worst may be so; 0 if not known.
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
class SingleRunCellsFact(Fact):
    """So many cells have one completed run, which shows no interval."""

    cells: int


@dataclass(frozen=True)
class BaselineStandInFact(Fact):
    """The baseline has no completed run, and another cell stands in for it; both by their values on axes."""

    baseline: Mapping[str, Any]
    stand_in: Mapping[str, Any]


@dataclass(frozen=True)
class PerExampleCellsFact(Fact):
    """So many cells have another number of examples in an epoch than their baseline."""

    cells: int


@dataclass(frozen=True)
class IdenticalTimesFact(Fact):
    """The runs of so many cells took the same time to the last digit, as rounded times do."""

    cells: int


@dataclass(frozen=True)
class WarmupTimesFact(Fact):
    """Some times are of warm-up epochs."""


@dataclass(frozen=True)
class OtherTrialsFact(Fact):
    """The journal has trials of other cells."""

    trials: int
    grid: str


@dataclass(frozen=True)
class FurtherRepeatsFact(Fact):
    """The journal has more repeats of the grid's cells than were requested."""

    trials: int


@dataclass(frozen=True)
class PercentFact(Fact):
    """Accuracies were recorded in percent, and are shown as fractions."""


@dataclass(frozen=True)
class NoStartupFact(Fact):
    """The results do not have what runs paid before their first step."""


@dataclass(frozen=True)
class PartOfGridFact(Fact):
    """A part of the grid was requested: which."""

    part: str


def finding_facts(rows: Sequence[Row]) -> list[FindingFact]:
    """The findings of all rows by code, cautions last; those that could change a verdict have a letter."""
    groups = by_code(finding for row in rows for findings in row.findings.values() for finding in findings)
    turning_codes = {code for row in rows for code in row.caveats}
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


def caveats(results: GridResults, pairs: Sequence[Comparison]) -> Iterator[Fact]:
    """What touches numbers of the grid besides findings, in the order of a report."""
    rows = results.rows
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
