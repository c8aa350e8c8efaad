"""One grid over time: the level of each configuration's time, and since when it is different.

The runs of one execution, such as those of a night, are one number: nights have conditions of their own, so that their
runs are not independent. After each execution, a rank test (Pettitt's) looks for a change since the last one; its most
likely place is by least squares. The level makes up for the looks of 60 nights: by simulation, 3 to 5% of series of
independent nights without a change have an alarm, also with heavy tails and with nights that are far too slow.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from itertools import pairwise
from statistics import fmean

import numpy as np

from raybench.analysis.answer import Ratio, Summary, Unit
from raybench.analysis.changed_values import ChangedValue, changed_values
from raybench.analysis.intervals import Estimate, Sample, difference, explained, quantile
from raybench.analysis.matching import Matching
from raybench.analysis.measured import Measured, Source, as_one_grid, measure_all
from raybench.analysis.ratios import as_ratio, cost_summary
from raybench.core.labels import configuration_label
from raybench.results.executions import MILLISECONDS, as_name
from raybench.results.grid_request import GridRequest
from raybench.results.history import GridHistory

LOOK_ALPHA = 2.5e-4  # level of each look for a change; of several configurations divided by their number
BEGAN = "began"  # the axis of the executions: when each began


@dataclass(frozen=True)
class Session:
    """The runs of a configuration in one execution: when it began (UTC), and their seconds per unit of work."""

    began: str
    seconds: Summary


@dataclass(frozen=True)
class Level:
    """Successive sessions without a change.

    Attributes:
        since: when the first one began.
        sessions, runs: how many.
        seconds: geometric mean of the sessions.
        speed: relative to the level before, above 1 if faster; None for the first.
        differences: what else differs between the last session before and the first one.
    """

    since: str
    sessions: int
    runs: int
    seconds: float
    speed: Ratio | None = None
    differences: tuple[ChangedValue, ...] = ()


@dataclass(frozen=True)
class Trend:
    """A slow change, which describes the sessions better than its levels do.

    Attributes:
        per_week: speed after a week relative to that before; above 1 is faster.
    """

    per_week: Ratio


@dataclass(frozen=True)
class Series:
    """A configuration over time.

    Attributes:
        today: the speed of the last level, or at the end of the trend, relative to the first; None without a change.
        trend: None if the levels are steps.
    """

    label: str
    sessions: tuple[Session, ...]
    levels: tuple[Level, ...]
    today: Ratio | None = None
    trend: Trend | None = None

    def is_slower(self, by: float) -> bool:
        """Return whether it is shown to be slower than at first, and by more than a fraction."""
        return self.today is not None and self.today.is_significant and self.today.value < 1 / (1 + by)


@dataclass(frozen=True)
class OverTime:
    """A grid over time."""

    grid: str
    unit: Unit
    series: tuple[Series, ...]


def over_time(history: GridHistory) -> OverTime:
    """Return the configurations of a grid over its executions."""
    sources: list[tuple[str, Source]] = []
    for number, execution in enumerate(history.executions):
        request, begin = GridRequest.from_json(execution.request), execution.name[:MILLISECONDS]
        later = (newer.name for newer in history.executions[number + 1 :] if newer.origin == execution.origin)
        end = next(later, "~")[:MILLISECONDS]
        runs = [
            run
            for run in history.attempts.values()
            if run.origin == execution.origin and begin <= as_name(run.started or "")[:MILLISECONDS] < end
        ]
        if request and runs:
            sources.append((min(run.started or "" for run in runs)[:16].replace("T", " "), (runs, request)))
    attempts, last = as_one_grid(BEGAN, sources)
    measured, unit = measure_all(attempts, replace(last, rule=None, first_look=0))
    varied = [axis for axis in Matching(measured, {}).axes if axis != BEGAN]
    by_label: dict[str, list[Measured]] = {}
    for cell in measured:
        if cell.times:
            by_label.setdefault(configuration_label(cell.axes, varied) or last.workload, []).append(cell)
    series = []
    for label, group in by_label.items():
        sessions = [Session(str(cell.axes[BEGAN]), s) for cell in group if (s := cost_summary(cell.times))]
        series.append(series_of(label, sessions, group, LOOK_ALPHA / len(by_label)))
    return OverTime(last.name, unit, tuple(series))


def series_of(label: str, sessions: Sequence[Session], measured: Sequence[Measured], alpha: float) -> Series:
    """Return a configuration over time: its levels or its trend, and how fast it is today."""
    levels = tuple(_levels(measured, sessions, alpha))
    trend, today = _trend(sessions, levels), None
    if trend:
        weeks = (_day(sessions[-1]) - _day(sessions[0])) / 7
        value, low, high = (
            (ratio or 1.0) ** weeks for ratio in (trend.per_week.value, trend.per_week.low, trend.per_week.high)
        )
        today = replace(trend.per_week, value=value, low=low, high=high)
    elif len(levels) > 1:
        logs = [Sample(number, math.log(session.seconds.value)) for number, session in enumerate(sessions)]
        first, last = logs[: levels[0].sessions], logs[-levels[-1].sessions :]
        estimate = difference(first, last)
        today = as_ratio(estimate, runs=(len(last), len(first))) if estimate else None
    return Series(label, tuple(sessions), levels, today, trend)


def _day(session: Session) -> float:
    return datetime.fromisoformat(session.began).timestamp() / 86_400


def _trend(sessions: Sequence[Session], levels: Sequence[Level]) -> Trend | None:
    """Return a trend if all changes have one direction and a line describes the sessions better (BIC) than steps."""
    directions = {level.speed.value < 1 for level in levels[1:] if level.speed}
    days, logs = (np.array([_day(night) for night in sessions]), np.log([night.seconds.value for night in sessions]))
    count, spread = len(sessions), float(((days - days.mean()) ** 2).sum())
    if len(levels) < 3 or len(directions) != 1 or not spread:
        return None
    slope = float(((days - days.mean()) * logs).sum()) / spread
    of_line = float(((logs - logs.mean() - slope * (days - days.mean())) ** 2).sum())
    ends = np.cumsum([level.sessions for level in levels])[:-1]
    of_steps = sum(float(((part - part.mean()) ** 2).sum()) for part in np.split(logs, ends))

    def bic(squares: float, parameters: int) -> float:
        return count * math.log(squares) + parameters * math.log(count)

    if bic(of_line, 2) >= bic(of_steps, 2 * len(levels) - 1):  # a step has a place and a height
        return None
    estimate = Estimate(-7 * slope, 7 * math.sqrt(of_line / (count - 2) / spread), count - 2)
    return Trend(as_ratio(estimate, (count, count)))


def changes(values: Sequence[float], alpha: float) -> list[int]:
    """Return the positions of values, in the order of time, with which a new level begins.

    As found by looking after each of them, at this level.
    """
    positions, start = [], 0
    for end in range(1, len(values) + 1):
        recent, count = np.array(values[start:end]), end - start
        if count < 3:
            continue
        ordered = np.sort(recent)
        ranks = (np.searchsorted(ordered, recent) + np.searchsorted(ordered, recent, "right")) / 2
        share = 12 * float(explained(ranks).max()) / (count * (count**2 - 1))  # of the variance of ranks without ties
        if math.sqrt((count - 2) * share / (1 - share)) > quantile(count - 2, 1 - alpha / 2):
            start += int(explained(recent).argmax()) + 1
            positions.append(start)
    return positions


def _levels(measured: Sequence[Measured], sessions: Sequence[Session], alpha: float) -> Iterator[Level]:
    means = [Sample(number, math.log(session.seconds.value)) for number, session in enumerate(sessions)]
    first = 0
    for start, end in pairwise([0, *changes([sample.value for sample in means], alpha), len(means)]):
        level_means, before = means[start:end], means[first:start]
        estimate = difference(before, level_means)
        runs = sum(session.seconds.runs for session in sessions[start:end])
        seconds = math.exp(fmean(sample.value for sample in level_means))
        speed = as_ratio(estimate, runs=(len(level_means), len(before))) if estimate else None
        sides = [cell.completed for cell in measured[max(0, start - 1) : start + 1]]
        differences = tuple(changed_values(*sides)) if start else ()
        yield Level(sessions[start].began, len(level_means), runs, seconds, speed, differences)
        first = start
