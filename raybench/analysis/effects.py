"""The table of effects: what each value of each axis does to speed and quality."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from statistics import geometric_mean
from typing import Any

from raybench.analysis.answer import Effect, EffectPart, Ratio
from raybench.analysis.intervals import EffectEstimate, holm
from raybench.analysis.matching import JOB_AXES, Matching, amount
from raybench.analysis.measured import ENERGY, TIME, TIME_TO_TARGET, Measured, Pairs
from raybench.analysis.ratios import as_difference, as_ratio, scaled, shown_effect
from raybench.analysis.targets import target_ratio
from raybench.core.groups import grouped
from raybench.core.text import format_value
from raybench.devices import hosted

DEPENDENCE_ALPHA = 0.01
"""Level of all tests of dependence together; with that of the best configuration, 5% for a whole report."""

SPEED, QUALITY = " speed", " quality"  # names that no axis has


@dataclass(frozen=True)
class _Row:
    """An effect before its dependence on other axes is decided."""

    axis: str
    value: Any
    other: Any
    pairs: Pairs
    speed: EffectEstimate | None
    quality: Mapping[str, EffectEstimate]

    @property
    def timed(self) -> Pairs:
        """The matched sets of which both sides have a time."""
        return [pair for pair in self.pairs if all(side.times for side in pair)]


def effects(
    configurations: Sequence[Measured], matching: Matching, metrics: Sequence[str], by_quality: bool = False
) -> list[Effect]:
    """Return a row per axis and value other than the baseline's.

    The axis with the largest effect is first: on the first metric if it decides (`by_quality`), else on the time to the
    target, else on the speed.
    """
    rows = []
    for axis, values in matching.axes.items():
        baseline = matching.baseline.get(axis, values[0])
        for value in () if axis in matching.ties or axis in JOB_AXES else values:
            if format_value(value) != format_value(baseline):
                pairs = [(configurations[a], configurations[b]) for a, b in matching.sets(axis, value, baseline)]
                quality = {metric: estimate for metric in metrics if (estimate := shown_effect(metric, pairs))}
                rows.append(_Row(axis, value, baseline, pairs, _cost_effect(TIME, pairs), quality))
    shown = _dependences(rows, matching, metrics)
    axes = {number: axis for number, axis in reversed(shown) if axis in matching.axes}  # that with the smallest p
    effects_made = [
        _effect(row, matching, metrics, axes.get(number), {kind for place, kind in shown if place == number})
        for number, row in enumerate(rows)
        if row.speed or row.quality
    ]
    decisive = metrics[0] if by_quality and metrics else ""
    sizes = grouped((effect.axis, _size(effect, decisive)) for effect in effects_made)
    return sorted(effects_made, key=lambda effect: -max(sizes[effect.axis]))


def _cost_effect(quantity: str, pairs: Pairs, is_choice: bool = True) -> EffectEstimate | None:
    """Return the effect on the logs of costs: of the others ÷ the own."""
    return shown_effect(quantity, [(reference, cell) for cell, reference in pairs], is_choice)


def _efficiency(pairs: Pairs, amounts: tuple[float, float] | None, runs: tuple[int, int]) -> Ratio | None:
    """Return the speed-up ÷ increase of the amount; None without amounts.

    Amounts are not chosen by their results, so its interval is that of one comparison.
    """
    if amounts is None or (single := _cost_effect(TIME, pairs, is_choice=False)) is None:
        return None
    return scaled(as_ratio(single.mean, runs), amounts[1] / amounts[0])


def _dependences(rows: Sequence[_Row], matching: Matching, metrics: Sequence[str]) -> list[tuple[int, str]]:
    """Return the axes on which effects are shown to depend, with the number of the row, the smallest p first.

    `SPEED` and `QUALITY` instead of an axis: that effect is shown to differ between sets. Holm's correction is over all
    tests of the report.
    """
    probabilities: dict[tuple[int, str], float] = {}
    qualities = [row.quality.get(metrics[0]) if metrics else None for row in rows]
    for kind, estimates in ((SPEED, [row.speed for row in rows]), (QUALITY, qualities)):
        tables = {number: estimate.table for number, estimate in enumerate(estimates) if estimate and estimate.table}
        df = sum(table.df for table in tables.values())
        residual = sum(table.ms_residual * table.df for table in tables.values()) / max(1, df)
        probabilities |= {(number, kind): table.p_of_sets(residual) for number, table in tables.items()}
        for (number, table), axis in product(tables.items(), matching.axes):
            row = rows[number]
            groups = [format_value(cell.axes.get(axis)) for cell, _ in row.timed]
            names = sorted(set(groups))
            is_tested = axis != row.axis and axis not in matching.ties and len(groups) == table.values.shape[1]
            if is_tested and len(names) > 1:
                p = table.dependence([names.index(group) for group in groups], residual)
                probabilities[number, axis] = min(p, probabilities.get((number, axis), 1.0))
    return holm(probabilities, DEPENDENCE_ALPHA)


def _amounts(row: _Row) -> tuple[float, float] | None:
    """Return the two amounts of hardware; None if the axis is none, or if processes share the cores of fewer."""
    amount_here, amount_there = amount(row.axis, row.value), amount(row.axis, row.other)
    cores = [[_cores(side) for side in side] for side in zip(*row.pairs, strict=True)]
    is_same = row.axis == "count" and None not in cores[0] and cores[0] == cores[1]
    return (amount_here, amount_there) if amount_here and amount_there and not is_same else None


def _cores(measured: Measured) -> int | None:
    """Return the cores that the threads of all processes use; None on accelerators, or if unknown."""
    device = measured.attempts[0].cell.device if measured.attempts and measured.attempts[0].cell else None
    if device is None or not hosted(device.kind) or not device.threads:
        return None
    return device.world_size * max(1, device.threads // device.world_size)


def _effect(
    row: _Row, matching: Matching, metrics: Sequence[str], depends_on: str | None, differing: Collection[str]
) -> Effect:
    cell, reference = row.pairs[0]
    has_jobs = len({cell.job for cell, _ in row.pairs}) > 1
    job_axis = next((axis for axis in JOB_AXES if axis in matching.axes), "") if has_jobs else ""
    axis, main = job_axis or depends_on or "", metrics[0] if metrics else ""
    ratios = [math.exp(estimate.value) for estimate in row.speed.sets] if row.speed else []
    opposite = row.speed is not None and row.speed.changes_sign(SPEED in differing)
    least = min((len(side.times) or len(side.completed) for pair in row.timed or row.pairs for side in pair), default=0)
    runs = least, least
    points = [estimate.value for estimate in row.quality[main].sets] if main in row.quality else []
    speed = as_ratio(row.speed.mean, runs) if row.speed and not job_axis and not opposite else None
    amounts = _amounts(row) if speed else None
    prices = [(cell.price_per_hour or 0.0, reference.price_per_hour or 0.0) for cell, reference in row.timed]
    dearer = geometric_mean(price / base for price, base in prices) if amounts and all(map(all, prices)) else None
    joules = _cost_effect(ENERGY, row.pairs) if amounts else None
    return Effect(
        axis=row.axis,
        value=row.value,
        other=row.other,
        sets=len(row.speed.sets) if row.speed else len(row.pairs),
        runs=least,
        speed=speed,
        to_target=None if job_axis else _to_target(row.pairs),
        efficiency=_efficiency(row.pairs, amounts, runs),
        price=scaled(speed, 1 / dearer) if speed and dearer else None,
        energy=as_ratio(joules.mean, runs) if joules else None,
        least=min(ratios, default=None),
        most=max(ratios, default=None),
        varies=bool(axis) or opposite,
        parts=_parts(row, axis, _amounts(row), main) if axis else (),
        quality={
            metric: as_difference(estimate.mean, metric, runs)
            for metric, estimate in row.quality.items()
            if not (job_axis and len(estimate.sets) > 1)
            and not (metric == main and estimate.changes_sign(QUALITY in differing))
        },
        quality_least=min(points, default=None),
        quality_most=max(points, default=None),
        tied={
            name: cell.axes[name]
            for name, master in matching.ties.items()
            if master == row.axis and name in cell.axes and cell.axes[name] != reference.axes.get(name)
        },
    )


def _parts(row: _Row, axis: str, amounts: tuple[float, float] | None, metric: str) -> tuple[EffectPart, ...]:
    parts = []
    for pairs in grouped((format_value(pair[0].axes.get(axis)), pair) for pair in row.pairs).values():
        least = min(len(side.times) for pair in pairs for side in pair)
        runs = least, least
        speed = as_ratio(part.mean, runs) if (part := _cost_effect(TIME, pairs)) else None
        quality = shown_effect(metric, pairs) if metric in row.quality else None
        difference = as_difference(quality.mean, metric, runs) if quality else None
        parts.append(EffectPart(axis, pairs[0][0].axes.get(axis), speed, _efficiency(pairs, amounts, runs), difference))
    return tuple(parts)


def _to_target(pairs: Pairs) -> Ratio | None:
    """Return the effect on the time to the target; None if a side of a set never reached it, as it then has no time.

    It has an interval if no run missed it.
    """
    ratios = [ratio for cell, reference in pairs if (ratio := target_ratio(cell, reference))]
    if not ratios or len(ratios) < len(pairs):
        return None
    if len(ratios) == 1:
        return ratios[0]
    tries = [side.tries for pair in pairs for side in pair]
    runs, estimate = min(map(len, tries)), _cost_effect(TIME_TO_TARGET, pairs)
    if estimate and estimate.changes_sign():
        return None
    if estimate and all(run.reached for target_runs in tries for run in target_runs):
        return as_ratio(estimate.mean, (runs, runs))
    return Ratio(geometric_mean(ratio.value for ratio in ratios), None, None, runs, runs)


def _size(effect: Effect, metric: str = "") -> float:
    """Return the size of an effect on a metric, the time to the target or the speed."""
    if metric:
        difference = effect.quality.get(metric)
        values = [difference.value] if difference else [effect.quality_least or 0.0, effect.quality_most or 0.0]
    else:
        mean = effect.to_target or effect.speed
        values = [math.log(ratio) for ratio in ([mean.value] if mean else [effect.least, effect.most]) if ratio]
    return max(map(abs, values), default=0.0)
