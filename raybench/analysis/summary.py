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
class SyntheticDataFact(Fact):
    """The cells are trained on a generated data set in place of a real one."""

    name: str


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
    mean_fact = mean_accuracy(pair) if len(pair.other.accuracies) > 1 and not pair.is_aa_test else None
    return [*comparison_statement(pair), *([mean_fact] if mean_fact else [])]


def summarize(results: GridResults, pairs: Sequence[Comparison]) -> list[Paragraph]:
    """The verdict on a grid: paragraphs, each with what matters most first.

    Args:
        results: the grid.
        pairs: a comparison for each cell.
    """
    if results.smoke:
        completed_cells = sum(bool(results.completed(cell)) for cell in results.cells)
        return [[SmokeRunFact(completed_cells, len(results.cells)), SmokeCaveatFact()]]
    timed = [pair for pair in pairs if pair.speedup and not pair.is_aa_test]
    few = len(timed) <= FEW
    paragraphs: list[Paragraph] = [[SyntheticDataFact(results.synthetic_data)]] if results.synthetic_data else []
    if timed and few:
        paragraphs += map(comparison_statement, timed)
    elif timed:
        groups: dict[str, list[Comparison]] = {}
        for pair in timed:
            groups.setdefault(pair.other.name, []).append(pair)
        paragraphs += map(_in_common, groups.values())
    else:
        paragraphs += _without_comparison(pairs)
    paragraphs += [verdict(pair) for pair in pairs if pair.is_aa_test]
    if not (timed and few):
        paragraphs.append(_to_target(results, pairs))
    paragraphs.append(_missing(results, pairs, {id(pair) for pair in timed} if few else set()))
    deduplicated: list[Paragraph] = []
    for paragraph in paragraphs:
        # The caution about the hardware belongs to one ratio and is repeated; other sentences appear once.
        earlier_facts = [
            each for earlier in deduplicated for each in earlier if not isinstance(each, HardwareCaveatFact)
        ]
        deduplicated.append([each for each in unique(paragraph) if each not in earlier_facts])
    no_verdict = NoVerdictFact(completed=any(map(results.completed, results.cells)))
    return [each for each in deduplicated if each] or [[no_verdict]]


def _in_common(pairs: Sequence[Comparison]) -> Paragraph:
    """What the comparisons of one side with its baselines show, and the one in which it is fastest, in full."""
    fastest = min(pairs, key=lambda pair: fmean(pair.other.times.values()))
    if len(pairs) == 1:
        return comparison_statement(fastest)
    speedups = [speedup for pair in pairs if (speedup := pair.speedup)]
    faster = sum(bool(speedup.differs) and speedup.ratio > 1 for speedup in speedups)
    slower = sum(bool(speedup.differs) and speedup.ratio < 1 for speedup in speedups)
    unknown = sum(speedup.differs is None for speedup in speedups)
    speedup_fact, *more_facts = verdict(fastest)
    assert isinstance(speedup_fact, SpeedupFact)
    range_fact = SpeedupRangeFact(
        other=speedup_fact.other,
        baseline=speedup_fact.baseline,
        workload=speedup_fact.workload,
        least=min(speedup.ratio for speedup in speedups),
        most=max(speedup.ratio for speedup in speedups),
        faster=faster,
        slower=slower,
        unknown=unknown,
        not_significant=len(speedups) - faster - slower - unknown,
        from_warmup=any(side.from_warmup for pair in pairs for side in (pair.other, pair.baseline) if side),
    )
    return [range_fact, FastestSettingFact(speedup_fact), *more_facts]


def _without_comparison(pairs: Sequence[Comparison]) -> list[Paragraph]:
    """Every cell if they are few, else the fastest and the slowest."""
    timed = [pair for pair in pairs if pair.other.times and not pair.is_aa_test]
    if len(timed) <= FEW:
        return list(map(verdict, timed))
    timed.sort(key=lambda pair: fmean(pair.other.times.values()))
    fastest, slowest = (verdict(pair)[0] for pair in (timed[0], timed[-1]))
    assert isinstance(fastest, EpochTimeFact) and isinstance(slowest, EpochTimeFact)
    return [[FastestCellFact(len(timed), fastest), SlowestCellFact(slowest)]]


def _to_target(results: GridResults, pairs: Sequence[Comparison]) -> Paragraph:
    """Which setting is expected to reach the target first, on each device."""
    if results.target is None:
        return []
    reaching: dict[str, list[tuple[str, time_to_target.Expected]]] = {}
    tries: Counter[str] = Counter()
    settings: Counter[str] = Counter()
    for cell, pair in zip(results.cells, pairs, strict=True):
        expected = time_to_target.expected(pair.other.target_attempts)
        device = results.places[cell.cell_id]
        if expected and not cell.aa_of:
            tries[device] += expected.tries
            settings[device] += 1
            if expected.seconds is not None:
                reaching.setdefault(device, []).append((results.label(cell, without=PLACE), expected))
    facts: list[Fact] = []
    for device in tries:
        if device not in reaching:
            facts.append(TargetMissedFact(device, results.target, tries[device]))
            continue
        label, best = min(reaching[device], key=lambda each: each[1].seconds or 0.0)
        assert best.seconds is not None
        facts.append(
            BestToTargetFact(
                device=device,
                setting=label,
                workload=results.workload,
                target=results.target,
                settings=settings[device],
                reaching=len(reaching[device]),
                seconds=best.seconds,
                low=best.low,
                high=best.high,
                successes=best.successes,
                tries=best.tries,
            )
        )
    if any(len(estimates) > FEW for estimates in reaching.values()):
        facts.append(SelectionFact())
    return facts


def _missing(results: GridResults, pairs: Sequence[Comparison], shown_ids: Collection[int]) -> Paragraph:
    """The runs that are missing.

    Args:
        results: the grid.
        pairs: a comparison for each cell.
        shown_ids: the identities of comparisons whose own facts have them already.
    """
    cells = zip(results.cells, pairs, strict=True)
    lacking_sides = [
        replace(pair.other, name=results.label(cell)) for cell, pair in cells if not results.completed(cell)
    ]
    if len(lacking_sides) <= FEW:
        facts: Paragraph = [fact for side in lacking_sides if (fact := runs(side))]
    else:
        facts = [MissingCellsFact(len(pairs), len(lacking_sides))]
    sides = {id(side) for pair in pairs if id(pair) in shown_ids for side in (pair.other, pair.baseline)}
    partial_cells = sum(
        0 < len(pair.other.times) < pair.other.counts.planned and id(pair.other) not in sides for pair in pairs
    )
    return [*facts, *([PartialCellsFact(partial_cells)] if partial_cells else [])]
