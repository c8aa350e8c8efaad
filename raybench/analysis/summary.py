"""The answer of a report: at most three facts about the whole grid, and all facts about each cell."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

from raybench.analysis.comparison import baseline_indices
from raybench.analysis.contrast import CellPairs, Contrast, Contrasts
from raybench.analysis.fact import Fact
from raybench.analysis.grid_results import PLACE, GridResults
from raybench.analysis.pairs import CellSummary, Comparison
from raybench.analysis.ranking import RankedDevice, energy_ratio, time_to_target_ratio, times_ratio
from raybench.analysis.remarks import finding_facts
from raybench.analysis.statistics.accuracy import MARGIN, POINTS
from raybench.analysis.statistics.speedup import ALIKE, AS_FAST, Speedup, inverse, selected
from raybench.analysis.statistics.time_to_target import compare_targets
from raybench.analysis.target import mean_accuracy, to_target
from raybench.analysis.verdict import Outcome, aa_test, epoch_time, outcome, verdict
from raybench.core.job import Target
from raybench.core.text import format_value

FEW = 3
"""Maximum number of facts in an answer."""

Paragraph = list[Fact]


@dataclass(frozen=True)
class NoVerdictFact(Fact):
    """Nothing can be compared.

    Attributes:
        completed: whether any run completed: then none has the time of an epoch.
        remedy: how to get the times, if a program's output was buffered.
    """

    completed: bool
    remedy: str = ""


@dataclass(frozen=True)
class OverallSpeedupFact(Fact):
    """The geometric mean speed-up over all pairs of cells that differ in the compared axis alone.

    Attributes:
        low, high: the 95% interval, corrected for the selection of the fastest; None with one run each.
        least, most: the smallest and the largest speed-up of a pair.
        depends_on: axes on which the speed-up is shown to depend; empty if it is not.
        fastest: whether `other` was selected as the fastest of several.
        tied: other candidates that are not shown to be slower than `other`.
        equal_settings: whether devices are compared at several settings, which are not the best of each.
        per_example: whether it is the ratio of examples per second, because epochs differ in size.
        from_warmup: whether times of warm-up epochs are included.
        cautions: the letters of cautions that could change it, empty for a caution without a letter.
        margin: the equivalence margin of the ratio.
    """

    margin: ClassVar[float] = ALIKE - 1

    other: str
    baseline: str
    ratio: float
    low: float | None
    high: float | None
    outcome: Outcome
    least: float
    most: float
    depends_on: tuple[str, ...] = ()
    fastest: bool = False
    tied: tuple[str, ...] = ()
    equal_settings: bool = False
    per_example: bool = False
    from_warmup: bool = False
    cautions: tuple[str, ...] = ()


@dataclass(frozen=True)
class BestSpeedupFact(Fact):
    """The speed-up between two devices, each at its fastest settings.

    Attributes:
        low, high: the 95% interval, corrected for the selection of both cells; None with one run each.
        cautions: the letters of cautions that could change it, empty for a caution without a letter.
    """

    margin: ClassVar[float] = ALIKE - 1

    other: str
    baseline: str
    ratio: float
    low: float | None
    high: float | None
    outcome: Outcome
    cautions: tuple[str, ...] = ()


@dataclass(frozen=True)
class OverallAccuracyFact(Fact):
    """The mean difference in accuracy over all pairs of cells that differ in the compared axis alone.

    Attributes:
        points: the other's minus the baseline's, in percentage points.
        low, high: the 95% interval; None with one run each.
        least, most: the smallest and the largest difference of a pair.
        depends_on: axes on which the difference is shown to depend; empty if it is not.
        epochs: the number of epochs of all compared cells; None if they differ.
        margin: the equivalence margin in points.
    """

    margin: ClassVar[float] = MARGIN

    other: str
    baseline: str
    points: float
    low: float | None
    high: float | None
    outcome: Outcome
    least: float
    most: float
    depends_on: tuple[str, ...] = ()
    epochs: float | None = None


@dataclass(frozen=True)
class TargetSide:
    """Runs of one side towards the target.

    Attributes:
        seconds: expected training time at the best settings; None if no run reached the target.
        successes, tries: over all its cells.
    """

    name: str
    seconds: float | None
    successes: int
    tries: int


@dataclass(frozen=True)
class TargetSummaryFact(Fact):
    """Success rates and times to the target of all sides, each at its best settings.

    Attributes:
        selected: whether a side has several settings to select from.
        not_counted: number of planned runs without a result, such as failed ones.
    """

    target: Target
    sides: tuple[TargetSide, ...]
    selected: bool
    not_counted: int = 0

    @property
    def all_reached(self) -> bool:
        """Whether every run reached the target."""
        return all(side.successes == side.tries for side in self.sides)


@dataclass(frozen=True)
class BestToTargetFact(Fact):
    """The comparison of two sides that reach the target, each at its best settings; the faster one is `other`.

    Attributes:
        seconds, baseline_seconds: expected training times.
        low, high: the 95% interval of the ratio, corrected for the selection of both cells; None with too few runs.
        selected: whether a side has several settings to select from.
    """

    other: str
    baseline: str
    target: Target
    seconds: float
    baseline_seconds: float
    ratio: float
    low: float | None
    high: float | None
    outcome: Outcome
    selected: bool


@dataclass(frozen=True)
class CheapestFact(Fact):
    """The cheapest device at its best settings, compared with the next one.

    Attributes:
        target: if set, prices are those of reaching it, else of an epoch.
        price: of the cheapest, in the grid's currency.
        low, high: the 95% interval of the ratio, corrected for the selection of both cells; None with too few runs.
    """

    device: str
    other: str
    target: Target | None
    price: float
    ratio: float
    low: float | None
    high: float | None
    outcome: Outcome


@dataclass(frozen=True)
class LeastEnergyFact(Fact):
    """The device that uses the least energy at its best settings, compared with the next one.

    Attributes:
        target: if set, energies are those of reaching it, else of an epoch.
        joules: of the device alone, without an accelerator's host.
        low, high: the 95% interval of the ratio, corrected for the selection of both cells; None with too few runs.
        not_measured: other devices, whose energy was not measured.
    """

    device: str
    other: str
    target: Target | None
    joules: float
    ratio: float
    low: float | None
    high: float | None
    outcome: Outcome
    not_measured: tuple[str, ...] = ()


@dataclass(frozen=True)
class CellTimesFact(Fact):
    """The fastest and the slowest of many cells.

    Attributes:
        seconds, slowest_seconds: per epoch.
        low, high: the 95% interval of `seconds`; None with one run.
    """

    cells: int
    fastest: str
    seconds: float
    low: float | None
    high: float | None
    slowest: str
    slowest_seconds: float


@dataclass(frozen=True)
class NoBaselineFact(Fact):
    """The grid names no baseline, so cells have no speed-up.

    Attributes:
        source: the grid's name, or the file of the runs, as `raybench report` takes it.
        has_grid_file: whether the baseline can be written into a grid file.
        axis, value: a possible baseline: the first value of the first axis that varies.
    """

    source: str
    has_grid_file: bool
    axis: str
    value: Any


@dataclass(frozen=True)
class SmokeRunFact(Fact):
    """The number of cells of a smoke run that completed."""

    completed: int
    cells: int


@dataclass(frozen=True)
class SmokeCautionFact(Fact):
    """The numbers of a smoke run are not results."""


def comparison_statement(pair: Comparison) -> Paragraph:
    """Return all facts of one comparison, the target last."""
    return [*verdict(pair), *([] if pair.is_aa_test else to_target(pair))]


def cell_statement(pair: Comparison) -> Paragraph:
    """Return all facts of one cell, including its mean accuracy's check."""
    mean_fact = mean_accuracy(pair) if len(pair.other.accuracies) > 1 and not pair.is_aa_test else None
    return [*comparison_statement(pair), *([mean_fact] if mean_fact else [])]


def summarize(
    results: GridResults, pairs: Sequence[Comparison], ranking: Sequence[RankedDevice] = ()
) -> list[Paragraph]:
    """Return the answer to the question of a grid, in at most three paragraphs of one or two facts.

    If energy was measured, the device that uses the least is added.

    Args:
        results: the grid.
        pairs: a comparison for each cell.
        ranking: its devices (`raybench.analysis.ranking.rank`); empty if there is one.
    """
    if results.smoke:
        completed_cells = sum(bool(results.completed(cell)) for cell in results.cells)
        return [[SmokeRunFact(completed_cells, len(results.cells))], [SmokeCautionFact()]]
    examples = next((each.examples for each in pairs if each.examples), None)
    contrasts = Contrasts(results, [pair.other for pair in pairs], examples)
    between_devices = ranking and (set(PLACE) & set(results.compared_with) or not results.compared_with)
    facts: Sequence[Fact]
    if between_devices:
        facts = _devices(results, pairs, ranking, contrasts)
    elif any(pair.speedup and not pair.is_aa_test for pair in pairs):
        facts = _settings(results, pairs, contrasts)
    else:
        facts = _without_comparison(results, pairs)
    facts = [_with_cautions(fact, results, pairs) for fact in facts[:FEW]]
    if between_devices and (energy := _least_energy(results.target, ranking, [pair.other for pair in pairs])):
        facts.append(energy)
    if facts:
        return [[fact] for fact in facts]
    buffered = {
        finding.remedy
        for row in results.rows
        for findings in row.findings.values()
        for finding in findings
        if finding.code == "output_buffered"
    }
    completed = any(map(results.completed, results.cells))
    return [[NoVerdictFact(completed, min(buffered, default=""))]]


def _with_cautions(fact: Fact, results: GridResults, pairs: Sequence[Comparison]) -> Fact:
    """Return a fact about speed with the cautions on its comparison; any other fact unchanged."""
    if not isinstance(fact, OverallSpeedupFact | BestSpeedupFact):
        return fact
    compared = [
        (pair, pair.baseline)
        for pair in pairs
        if pair.baseline and pair.speedup and {pair.other.name, pair.baseline.name} == {fact.other, fact.baseline}
    ]
    codes = {code for pair, baseline in compared for code in pair.other.cautions | baseline.cautions}
    marks = [each.mark for each in finding_facts(results.rows) if each.mark and each.code in codes]
    others = [""] if any(pair.differences for pair, _ in compared) else []
    return replace(fact, cautions=(*marks, *others))


def _devices(
    results: GridResults, pairs: Sequence[Comparison], ranking: Sequence[RankedDevice], contrasts: Contrasts
) -> list[Fact]:
    """Return facts about several devices: speed, the target or best settings, cost or accuracy."""
    sides = [pair.other for pair in pairs]
    baseline = next(each for each in ranking if each.is_baseline)
    others = [each.device for each in ranking if each is not baseline]

    def contrast(first: str, second: str) -> Contrast | None:
        return contrasts.of(_equal_settings(results, first, second))

    found = {name: each for name in others if (each := contrast(baseline.device, name))}
    speed = _fastest(baseline.device, found, contrast, devices=True)
    best = _best_settings(results, ranking, always=speed is None)
    facts: list[Fact | None] = [speed or best]
    if results.target:
        facts.append(_ranked_target(results, results.target, ranking, sides))
    elif speed:
        facts.append(best)
    facts.append(_cheapest(results.target, ranking, sides))
    if speed:
        name = speed.baseline if speed.baseline in found else speed.other
        facts.append(_accuracy(name, baseline.device, found[name]))
    return [fact for fact in facts if fact]


def _equal_settings(results: GridResults, baseline: str, other: str) -> CellPairs:
    """Return the pairs of cells of two devices with equal values on all other axes."""
    by_settings: dict[str, dict[tuple[tuple[str, str], ...], int]] = {}
    for number, cell in enumerate(results.cells):
        if not cell.aa_of:
            settings = tuple(sorted((axis, format_value(cell.axes[axis])) for axis in cell.axes if axis not in PLACE))
            by_settings.setdefault(results.places[cell.cell_id], {})[settings] = number
    first, second = by_settings.get(baseline, {}), by_settings.get(other, {})
    return [(first[settings], second[settings]) for settings in first if settings in second]


def _settings(results: GridResults, pairs: Sequence[Comparison], contrasts: Contrasts) -> list[Fact]:
    """Return facts about settings that are compared with a baseline: speed, accuracy and the target."""
    origins = baseline_indices(results.cells, results.compared_with)
    by_name: dict[str, list[tuple[int, int]]] = {}
    baseline = ""
    for number, (pair, origin) in enumerate(zip(pairs, origins, strict=True)):
        if pair.baseline and pair.speedup and origin is not None and not pair.is_aa_test:
            by_name.setdefault(pair.other.name, []).append((origin, number))
            baseline = pair.baseline.name
    found = {name: each for name, cell_pairs in by_name.items() if (each := contrasts.of(cell_pairs))}

    def between(first: str, second: str) -> Contrast | None:
        numbers = dict(by_name[first])
        return contrasts.of([(numbers[origin], number) for origin, number in by_name[second] if origin in numbers])

    speed = _fastest(baseline, found, between)
    if speed is None:
        return []
    name = speed.baseline if speed.baseline in found else speed.other
    facts: list[Fact | None] = [speed, _accuracy(name, baseline, found[name])]
    if results.target:
        sides = [pair.other for pair in pairs]
        name = _first_to_target(by_name, sides) or name
        numbers = {name: [number for _, number in by_name[name]], baseline: [origin for origin, _ in by_name[name]]}
        best = _best_to_target(results.target, numbers, sides, len(by_name))
        facts.append(best or _target(results.target, numbers, sides))
    return [fact for fact in facts if fact]


def _first_to_target(by_name: Mapping[str, CellPairs], sides: Sequence[CellSummary]) -> str | None:
    """Return the name of the cells with the shortest expected time to the target; None if none has reached it."""
    seconds = {
        name: min(times)
        for name, cell_pairs in by_name.items()
        if (
            times := [
                each.seconds
                for _, number in cell_pairs
                if (each := sides[number].to_target) and each.seconds is not None
            ]
        )
    }
    return min(seconds, key=seconds.__getitem__, default=None)


def _fastest(
    baseline: str,
    found: Mapping[str, Contrast],
    between: Callable[[str, str], Contrast | None],
    devices: bool = False,
) -> OverallSpeedupFact | None:
    """Return the speed-up of the fastest side over the baseline or, if that is the fastest, over the next one.

    Args:
        baseline: its name.
        found: the contrast of each other side with the baseline.
        between: returns the contrast of two other sides, that of the second over the first.
        devices: whether the sides are devices, which may have other best settings.
    """
    if not found:
        return None
    name = max(found, key=lambda each: found[each].speedup.ratio)
    contrast, several = found[name], len(found) > 1
    speedup, least, most = selected(contrast.speedup, len(found)), contrast.least, contrast.most
    sides = name, baseline
    tied: list[str] = []
    if several and speedup.ratio < 1:
        speedup, least, most, sides = inverse(speedup), 1 / most, 1 / least, (baseline, name)
    else:
        faster = [other for other in found if other != name and found[other].speedup.ratio > 1]
        versus = [(other, between(other, name)) for other in faster]
        tied = [other for other, each in versus if each and selected(each.speedup, len(found)).differs is False]
    return OverallSpeedupFact(
        *sides,
        ratio=speedup.ratio,
        low=speedup.low,
        high=speedup.high,
        outcome=_speed_outcome(speedup),
        least=least,
        most=most,
        depends_on=contrast.speed_depends_on,
        fastest=several and speedup.differs is not False,
        tied=tuple(tied),
        equal_settings=devices and contrast.pairs > 1,
        per_example=contrast.per_example,
        from_warmup=contrast.from_warmup,
    )


def _speed_outcome(speedup: Speedup) -> Outcome:
    return outcome(speedup.differs, speedup.ratio > 1, speedup.verdict() == AS_FAST)


def _accuracy(other: str, baseline: str, contrast: Contrast) -> OverallAccuracyFact | None:
    """Return the mean difference in accuracy; None if it cannot be compared."""
    gap = contrast.accuracy
    if gap is None:
        return None
    differs = None if gap.low is None or gap.high is None else gap.low > 0 or gap.high < 0
    low, high = (None if end is None else POINTS * end for end in (gap.low, gap.high))
    least, most = (POINTS * end for end in contrast.accuracy_ends)
    result = outcome(differs, gap.value > 0, gap.is_within(MARGIN / POINTS))
    depends_on = contrast.accuracy_depends_on
    return OverallAccuracyFact(
        other, baseline, POINTS * gap.value, low, high, result, least, most, depends_on, contrast.epochs
    )


def _target(
    target: Target, numbers: Mapping[str, Sequence[int]], sides: Sequence[CellSummary]
) -> TargetSummaryFact | None:
    """Return success rates and times to the target of groups of cells; None without informative runs."""
    target_sides = []
    for name, own_numbers in numbers.items():
        estimates = [each for number in own_numbers if (each := sides[number].to_target)]
        seconds = [each.seconds for each in estimates if each.seconds is not None]
        if estimates:
            successes, tries = sum(each.successes for each in estimates), sum(each.tries for each in estimates)
            target_sides.append(TargetSide(name, min(seconds, default=None), successes, tries))
    several = any(len(own_numbers) > 1 for own_numbers in numbers.values())
    planned = sum(sides[number].counts.planned for own_numbers in numbers.values() for number in own_numbers)
    not_counted = max(0, planned - sum(side.tries for side in target_sides))
    return TargetSummaryFact(target, tuple(target_sides), several, not_counted) if target_sides else None


def _best_to_target(
    target: Target, numbers: Mapping[str, Sequence[int]], sides: Sequence[CellSummary], groups: int
) -> BestToTargetFact | None:
    """Return the comparison of two groups of cells, each represented by the cell that reaches the target first.

    None if a run missed the target, because success rates matter more then, and without an interval.

    Args:
        groups: number of groups of which the one that is compared with the baseline was selected.
    """
    best = []
    for name, own_numbers in numbers.items():
        estimates = [(each, number) for number in own_numbers if (each := sides[number].to_target)]
        if not estimates or any(each.successes < each.tries for each, _ in estimates):
            return None
        seconds, number = min((each.seconds or 0.0, number) for each, number in estimates)
        best.append((seconds, name, sides[number].target_attempts, len(estimates)))
    best.sort(key=lambda each: each[0])
    (seconds, name, attempts, candidates), (baseline_seconds, baseline, baseline_attempts, baseline_candidates) = best
    # The best settings may differ, so equal numbers of epochs are not required.
    ratio = compare_targets(baseline_attempts, attempts, learn_differently=True).seconds
    if ratio is None or ratio.differs is None:
        return None
    ratio = selected(ratio, candidates * baseline_candidates * groups)
    return BestToTargetFact(
        other=name,
        baseline=baseline,
        target=target,
        seconds=seconds,
        baseline_seconds=baseline_seconds,
        ratio=ratio.ratio,
        low=ratio.low,
        high=ratio.high,
        outcome=outcome(ratio.differs, is_higher=True, is_equal=False),
        selected=max(candidates, baseline_candidates) > 1,
    )


def _ranked_target(
    results: GridResults, target: Target, ranking: Sequence[RankedDevice], sides: Sequence[CellSummary]
) -> Fact | None:
    """Return the comparison of the two devices that reach the target first; success rates if there are fewer."""
    reached = [(each, each.target.seconds) for each in ranking if each.target and each.target.seconds is not None]
    if len(reached) > 1:
        (first, seconds), (second, baseline_seconds) = reached[:2]
        ratio = time_to_target_ratio(first, second, sides)
        if ratio:
            return BestToTargetFact(
                other=first.device,
                baseline=second.device,
                target=target,
                seconds=seconds,
                baseline_seconds=baseline_seconds,
                ratio=ratio.ratio,
                low=ratio.low,
                high=ratio.high,
                outcome=outcome(ratio.differs, is_higher=True, is_equal=False),
                selected=max(first.candidates, second.candidates) > 1,
            )
    numbers: dict[str, list[int]] = {each.device: [] for each in ranking}
    for number, cell in enumerate(results.cells):
        if not cell.aa_of and results.places[cell.cell_id] in numbers:
            numbers[results.places[cell.cell_id]].append(number)
    return _target(target, numbers, sides)


def _best_settings(results: GridResults, ranking: Sequence[RankedDevice], always: bool) -> BestSpeedupFact | None:
    """Return the speed-up of the fastest device over the baseline, each at its best settings.

    None if devices have no settings to select from, unless it is always wanted.
    """
    baseline = next(each for each in ranking if each.is_baseline)
    compared = [(each, each.speedup) for each in ranking if each.speedup]
    if not compared or not (always or max(each.candidates for each in ranking) > 1):
        return None
    best, speedup = max(compared, key=lambda each: each[1].ratio)
    return BestSpeedupFact(
        best.device, baseline.device, speedup.ratio, speedup.low, speedup.high, _speed_outcome(speedup)
    )


def _cheapest(
    target: Target | None, ranking: Sequence[RankedDevice], sides: Sequence[CellSummary]
) -> CheapestFact | None:
    """Return the cheapest device; None if fewer than two have a price above 0."""
    priced = sorted(((each, each.price) for each in ranking if each.price), key=lambda pair: pair[1])
    if len(priced) < 2:
        return None
    (first, price), (second, next_price) = priced[:2]
    speedup = time_to_target_ratio(first, second, sides) if target else times_ratio(first, second, sides)
    low, high = (None, None)
    if speedup and speedup.low is not None and speedup.high is not None:
        factor = next_price / price / speedup.ratio
        low, high = factor * speedup.low, factor * speedup.high
    differs = None if low is None or high is None else not low <= 1 <= high
    result = outcome(differs, is_higher=True, is_equal=False)
    return CheapestFact(first.device, second.device, target, price, next_price / price, low, high, result)


def _least_energy(
    target: Target | None, ranking: Sequence[RankedDevice], sides: Sequence[CellSummary]
) -> LeastEnergyFact | None:
    """Return the device that uses the least energy; None if fewer than two were measured."""
    measured = sorted(((each, each.energy) for each in ranking if each.energy), key=lambda pair: pair[1])
    if len(measured) < 2:
        return None
    (first, joules), (second, next_joules) = measured[:2]
    ratio = energy_ratio(first, second, sides, bool(target))
    return LeastEnergyFact(
        first.device,
        second.device,
        target,
        joules,
        next_joules / joules,
        ratio.low if ratio else None,
        ratio.high if ratio else None,
        outcome(ratio.differs if ratio else None, is_higher=True, is_equal=False),
        tuple(each.device for each in ranking if not each.energy),
    )


def _without_comparison(results: GridResults, pairs: Sequence[Comparison]) -> list[Fact]:
    """Return the fastest and the slowest cell, A/A tests, and the first cell to reach the target.

    If cells could be compared but the grid has no baseline, the last fact says so.
    """
    timed = [
        (fact, results.label(cell))
        for cell, pair in zip(results.cells, pairs, strict=True)
        if not pair.is_aa_test and (fact := epoch_time(pair))
    ]
    timed.sort(key=lambda each: each[0].seconds)
    facts: list[Fact] = [fact for fact, _ in timed]
    if len(timed) > 1:
        (fastest, name), (slowest, slowest_name) = timed[0], timed[-1]
        ends = fastest.low, fastest.high
        facts = [CellTimesFact(len(timed), name, fastest.seconds, *ends, slowest_name, slowest.seconds)]
    facts += [
        aa_test(pair, pair.baseline, pair.speedup)
        for pair in pairs
        if pair.is_aa_test and pair.baseline and pair.speedup
    ]
    if results.target:
        names = [(results.label(cell), pair) for cell, pair in zip(results.cells, pairs, strict=True)]
        reached = [
            (estimate.seconds, TargetSide(name, estimate.seconds, estimate.successes, estimate.tries))
            for name, pair in names
            if (estimate := pair.other.to_target) and estimate.seconds is not None
        ]
        if reached:
            _, side = min(reached, key=lambda each: each[0])
            facts = [*facts[: FEW - 1], TargetSummaryFact(results.target, (side,), len(names) > 1)]
    return [*facts, *(_no_baseline(results) if len(timed) > 1 else [])]


def _no_baseline(results: GridResults) -> list[Fact]:
    """Return a possible baseline: the first value of the first axis on which completed cells differ."""
    completed_cells = [] if results.baseline else [cell for cell in results.cells if results.completed(cell)]
    for axis in results.axes:
        values = {format_value(cell.axes[axis]): cell.axes[axis] for cell in completed_cells if axis in cell.axes}
        if len(values) > 1:
            return [NoBaselineFact(results.file or results.name, not results.file, axis, next(iter(values.values())))]
    return []
