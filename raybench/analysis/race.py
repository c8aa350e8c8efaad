"""Repeats until the best is known: which configurations of a grid still race after each repeat.

A configuration leaves when the report's own interval, which holds at each look, shows that it is worse than one that
stays. What is decided follows from the runs alone: a grid that was stopped goes on as if it had not been.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from statistics import fmean
from typing import NamedTuple

from raybench.analysis.answer import Criterion, Ratio
from raybench.analysis.best import Scale, scales
from raybench.analysis.measured import Measured, by_job, measure_all
from raybench.analysis.ratios import quality_difference
from raybench.core.job import is_accuracy
from raybench.core.repeats import RepeatRule
from raybench.results.grid_request import GridRequest
from raybench.results.metrics import main_metric
from raybench.results.run_table import Run

WORSE = {
    Criterion.FASTEST: "slower",
    Criterion.FIRST_TO_TARGET: "slower to the target",
    Criterion.CHEAPEST: "more expensive",
}
"""By the criterion of a race, what a configuration that leaves is shown to be."""


TOO_LOSSY = "too much worse in quality"


@dataclass(frozen=True)
class Quality:
    """The metric in which the best may lose little: `sign` is 1 if more of it is better, -1 if less is."""

    metric: str
    sign: int


@dataclass(frozen=True)
class Departure:
    """Why a configuration left the race: after so many repeats, shown to be worse than another; None: it has no result.

    Attributes:
        worse: such as `slower`.
    """

    repeats: int
    than: int | None
    worse: str

    def in_words(self, labels: Sequence[str]) -> str:
        """Return a text such as `shown to be slower than batch 128`."""
        return self.worse if self.than is None else f"shown to be {self.worse} than {labels[self.than]}"


class Rival(NamedTuple):
    """A configuration that is not shown to be worse than the best so far.

    Attributes:
        leader: index of that.
        ratio: how much better that is; None if not known.
    """

    leader: int
    ratio: Ratio | None


@dataclass(frozen=True)
class Race:
    """A race after some repeats of a grid.

    Attributes:
        racing: indices of configurations that are not shown to be worse than another.
        departures: the others, by index.
        looks: number of repeats at the last look.
        rivals: by index of each that races, if its job has a best one that is not it.
        keepers: indices of those shown to keep the quality.
        is_over: whether one is left in each job, or all that are left are shown to differ little from the best.
    """

    racing: frozenset[int]
    departures: Mapping[int, Departure] = field(default_factory=dict)
    looks: int = 0
    rivals: Mapping[int, Rival] = field(default_factory=dict)
    keepers: frozenset[int] = frozenset()
    is_over: bool = False

    def after(
        self, measured: Sequence[Measured], repeats: int, rule: RepeatRule, quality: Quality | None = None
    ) -> Race:
        """Return the race after a further repeat.

        Args:
            measured: all configurations, with the runs so far.
            quality: in which the best may lose at most `rule.max_loss`.
        """
        race, is_over = replace(self, looks=repeats, rivals={}), True
        for of_job in by_job(measured).values():
            race = race._of_job(of_job, rule, quality)
            racing = [cell.index for cell in of_job if cell.index in race.racing]
            rivals = [race.rivals[index] for index in racing if index in race.rivals]
            is_over &= len(rivals) == max(0, len(racing) - 1) and all(_is_near(rival.ratio, rule) for rival in rivals)
        return replace(race, is_over=is_over)

    def _of_job(self, measured: Sequence[Measured], rule: RepeatRule, quality: Quality | None) -> Race:
        racing = [cell for cell in measured if cell.index in self.racing]
        failed = [cell.index for cell in racing if not (cell.completed or cell.times or cell.tries)]
        departures = {index: Departure(self.looks, None, "without a result") for index in failed}
        racing = [cell for cell in racing if cell.index not in departures]
        keepers, best_quality = {cell.index for cell in racing}, None
        if rule.max_loss is not None and quality:
            best_quality, keepers, losing = _by_quality(racing, rule.max_loss, quality)
            keepers |= self.keepers
            departures |= {index: Departure(self.looks, best_quality, TOO_LOSSY) for index in losing - keepers}
        scale = _scale(racing, rule)
        costs = {} if scale is None else {index: scale.costs[index] for index in scale.costs if index not in departures}
        leader = min(keepers & costs.keys(), key=lambda index: costs[index], default=None)
        race = replace(self, keepers=self.keepers | keepers if rule.max_loss is not None else self.keepers)
        if scale and leader is not None:
            by_index = {cell.index: cell for cell in racing}
            is_open = any(cell.index not in keepers and cell.index not in departures for cell in racing)
            ratios = {
                index: ratio if isinstance(ratio := scale.compare(by_index[leader], by_index[index]), Ratio) else None
                for index in by_index
                if index not in {leader, *departures}
            }
            for index, ratio in ratios.items():
                # The best quality is needed as long as it is open who keeps it.
                if _is_worse(ratio) and not (is_open and index == best_quality):
                    departures[index] = Departure(self.looks, leader, WORSE[scale.criterion])
            rivals = {
                index: Rival(leader, ratio if index in keepers else None)
                for index, ratio in ratios.items()
                if index not in departures
            }
            race = replace(race, rivals={**race.rivals, **rivals})
        return replace(race, racing=self.racing - departures.keys(), departures={**self.departures, **departures})


def _ends(ratio: Ratio | None) -> tuple[float, float]:
    """Return the ends of an interval, for these machines: more repeats say nothing about others of their models."""
    if ratio is None or ratio.low is None or ratio.high is None:
        return 0.0, math.inf
    low, high = ratio.these_low, ratio.these_high
    return (ratio.low, ratio.high) if low is None or high is None else (low, high)


def _is_worse(ratio: Ratio | None) -> bool:
    return _ends(ratio)[0] > 1 and not (ratio and ratio.holds_if_no_miss)


def _is_near(ratio: Ratio | None, rule: RepeatRule) -> bool:
    return _ends(ratio)[1] < 1 + (rule.within or 0.0) and not (ratio and ratio.holds_if_no_miss)


def _scale(racing: Sequence[Measured], rule: RepeatRule) -> Scale | None:
    """Return the criterion of a race; None as long as it cannot be computed, as before a run reached the target."""
    by_criterion = {scale.criterion: scale for scale in scales(racing)}
    first = Criterion.FIRST_TO_TARGET if any(cell.tries for cell in racing) else Criterion.FASTEST
    return by_criterion.get(Criterion.CHEAPEST if rule.by_price else first) if first in by_criterion else None


def _by_quality(racing: Sequence[Measured], max_loss: float, quality: Quality) -> tuple[int | None, set[int], set[int]]:
    """Return the configuration of the best quality, those shown to keep it, and those shown to lose too much."""
    means = {
        cell.index: quality.sign * fmean(run.value for run in samples)
        for cell in racing
        if (samples := cell.qualities.get(quality.metric))
    }
    if not means:
        return None, {cell.index for cell in racing}, set()
    best = max(means, key=lambda index: means[index])
    limit = max_loss * (1.0 if is_accuracy(quality.metric) else abs(means[best]))
    by_index = {cell.index: cell for cell in racing}
    keepers, losing = {best}, set()
    for cell in racing:
        lost = None if cell.index == best else quality_difference(by_index[best], cell, quality.metric)
        if lost and lost.low is not None and lost.high is not None:
            low, high = sorted((quality.sign * lost.low, quality.sign * lost.high))
            keepers |= {cell.index} if high <= limit else set()
            losing |= {cell.index} if low > limit else set()
    return best, keepers, losing


def race_of(attempts: Iterable[Run], request: GridRequest) -> Race:
    """Return the race of a grid after the last repeat that all configurations of it have ended."""
    rule, attempts = request.rule, list(attempts)
    assert rule
    race = Race(frozenset(index for index, cell in enumerate(request.cells) if not cell.skip))
    for repeats in range(rule.at_least, rule.at_most + 1):
        if race.is_over:
            break
        cells = [replace(cell, repeats=min(repeats, cell.repeats)) for cell in request.cells]
        # Only the runs so far, since further ones can change the unit of work and how a run's time is taken.
        so_far = [run for run in attempts if run.repeat < repeats]
        measured, _ = measure_all(so_far, replace(request, cells=cells))
        ended = {cell.index: {run.repeat for run in cell.ended} for cell in measured}
        if any(not ended[index] >= {*range(cells[index].repeats)} for index in race.racing):
            break
        quality = None
        if rule.max_loss is not None:
            metric = main_metric(dict.fromkeys(name for cell in measured for name in cell.qualities), request.metric)
            sign = request.direction(metric).sign
            quality = Quality(metric, sign) if metric and sign else None
        race = race.after(measured, repeats, rule, quality)
    return race
