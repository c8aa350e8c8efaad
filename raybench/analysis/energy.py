"""Energy of a grid's cells: joules per epoch, per example and to the target, with intervals like those of times."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from statistics import fmean, geometric_mean

from raybench.analysis.samples import samples_of, values_by_repeat
from raybench.analysis.statistics.speedup import Speedup, speedup
from raybench.analysis.statistics.time_to_target import (
    Expected,
    TargetAttempt,
    expected,
    target_attempt_of,
    with_missing_epochs,
)
from raybench.core.job import Target
from raybench.results import energy
from raybench.results.attempt import Attempt

JOULES_PER_KWH = 3.6e6


@dataclass(frozen=True)
class CellEnergy:
    """Joules of a cell's completed runs.

    Attributes:
        epoch: of the device in a steady epoch, geometric mean over runs.
        low, high: its minimum and maximum.
        host_epoch: of the accelerator's host in a steady epoch, mean over runs; None if not measured.
        example: of the device per training example, geometric mean; None if the number of examples is not known.
        target: of the device to reach the target; its `seconds`, `low` and `high` are joules. None without a target, or
            if a run towards it was not measured.
        price, gco2: price and grams of CO2 of a steady epoch, of the device and, if measured, its host; None if those
            of a kilowatt-hour are not given.
    """

    epoch: float
    low: float
    high: float
    host_epoch: float | None = None
    example: float | None = None
    target: Expected | None = None
    price: float | None = None
    gco2: float | None = None

    def priced(self, price_per_kwh: float | None, gco2_per_kwh: float | None) -> CellEnergy:
        """The same with the price and the CO2 of an epoch."""
        kwh = (self.epoch + (self.host_epoch or 0.0)) / JOULES_PER_KWH
        price, gco2 = (None if each is None else each * kwh for each in (price_per_kwh, gco2_per_kwh))
        return replace(self, price=price, gco2=gco2)


def cell_energy(runs: Sequence[Attempt], target: Target | None = None) -> CellEnergy | None:
    """The energy of a cell; None if none of its completed runs was measured."""
    epochs = epoch_energies(runs)
    if not epochs:
        return None
    hosts = values_by_repeat(runs, lambda run: energy.steady(run, energy.HOST)).values()
    examples = values_by_repeat(runs, energy.per_example).values()
    return CellEnergy(
        epoch=round(geometric_mean(epochs), 9),
        low=min(epochs),
        high=max(epochs),
        host_epoch=fmean(hosts) if hosts else None,
        example=geometric_mean(examples) if examples else None,
        target=expected(target_energies(runs, target)) if target else None,
    )


def energy_ratio(baseline: Sequence[Attempt], other: Sequence[Attempt]) -> Speedup | None:
    """How many times less energy the other cell uses per example or, if the examples are not known, per epoch.

    None if a side was not measured.
    """
    sides = [list(samples_of(runs, energy.per_example).values()) for runs in (baseline, other)]
    if not all(sides):
        sides = [list(samples_of(runs, energy.steady).values()) for runs in (baseline, other)]
    return speedup(*sides) if all(sides) else None


def target_energies(runs: Sequence[Attempt], target: Target) -> tuple[TargetAttempt, ...]:
    """The runs towards a target, with joules in place of seconds; empty if one of them was not measured."""
    tries = []
    for run in runs:
        attempt = target_attempt_of(run, target)
        if attempt is None:
            continue
        joules = energy.to_target(run) if attempt.reached else energy.total(run)
        if joules is None:
            return ()
        miss = with_missing_epochs(run, energy.total(run), energy.steady(run)) if attempt.reached else None
        tries.append(replace(attempt, seconds=joules, miss=miss))
    return tuple(tries)


def epoch_energies(runs: Sequence[Attempt]) -> tuple[float, ...]:
    """Joules per steady epoch of the completed runs that were measured."""
    return tuple(values_by_repeat(runs, energy.steady).values())
