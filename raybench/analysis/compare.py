"""Two versions of one grid: which configurations have become slower, lost quality, or do not run any more."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any

from raybench.analysis.analyze import analyze, error_text
from raybench.analysis.answer import Caution, Difference, Ratio, Unit
from raybench.analysis.intervals import ALPHA, Estimate, difference, mean, quantile
from raybench.analysis.matching import Matching
from raybench.analysis.measured import Measured, measure_all
from raybench.analysis.ratios import ACCURACY_MARGIN, as_difference, as_ratio, cost_summary
from raybench.core.cell import BASE, NEW, VERSION_AXIS
from raybench.core.labels import configuration_label
from raybench.core.status import TrialStatus
from raybench.core.text import format_value
from raybench.results import timing
from raybench.results.attempt import Attempt
from raybench.results.grid_request import GridRequest

FEW_CONFIGURATIONS = 4
"""Up to so many configurations each is tested at 5%; of more, so that 5% of so many false alarms are expected."""

MOST_REPEATS = 100
"""More repeats than this are not proposed."""


class Verdict(StrEnum):
    """The conclusion for a configuration."""

    MISSING = "no completed run of new"
    SLOWER = "slower"
    WORSE = "lower quality"
    WITHIN = "within the limit"
    INCONCLUSIVE = "inconclusive"

    @property
    def fails(self) -> bool:
        """Whether the new version must not pass."""
        return self in (Verdict.MISSING, Verdict.SLOWER, Verdict.WORSE)


@dataclass(frozen=True)
class Change:
    """A configuration in both versions.

    Attributes:
        base_s, new_s: steady seconds per unit of work; None without a completed run.
        speed: new relative to base, above 1 if new is faster; None without times of both.
        quality: the metric of new minus that of base; None if not logged.
        quality_kept: whether non-inferiority within the limit is shown; None if the metric has no limit.
        reason: why it is inconclusive or missing; empty otherwise.
        repeats: about how many repeats would decide it; None if not known or too many.
        more_s: wall time of the repeats that are missing for that.
    """

    label: str
    base_s: float | None
    new_s: float | None
    speed: Ratio | None
    verdict: Verdict
    quality: Difference | None = None
    quality_kept: bool | None = None
    reason: str = ""
    repeats: int | None = None
    more_s: float | None = None


@dataclass(frozen=True)
class ChangedValue:
    """Something that differs between the two versions, such as `torch` or `driver`."""

    name: str
    base: tuple[str, ...]
    new: tuple[str, ...]


@dataclass(frozen=True)
class Limits:
    """What is accepted of the new version.

    Attributes:
        slowdown: accepted increase of the time, as a fraction.
        quality_loss: accepted loss of the metric, in its unit; None for that of its kind: 0.01 for an accuracy.
        strict: whether slower needs the whole 95% interval above the limit.
    """

    slowdown: float = 0.05
    quality_loss: float | None = None
    strict: bool = False


@dataclass(frozen=True)
class Comparison:
    """A comparison of two versions of one grid.

    Attributes:
        unit: of the times.
        metric: of quality; empty if none was logged.
        changes: the configurations that base has, in its order.
        only_in_new: labels of configurations that base does not have.
        differences: what changed between the versions besides times and quality.
        same_runs: whether both versions have the same runs.
        cautions: those of the runs of both.
    """

    limits: Limits
    unit: Unit
    metric: str
    changes: tuple[Change, ...]
    only_in_new: tuple[str, ...] = ()
    differences: tuple[ChangedValue, ...] = ()
    same_runs: bool = False
    cautions: tuple[Caution, ...] = ()

    @property
    def fails(self) -> bool:
        """Whether the new version must not pass: something is slower, of lower quality, missing, or nothing matched."""
        return not self.changes or any(each.verdict.fails for each in self.changes)


Source = tuple[Sequence[Attempt], GridRequest]
"""The attempts of a grid, and its request."""


def as_versions(base: Source, new: Source) -> Source:
    """Return results of two sessions as one grid with the axis `version`."""
    attempts: list[Attempt] = []
    cells = []
    for version, (own_attempts, request) in ((BASE, base), (NEW, new)):
        attempts += [replace(each, trial=f"{version}-{each.trial}") for each in own_attempts]
        cells += [
            replace(cell, cell_id=f"{version}-{cell.cell_id}", axes={**cell.axes, VERSION_AXIS: version})
            for cell in request.cells
        ]
    return attempts, replace(new[1], cells=cells, baseline={VERSION_AXIS: BASE})


def compare(attempts: Sequence[Attempt], request: GridRequest, limits: Limits | None = None) -> Comparison:
    """Compare the versions of a grid with the axis `version`.

    A configuration is slower if the mean of log(new/base) is above the log of the limit and, by a one-sided test at 5%,
    above 0; with `strict` if the whole 95% interval is above the limit. Runs that alternated are compared in pairs.
    With more than 4 configurations the tests are stricter, so that the expected number of false alarms stays the same.

    Args:
        attempts: all attempts of both versions.
        request: of the grid with both versions (`as_versions`).
        limits: what is accepted.
    """
    limits = limits or Limits()
    measured, unit, _ = measure_all(attempts, request)
    matching = Matching(measured, {VERSION_AXIS: BASE})
    pairs = {first: second for second, first in matching.sets(VERSION_AXIS, NEW, BASE)}
    answer = analyze(attempts, request, {VERSION_AXIS: BASE})
    metric = answer.metric
    bases = [each for each in measured if format_value(each.axes.get(VERSION_AXIS)) == BASE]
    alpha = ALPHA * min(1.0, FEW_CONFIGURATIONS / max(1, len(bases)))
    axes = [axis for axis in matching.axes if axis != VERSION_AXIS]
    labels = [configuration_label(each.axes, axes) or request.workload for each in measured]
    both = [(base, measured[pairs[base.index]] if base.index in pairs else None) for base in bases]
    in_pairs = {new.index for _, new in both if new}
    return Comparison(
        limits,
        unit,
        metric,
        tuple(
            _change(labels[base.index], base, new, metric, answer.higher_is_better, limits, alpha) for base, new in both
        ),
        tuple(
            labels[each.index]
            for each in measured
            if each.index not in in_pairs and format_value(each.axes.get(VERSION_AXIS)) == NEW
        ),
        tuple(_differences([(base, new) for base, new in both if new])),
        _are_same([(base, new) for base, new in both if new]),
        answer.trust.cautions,
    )


def _change(
    label: str,
    base: Measured,
    new: Measured | None,
    metric: str,
    higher_is_better: bool,
    limits: Limits,
    alpha: float,
) -> Change:
    seconds = [summary.value if (summary := cost_summary(each.times)) else None for each in (base, new) if each]
    base_s, new_s = seconds[0], seconds[1] if new else None
    if base.completed and (new is None or not new.completed):
        return Change(label, base_s, None, None, Verdict.MISSING, reason=_ending(new))
    if new is None or not base.times or not new.times:
        return Change(label, base_s, new_s, None, Verdict.INCONCLUSIVE, reason="no time of a completed run of base")
    floor = max(base.time_rounding, new.time_rounding)
    slowdown = _paired(new.times, base.times, floor)
    runs = len(new.times), len(base.times)
    speed = as_ratio(replace(slowdown, value=-slowdown.value), runs=runs)
    verdict, reason = _verdict(slowdown, limits, alpha)
    quality, kept, is_worse = _quality(base, new, metric, higher_is_better, limits, alpha)
    if is_worse and verdict is not Verdict.SLOWER:
        verdict, reason = Verdict.WORSE, ""
    change = Change(label, base_s, new_s, speed, verdict, quality, kept, reason)
    if verdict is not Verdict.INCONCLUSIVE or slowdown.error is None:
        return change
    repeats = _repeats_needed(slowdown, min(runs), math.log1p(limits.slowdown), alpha)
    wall = [timing.total(run) or 0.0 for run in (*base.completed, *new.completed)]
    more = None if repeats is None else (repeats - min(runs)) * 2 * sum(wall) / max(1, len(wall))
    return replace(change, repeats=repeats, more_s=more)


def _paired(new: Sequence[Any], base: Sequence[Any], floor: float) -> Estimate:
    """Return the mean of log(new/base), in pairs if each repeat of one ran next to that of the other."""
    times = sorted((each.started or 0.0, name) for name, side in enumerate((base, new)) for each in side)
    neighbours = {frozenset(name for _, name in times[first : first + 2]) for first in range(0, len(times), 2)}
    by_repeat = [{each.repeat: each.value for each in side} for side in (new, base)]
    repeats = by_repeat[0].keys() & by_repeat[1].keys()
    one_host = len({each.host for each in (*new, *base)}) == 1
    if one_host and len(repeats) > 1 and len(new) == len(base) == len(repeats) and neighbours == {frozenset((0, 1))}:
        return replace(
            mean([by_repeat[0][each] - by_repeat[1][each] for each in sorted(repeats)], 2 * floor), paired=True
        )
    estimate = difference(new, base, floor=floor)
    assert estimate is not None
    return estimate


def _verdict(slowdown: Estimate, limits: Limits, alpha: float) -> tuple[Verdict, str]:
    """Return the verdict on log(new/base), and the reason of one that is inconclusive."""
    limit = math.log1p(limits.slowdown)
    ends = slowdown.interval()
    if ends is None or slowdown.df is None or slowdown.error is None:
        return Verdict.INCONCLUSIVE, "one run of a version gives no interval"
    certain = slowdown.value > quantile(slowdown.df, 1 - alpha) * slowdown.error
    if (ends[0] > limit) if limits.strict else (slowdown.value > limit and certain):
        return Verdict.SLOWER, ""
    upper = slowdown.value + quantile(slowdown.df, 1 - ALPHA) * slowdown.error
    if upper <= limit:
        return Verdict.WITHIN, ""
    return Verdict.INCONCLUSIVE, f"it may be up to {math.expm1(upper):.0%} slower"


def _quality(
    base: Measured, new: Measured, metric: str, higher_is_better: bool, limits: Limits, alpha: float
) -> tuple[Difference | None, bool | None, bool]:
    """Return the difference of quality, whether it is shown to be kept, and whether a loss is shown."""
    sides = new.qualities.get(metric, ()), base.qualities.get(metric, ())
    floor = max(new.quality_rounding.get(metric, 0.0), base.quality_rounding.get(metric, 0.0))
    estimate = None if new.stops or base.stops else difference(*sides, floor=floor)
    if estimate is None:
        return None, None, False
    found = as_difference(estimate, metric, (len(sides[0]), len(sides[1])))
    loss_limit = limits.quality_loss
    if loss_limit is None and metric.endswith("/accuracy"):
        loss_limit = ACCURACY_MARGIN
    if estimate.error is None or estimate.df is None or loss_limit is None:
        return found, None, False
    loss = -estimate.value if higher_is_better else estimate.value
    is_worse = loss > loss_limit and loss > quantile(estimate.df, 1 - alpha) * estimate.error
    return found, loss + quantile(estimate.df, 1 - ALPHA) * estimate.error < loss_limit, is_worse


def _repeats_needed(slowdown: Estimate, runs: int, limit: float, alpha: float) -> int | None:
    """Return about how many repeats would show on which side of the limit a change is."""
    distance = abs(limit - slowdown.value)
    if not slowdown.error or not distance:
        return None
    sd = slowdown.error * math.sqrt(runs)
    for repeats in range(runs + 1, MOST_REPEATS + 1):
        if quantile(repeats - 1, 1 - alpha) * sd / math.sqrt(repeats) < distance:
            return repeats
    return None


def _ending(new: Measured | None) -> str:
    """Return why a configuration of the new version has no completed run."""
    if new is None:
        return "new does not have it"
    endings = [run for run in new.attempts if run.status != TrialStatus.COMPLETED]
    if not endings:
        return "none of its runs was started"
    message = error_text(endings[0])
    return f"{endings[0].status or 'unfinished'}{f': {message}' if message else ''}"


def _are_same(pairs: Sequence[tuple[Measured, Measured]]) -> bool:
    """Return whether both versions have the same runs."""
    sides = [
        {(run.run or run.trial.partition("-")[2], run.started, timing.steady(run)) for run in _runs(pairs, number)}
        for number in range(2)
    ]
    return bool(sides[0]) and sides[0] == sides[1]


def _runs(pairs: Sequence[tuple[Measured, Measured]], number: int) -> Iterator[Attempt]:
    for pair in pairs:
        yield from pair[number].completed


def _differences(pairs: Sequence[tuple[Measured, Measured]]) -> Iterator[ChangedValue]:
    """Yield what differs between the runs of both versions: software, machine, fields of their cells."""
    sides = [_values(_runs(pairs, number)) for number in range(2)]
    for name in dict.fromkeys([*sides[0], *sides[1]]):
        values = [tuple(sorted(side.get(name, ()))) for side in sides]
        if values[0] != values[1]:
            yield ChangedValue(name, *values)


def _values(runs: Iterable[Attempt]) -> Mapping[str, set[str]]:
    values: dict[str, set[str]] = {}

    def add(name: str, value: Any) -> None:
        if value not in (None, ""):
            values.setdefault(name, set()).add(format_value(value))

    for run in runs:
        for program, version in run.versions.items():
            add(program, version)
        add("driver", run.hardware.get("driver"))
        for name in ("name", "kernel", "boot"):
            add(f"host.{name}", run.host.get(name))
        for name, value in run.cell.leaves().items():
            if name != "version" and not name.startswith("compared."):
                add(name, value)
    return values
