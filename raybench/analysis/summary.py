"""Summary of a grid: all facts for few comparisons, else aggregates."""

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
"""Up to this number, all comparisons are in the verdict.

Beyond it, their range and the fastest.
"""

Paragraph = list[Fact]


@dataclass(frozen=True)
class NoVerdictFact(Fact):
    """Nothing can be compared.

    Attributes:
        completed: whether any run completed: then none has the time of an epoch.
    """

    completed: bool


@dataclass(frozen=True)
class SpeedupRangeFact(Fact):
    """The range of a side's speed-ups over its baselines, over many settings.

    Attributes:
        least, most: ratios.
        faster, slower, unknown, not_significant: number of settings with each outcome.
        from_warmup: whether times of warm-up epochs are included.
    """

    other: str
    baseline: str
    least: float
    most: float
    faster: int
    slower: int
    unknown: int
    not_significant: int
    from_warmup: bool

    @property
    def settings(self) -> int:
        """Number of settings."""
        return self.faster + self.slower + self.unknown + self.not_significant


@dataclass(frozen=True)
class FastestSettingFact(Fact):
    """The speed-up in the setting with the shortest epoch."""

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
    """The setting of a device with the shortest expected time to target.

    Attributes:
        device, setting: display names; empty if the grid has only one.
        settings, reaching: number of settings of the device, and number of those that reach the target.
        seconds: expected training time.
        low, high: its 95% interval.
        successes, tries: of this setting.
    """

    device: str
    setting: str
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
    """The best of many settings is subject to selection bias."""


@dataclass(frozen=True)
class MissingCellsFact(Fact):
    """Many cells have no completed run."""

    cells: int
    missing: int


@dataclass(frozen=True)
class PartialCellsFact(Fact):
    """The number of cells that lack some of the planned runs."""

    cells: int


@dataclass(frozen=True)
class SyntheticDataFact(Fact):
    """The cells are trained on generated data instead of real data."""

    name: str


@dataclass(frozen=True)
class SmokeRunFact(Fact):
    """The number of cells of a smoke run that completed."""

    completed: int
    cells: int


@dataclass(frozen=True)
class SmokeCaveatFact(Fact):
    """The numbers of a smoke run are not results."""


def comparison_statement(pair: Comparison) -> Paragraph:
    """Return all facts of one comparison, the target last."""
    return [*verdict(pair), *([] if pair.is_aa_test else to_target(pair))]


def cell_statement(pair: Comparison) -> Paragraph:
    """Return all facts of one cell, including its mean accuracy's check."""
    mean_fact = mean_accuracy(pair) if len(pair.other.accuracies) > 1 and not pair.is_aa_test else None
    return [*comparison_statement(pair), *([mean_fact] if mean_fact else [])]


def summarize(results: GridResults, pairs: Sequence[Comparison]) -> list[Paragraph]:
    """Return the verdict on a grid as paragraphs.

    Each has the most important fact first.

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
        # The hardware caution belongs to one ratio and is repeated; other sentences appear once.
        earlier_facts = [
            each for earlier in deduplicated for each in earlier if not isinstance(each, HardwareCaveatFact)
        ]
        deduplicated.append([each for each in unique(paragraph) if each not in earlier_facts])
    no_verdict = NoVerdictFact(completed=any(map(results.completed, results.cells)))
    return [each for each in deduplicated if each] or [[no_verdict]]


def _in_common(pairs: Sequence[Comparison]) -> Paragraph:
    """Return the range of a side's speed-ups and its fastest comparison."""
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
    """Return the times of all cells or, if many, the extremes.

    These are the fastest and the slowest.
    """
    timed = [pair for pair in pairs if pair.other.times and not pair.is_aa_test]
    if len(timed) <= FEW:
        return list(map(verdict, timed))
    timed.sort(key=lambda pair: fmean(pair.other.times.values()))
    fastest, slowest = (verdict(pair)[0] for pair in (timed[0], timed[-1]))
    assert isinstance(fastest, EpochTimeFact) and isinstance(slowest, EpochTimeFact)
    return [[FastestCellFact(len(timed), fastest), SlowestCellFact(slowest)]]


def _to_target(results: GridResults, pairs: Sequence[Comparison]) -> Paragraph:
    """Return the setting expected to reach the target first, for each device."""
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
    """Return facts about missing runs.

    Args:
        results: the grid.
        pairs: a comparison for each cell.
        shown_ids: identities of comparisons whose own facts already include missing runs.
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
