"""What a whole grid shows: all facts if comparisons are few, else what they have in common."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from statistics import fmean

from raybench.analysis.fact import Fact
from raybench.analysis.grid_results import PLACE, GridResults
from raybench.analysis.pairs import Comparison
from raybench.analysis.statistics import time_to_target
from raybench.analysis.target import mean_accuracy, to_target
from raybench.analysis.verdict import EpochTimeFact, HardwareCaveatFact, SpeedupFact, runs, unique, verdict
from raybench.core.job import Target

FEW = 3
"""Comparisons that are all in the verdict; of more, what they have in common and the fastest one."""

Paragraph = list[Fact]


@dataclass(frozen=True)
class NoVerdictFact(Fact):
    """There is nothing to compare: no run completed or, with `completed`, none has the time of an epoch."""

    completed: bool


@dataclass(frozen=True)
class SpeedupRangeFact(Fact):
    """How fast a side is over many settings, compared with its baselines.

    Attributes:
        least, most: ratios.
        faster, slower, unknown, not_significant: in how many settings each was the outcome.
        from_warmup: whether there are times of warm-up epochs among them.
    """

    other: str
    baseline: str
    workload: str
    least: float
    most: float
    faster: int
    slower: int
    unknown: int
    not_significant: int
    from_warmup: bool

    @property
    def settings(self) -> int:
        """How many settings there are."""
        return self.faster + self.slower + self.unknown + self.not_significant


@dataclass(frozen=True)
class FastestSettingFact(Fact):
    """The speed-up where a side is fastest."""

    speedup: SpeedupFact


@dataclass(frozen=True)
class FastestCellFact(Fact):
    """The fastest of many cells."""

    cells: int
    time: EpochTimeFact


@dataclass(frozen=True)
class SlowestCellFact(Fact):
    """The slowest of many cells."""

    time: EpochTimeFact


@dataclass(frozen=True)
class BestToTargetFact(Fact):
    """The setting of a device that is expected to reach the target first.

    Attributes:
        device, setting: what people call them; empty if the grid has one alone.
        settings, reaching: how many settings the device has, and how many of them reach the target.
        seconds: of training, expected.
        low, high: their 95 % interval.
        successes, tries: of this setting.
    """

    device: str
    setting: str
    workload: str
    target: Target
    settings: int
    reaching: int
    seconds: float
    low: float | None
    high: float | None
    successes: int
    tries: int


@dataclass(frozen=True)
class TargetMissedFact(Fact):
    """No run on a device reached the target."""

    device: str
    target: Target
    tries: int


@dataclass(frozen=True)
class SelectionFact(Fact):
    """The soonest of many settings was in part lucky."""


@dataclass(frozen=True)
class MissingCellsFact(Fact):
    """Many cells have no completed run."""

    cells: int
    missing: int


@dataclass(frozen=True)
class PartialCellsFact(Fact):
    """So many cells lack some of the planned runs."""

    cells: int


@dataclass(frozen=True)
class SmokeRunFact(Fact):
    """How many cells of a smoke run ran through."""

    completed: int
    cells: int


@dataclass(frozen=True)
class SmokeCaveatFact(Fact):
    """No number of a smoke run is a result."""


def comparison_statement(pair: Comparison) -> Paragraph:
    """Everything that one comparison shows, the target last."""
    return [*verdict(pair), *([] if pair.is_aa_test else to_target(pair))]


def cell_statement(pair: Comparison) -> Paragraph:
    """The same, and whether the mean over runs is shown to reach the target."""
    shown = mean_accuracy(pair) if len(pair.other.accuracies) > 1 and not pair.is_aa_test else None
    return [*comparison_statement(pair), *([shown] if shown else [])]


def summarize(standing: GridResults, found: Sequence[Comparison]) -> list[Paragraph]:
    """The verdict on a grid: paragraphs, each with what matters most first.

    Args:
        standing: the grid.
        found: a comparison for each cell.
    """
    if standing.smoke:
        through = sum(bool(standing.completed(cell)) for cell in standing.cells)
        return [[SmokeRunFact(through, len(standing.cells)), SmokeCaveatFact()]]
    timed = [pair for pair in found if pair.speedup and not pair.is_aa_test]
    few = len(timed) <= FEW
    paragraphs: list[Paragraph] = []
    if timed and few:
        paragraphs += map(comparison_statement, timed)
    elif timed:
        groups: dict[str, list[Comparison]] = {}
        for pair in timed:
            groups.setdefault(pair.other.name, []).append(pair)
        paragraphs += map(_in_common, groups.values())
    else:
        paragraphs += _without_comparison(found)
    paragraphs += [verdict(pair) for pair in found if pair.is_aa_test]
    if not (timed and few):
        paragraphs.append(_to_target(standing, found))
    paragraphs.append(_missing(standing, found, {id(pair) for pair in timed} if few else set()))
    once: list[Paragraph] = []
    for paragraph in paragraphs:
        # The caution about the hardware belongs to one ratio and is repeated; other sentences appear once.
        before = [each for earlier in once for each in earlier if not isinstance(each, HardwareCaveatFact)]
        once.append([each for each in unique(paragraph) if each not in before])
    nothing = NoVerdictFact(completed=any(map(standing.completed, standing.cells)))
    return [each for each in once if each] or [[nothing]]


def _in_common(mine: Sequence[Comparison]) -> Paragraph:
    """What the comparisons of one side with its baselines show, and the one in which it is fastest, in full."""
    fastest = min(mine, key=lambda pair: fmean(pair.other.times.values()))
    if len(mine) == 1:
        return comparison_statement(fastest)
    ratios = [found for pair in mine if (found := pair.speedup)]
    faster = sum(bool(found.differs) and found.ratio > 1 for found in ratios)
    slower = sum(bool(found.differs) and found.ratio < 1 for found in ratios)
    unknown = sum(found.differs is None for found in ratios)
    first, *more = verdict(fastest)
    assert isinstance(first, SpeedupFact)
    head = SpeedupRangeFact(
        other=first.other,
        baseline=first.baseline,
        workload=first.workload,
        least=min(found.ratio for found in ratios),
        most=max(found.ratio for found in ratios),
        faster=faster,
        slower=slower,
        unknown=unknown,
        not_significant=len(ratios) - faster - slower - unknown,
        from_warmup=any(side.from_warmup for pair in mine for side in (pair.other, pair.baseline) if side),
    )
    return [head, FastestSettingFact(first), *more]


def _without_comparison(found: Sequence[Comparison]) -> list[Paragraph]:
    """Every cell if they are few, else the fastest and the slowest."""
    timed = [pair for pair in found if pair.other.times and not pair.is_aa_test]
    if len(timed) <= FEW:
        return list(map(verdict, timed))
    timed.sort(key=lambda pair: fmean(pair.other.times.values()))
    fastest, slowest = (verdict(pair)[0] for pair in (timed[0], timed[-1]))
    assert isinstance(fastest, EpochTimeFact) and isinstance(slowest, EpochTimeFact)
    return [[FastestCellFact(len(timed), fastest), SlowestCellFact(slowest)]]


def _to_target(standing: GridResults, found: Sequence[Comparison]) -> Paragraph:
    """Which setting is expected to reach the target first, on each device."""
    if standing.target is None:
        return []
    reaching: dict[str, list[tuple[str, time_to_target.Expected]]] = {}
    tries: Counter[str] = Counter()
    settings: Counter[str] = Counter()
    for cell, pair in zip(standing.cells, found, strict=True):
        expected = time_to_target.expected(pair.other.tries)
        device = standing.places[cell.cell_id]
        if expected and not cell.aa_of:
            tries[device] += expected.tries
            settings[device] += 1
            if expected.seconds is not None:
                reaching.setdefault(device, []).append((standing.label(cell, without=PLACE), expected))
    facts: list[Fact] = []
    for device in tries:
        if device not in reaching:
            facts.append(TargetMissedFact(device, standing.target, tries[device]))
            continue
        label, best = min(reaching[device], key=lambda each: each[1].seconds or 0.0)
        assert best.seconds is not None
        facts.append(
            BestToTargetFact(
                device=device,
                setting=label,
                workload=standing.workload,
                target=standing.target,
                settings=settings[device],
                reaching=len(reaching[device]),
                seconds=best.seconds,
                low=best.low,
                high=best.high,
                successes=best.successes,
                tries=best.tries,
            )
        )
    if any(len(some) > FEW for some in reaching.values()):
        facts.append(SelectionFact())
    return facts


def _missing(standing: GridResults, found: Sequence[Comparison], told: Collection[int]) -> Paragraph:
    """The runs that are missing.

    Args:
        standing: the grid.
        found: a comparison for each cell.
        told: the identities of comparisons whose own facts have them already.
    """
    cells = zip(standing.cells, found, strict=True)
    lacking = [replace(pair.other, name=standing.label(cell)) for cell, pair in cells if not standing.completed(cell)]
    if len(lacking) <= FEW:
        facts: Paragraph = [fact for side in lacking if (fact := runs(side))]
    else:
        facts = [MissingCellsFact(len(found), len(lacking))]
    sides = {id(side) for pair in found if id(pair) in told for side in (pair.other, pair.baseline)}
    partly = sum(
        0 < len(pair.other.times) < pair.other.counts.planned and id(pair.other) not in sides for pair in found
    )
    return [*facts, *([PartialCellsFact(partly)] if partly else [])]
