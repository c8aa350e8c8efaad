"""How many repeats a grid needs until its comparisons are certain, and what its intervals then are.

A decision follows from the attempts so far alone, so that a grid that was stopped goes on by the same rule, and a
report has the very interval by which a comparison was settled.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from enum import IntEnum
from statistics import NormalDist
from typing import NamedTuple

from raybench.analysis.answer import Best, Configuration, Criterion, MoreRepeats, Verdict
from raybench.analysis.best import ranking
from raybench.analysis.intervals import ALPHA, REPEATED_LOOKS, Estimate, Stopping
from raybench.analysis.matching import Matching
from raybench.analysis.measured import TIME, Measured, measure_all
from raybench.analysis.race import Race, race_of
from raybench.analysis.ratios import compared
from raybench.core.cell import ANCHOR, BASE, NEW, VERSION_AXIS
from raybench.core.labels import configuration_label
from raybench.core.repeats import Progress, RepeatRule, percent, spread
from raybench.core.text import names_text, plural
from raybench.results.grid_request import GridRequest
from raybench.results.run_table import Run

EQUALLY_FAST = math.log1p(0.05)
"""Difference of logs of times within which `until: verdict` takes two configurations for equally fast."""


class Certainty(IntEnum):
    """Whether a comparison is certain enough; a final one decides about all of its grid."""

    OPEN = 0
    ENOUGH = 1
    FINAL = 2


class Look(NamedTuple):
    """A look at a comparison: whether it is certain enough, and its largest number of repeats."""

    certainty: Certainty
    most: int


IsCertain = Callable[[Measured, Measured, GridRequest], Look]
"""How certain a comparison of a configuration with its reference is, in the grid of a request."""

LOOK_FACTOR = 1.85
"""Factor of the levels of repeated looks: with it, a slow-down of exactly the limit is kept in 5% of comparisons."""


def look_level(repeats: int, most: int) -> float:
    """Return the level of a one-sided test at a look, by O'Brien and Fleming: strict at first, nearly 5% at last."""
    return NormalDist().cdf(-LOOK_FACTOR * math.sqrt(max(1.0, most / repeats)))


def _compared(
    measured: Sequence[Measured], matching: Matching, request: GridRequest
) -> Iterator[tuple[Measured, Measured]]:
    """Yield each configuration with the one that it is compared with; of versions, the new one with the others."""
    if not request.limits:
        for cell, reference in zip(measured, matching.references, strict=True):
            if reference not in (None, cell.index):
                yield cell, measured[reference or 0]
        return
    by_axes = Matching([replace(cell, job="") for cell in measured], {VERSION_AXIS: BASE})
    for version in (BASE, ANCHOR):
        yield from ((measured[new], measured[base]) for new, base in by_axes.sets(VERSION_AXIS, NEW, version))


def progress(
    measured: Sequence[Measured], matching: Matching, request: GridRequest, is_certain: IsCertain | None = None
) -> list[Progress]:
    """Return how far each comparison of a configuration with its reference is; none if the repeats are fixed."""
    rule = request.rule
    if rule is None:
        return []
    comparisons, is_final = [], False
    for cell, reference in _compared(measured, matching, request):
        if request.cells[cell.index].skip:
            continue
        estimate = compared(cell, reference, TIME)
        repeats = [{run.repeat for run in side.ended} for side in (cell, reference)]
        half, needed, count = estimate.half if estimate else None, None, len(set.intersection(*repeats))
        if estimate and estimate.alone:  # more repeats say nothing about other machines of these models
            estimate = estimate.alone
        narrow = Look(_is_narrow(estimate, rule), rule.at_most)
        reached, most = is_certain(cell, reference, request) if is_certain else narrow
        is_final |= reached is Certainty.FINAL and count >= rule.at_least
        if estimate and half is not None:
            away, limit = abs(estimate.value), (request.limits or {}).get("slowdown")
            margin = max(away, EQUALLY_FAST - away) if rule.until is None else rule.half
            if rule.until is None and isinstance(limit, float):  # of a version that has to be below it
                margin = abs(math.log1p(limit) - estimate.value)
            # What is narrow enough and still undecided, as on a busy machine, is not decided by more repeats.
            needed = None if is_certain and _is_narrow(estimate, rule) else estimate.repeats_until(margin, count)
        label = configuration_label(cell.axes, matching.axes) or request.workload
        cells = request.cells[cell.index], request.cells[reference.index]
        most = min(most, *(cell.repeats for cell in cells))
        ids, own_rule = (cells[0].cell_id, cells[1].cell_id), replace(rule, at_most=most)
        width = None if half is None else math.expm1(half)
        comparisons.append(Progress(label, ids, count, width, bool(reached), needed, own_rule))
    return [replace(comparison, reached=True) for comparison in comparisons] if is_final else comparisons


def progress_of(attempts: Sequence[Run], request: GridRequest, is_certain: IsCertain | None = None) -> list[Progress]:
    """Return how far each comparison is, from the attempts so far."""
    if request.rule and request.rule.is_race:
        return [*_race_progress(race_of(attempts, request), request)]
    measured, _ = measure_all(attempts, request)
    return progress(measured, Matching(measured, request.baseline, ranking(measured)), request, is_certain)


def _race_progress(race: Race, request: GridRequest) -> Iterator[Progress]:
    """Yield how far each configuration of a race is from being told from the best."""
    rule, cells = request.rule, request.cells
    if rule is None or not race.looks:
        return
    labels = _labels(request)
    for index, departure in race.departures.items():
        words = f"left after {plural(departure.repeats, 'repeat')}, {departure.in_words(labels)}"
        yield Progress(labels[index], (cells[index].cell_id,) * 2, departure.repeats, None, True, None, rule, words)
    leaders = {rival.leader for rival in race.rivals.values()}
    for index in sorted(race.racing - leaders):
        rival = race.rivals.get(index)
        leader = index if rival is None else rival.leader
        label = labels[index] if rival is None else f"{labels[index]} against {labels[leader]}"
        half, needed, words = math.inf, None, "not known yet whether it keeps the quality" if rule.max_loss else ""
        if rival and rival.ratio and rival.ratio.low and rival.ratio.high and rule.within:
            words = ""
            half, away = math.log(rival.ratio.high / rival.ratio.low) / 2, abs(math.log(rival.ratio.value))
            margin = max(away, math.log1p(rule.within) - away)
            if race.looks > rule.at_least:  # the first interval is far wider than the noise
                needed = max(race.looks + 1, math.ceil(race.looks * (half / margin) ** 2))
            half = math.expm1(half)
        ids = cells[index].cell_id, cells[leader].cell_id
        yield Progress(label, ids, race.looks, half, race.is_over, needed, rule, words)


def _labels(request: GridRequest) -> list[str]:
    axes = Matching([Measured(index, cell.axes) for index, cell in enumerate(request.cells)], {}).axes
    return [configuration_label(cell.axes, axes) or request.workload for cell in request.cells]


def _race_notes(race: Race, request: GridRequest) -> Iterator[str]:
    """Yield what the reader of a report should know of a race: which configurations left it, and how it ended."""
    rule, labels = request.rule, _labels(request)
    if rule is None or not race.looks:
        return
    groups: dict[tuple[int, str], list[str]] = {}
    for index, departure in race.departures.items():
        groups.setdefault((departure.repeats, departure.in_words(labels)), []).append(labels[index])
    for (repeats, words), names in groups.items():
        yield f"Left after {plural(repeats, 'repeat')}: {names_text(names)} ({words})"
    near = [labels[index] for index in sorted(race.rivals)]
    if race.is_over and near:
        yield f"All that were left are shown to be within {percent(rule.within or 0.0)} of the best: {names_text(near)}"
    elif race.looks >= rule.at_most and near:
        yield f"Not told apart in {plural(race.looks, 'repeat')}, the most that were allowed: {names_text(near)}"
    elif not race.is_over:
        yield f"The best is not known yet after {plural(race.looks, 'repeat')}"


def more_repeats(
    best: Best, configurations: Sequence[Configuration], measured: Sequence[Measured]
) -> MoreRepeats | None:
    """Return about how many more repeats would decide which of the fastest is the best; None if more would not.

    The report of more repeats allows for the look at these.
    """
    first, near = measured[best.configuration], best.indistinguishable
    if next(iter(best.ratios), None) is not Criterion.FASTEST or best.verdict is not Verdict.UNDECIDED or not near:
        return None
    most = 0
    for index in near:
        estimate = compared(first, measured[index], TIME)
        count = min(len(first.times), len(measured[index].times))
        if estimate is None or estimate.alone or count < 2:  # more repeats say nothing of other machines
            return None
        looks = Stopping.of(REPEATED_LOOKS, count)
        factor = (looks.paired if estimate.paired else looks.welch) / ALPHA
        away = abs(estimate.value)
        margin = max(away, EQUALLY_FAST - away)
        needed = replace(estimate, alpha=estimate.alpha * factor).repeats_until(margin, count)
        if needed is None:
            return None
        most = max(most, needed - count)
    chosen = best.configuration, *near
    seconds, prices = (
        [getattr(configurations[index], name) for index in chosen] for name in ("total_s", "total_price")
    )
    undecided = [cell for cell in measured if cell.job == first.job and cell.times and cell.index not in chosen]
    return MoreRepeats(
        chosen,
        most,
        most * len(chosen),
        most * sum(seconds) if None not in seconds else None,
        most * sum(prices) if None not in prices else None,
        is_rest_decided=bool(undecided) and not best.unproven and all(len(cell.times) > 1 for cell in undecided),
    )


def _is_narrow(estimate: Estimate | None, rule: RepeatRule) -> Certainty:
    """Return whether an interval is as narrow as the rule asks, or gives a verdict if it asks for that."""
    if estimate is None or estimate.half is None:
        return Certainty.OPEN
    if rule.half:
        return Certainty(estimate.half <= rule.half)
    return Certainty(abs(estimate.value) > estimate.half or estimate.is_within(EQUALLY_FAST))


def needed_repeats(progress: Iterable[Progress], request: GridRequest) -> Mapping[str, int]:
    """Return the number of repeats that each cell needs by what is known now: one more if a comparison is not settled.

    The configurations of a comparison go on together, so that they stay interleaved.
    """
    assert request.rule
    needed = {cell.cell_id: min(request.rule.at_least, cell.repeats) for cell in request.cells}
    for comparison in progress:
        for cell in () if comparison.is_settled else comparison.cells:
            needed[cell] = max(needed[cell], comparison.rule.look_after(comparison.tried))
    return needed


def with_needed_repeats(attempts: Sequence[Run], request: GridRequest) -> GridRequest:
    """Return a request of which each cell has the repeats that were begun, and not the largest number of its rule."""
    if request.rule is None:
        return request
    begun: dict[str, int] = {}
    for run in attempts:
        begun[run.cell_id] = max(run.repeat + 1, begun.get(run.cell_id, 0))
    least = request.rule.at_least
    cells = [replace(cell, repeats=min(cell.repeats, max(least, begun.get(cell.cell_id, 0)))) for cell in request.cells]
    return replace(request, cells=cells)


def notes(
    measured: Sequence[Measured], matching: Matching, request: GridRequest, race: Race | None = None
) -> Iterator[str]:
    """Yield what the reader of a report should know of its number of repeats."""
    if race:
        yield from _race_notes(race, request)
    if request.first_look:
        looks = f"Repeats were added after a report of {request.first_look}"
        yield f"{looks}: the intervals are wider, to allow for the repeated looks"
    if request.rule and request.rule.until is not None:
        wide = [
            f"{comparison.label} {spread(comparison.half)} in {comparison.tried} repeats"
            for comparison in progress(measured, matching, request)
            if comparison.half is not None
            and comparison.half > request.rule.until
            and comparison.tried >= request.rule.at_least
        ]
        if wide:
            yield f"Ratios less certain than ±{percent(request.rule.until)}: {names_text(wide)}"
