"""Ranking of a grid's devices, each at its best settings."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from statistics import geometric_mean

from raybench.analysis.comparison import baseline_indices, speedup_of
from raybench.analysis.grid_results import PLACE, GridResults
from raybench.analysis.pairs import CellSummary, Comparison
from raybench.analysis.statistics.speedup import Speedup, selected, speedup
from raybench.analysis.statistics.time_to_target import Expected, compare_targets, expected

HOUR = 3600


@dataclass(frozen=True)
class RankedDevice:
    """A device at its best settings.

    These are the settings with the shortest expected time to the target or, without one, with the most examples per
    second. A framework, precision or number of replicas that varies on a device is a part of its name.

    Attributes:
        device: its name.
        number: the index of its best cell.
        candidates: number of its cells from which that one was selected.
        is_baseline: whether the others are compared with this one.
        target: success rate and time to the target; None without a target.
        price: of one success at the target or, without a target, of an epoch; None without a price.
        energy: joules of one success at the target or, without a target, of an epoch; None if not measured.
        speedup: over the baseline at its best settings, with an interval that is corrected for the selection of both
            cells (Bonferroni); None for the baseline and without times.
    """

    device: str
    number: int
    candidates: int
    is_baseline: bool = False
    target: Expected | None = None
    price: float | None = None
    energy: float | None = None
    speedup: Speedup | None = None


def rank(results: GridResults, pairs: Sequence[Comparison]) -> list[RankedDevice]:
    """Return the devices of a grid, the best first; empty if fewer than two have times, or if they did other work.

    Devices on which no cell completed come last; those that were only skipped are left out.
    """
    numbers: dict[str, list[int]] = {}
    for number, (cell, pair) in enumerate(zip(results.cells, pairs, strict=True)):
        if not cell.aa_of and not pair.other.counts.none_ran:
            numbers.setdefault(results.places[cell.cell_id], []).append(number)
    sides = [pair.other for pair in pairs]
    targets = [side.to_target if results.target else None for side in sides]
    ranked = [_best(device, device_numbers, sides, targets) for device, device_numbers in numbers.items()]
    if sum(bool(sides[each.number].times) for each in ranked) < 2 or results.smoke or results.has_several_jobs:
        return []
    ranked.sort(key=lambda each: _order(each.number, sides, targets))
    return _compared(results, ranked, sides)


def best_first(results: GridResults, pairs: Sequence[Comparison]) -> list[int]:
    """Return the indices of all cells in the order of a ranking; cells without a time come last."""
    sides = [pair.other for pair in pairs]
    targets = [side.to_target if results.target else None for side in sides]
    return sorted(range(len(sides)), key=lambda number: _order(number, sides, targets))


def _order(number: int, sides: Sequence[CellSummary], targets: Sequence[Expected | None]) -> tuple[float, float]:
    """Return the sort key of a cell: time to the target, then time per example."""
    side, target = sides[number], targets[number]
    to_target = target.seconds if target and target.seconds is not None else float("inf")
    seconds = geometric_mean(side.times.values()) / (side.examples or 1) if side.times else float("inf")
    return to_target, seconds


def _best(
    device: str, numbers: Sequence[int], sides: Sequence[CellSummary], targets: Sequence[Expected | None]
) -> RankedDevice:
    best = min(numbers, key=lambda number: _order(number, sides, targets))
    side, target = sides[best], targets[best]
    candidates = max(
        1, sum(bool(sides[number].times) for number in numbers)
    )  # a cell without times may reach the target
    seconds = target.seconds if target else geometric_mean(side.times.values()) if side.times else None
    price = None if seconds is None or side.price_per_hour is None else side.price_per_hour * seconds / HOUR
    return RankedDevice(device, best, candidates, target=target, price=price, energy=_energy(side, bool(target)))


def _energy(side: CellSummary, to_target: bool) -> float | None:
    if to_target:
        estimate = expected(side.target_energies)
        return estimate.seconds if estimate else None
    return geometric_mean(side.energies) if side.energies else None


def _compared(results: GridResults, ranked: Sequence[RankedDevice], sides: Sequence[CellSummary]) -> list[RankedDevice]:
    """Add the speed-ups over the baseline device or, if no device is the baseline, over the last one."""
    timed = [each for each in ranked if sides[each.number].times]
    baseline = timed[-1]
    if set(PLACE) & set(results.compared_with):
        origins = baseline_indices(results.cells, results.compared_with)
        devices = [results.places[results.cells[origin].cell_id] for origin in origins if origin is not None]
        baseline = next((each for device in devices for each in timed if each.device == device), baseline)
    runs = [results.runs(results.cells[each.number]) for each in (baseline, *ranked)]
    compared = []
    for each, own_runs in zip(ranked, runs[1:], strict=True):
        ratio = None if each is baseline else speedup_of(runs[0], own_runs)
        corrected = selected(ratio, each.candidates * baseline.candidates) if ratio else None
        compared.append(replace(each, speedup=corrected, is_baseline=each is baseline))
    return compared


def time_to_target_ratio(first: RankedDevice, second: RankedDevice, sides: Sequence[CellSummary]) -> Speedup | None:
    """Return how many times faster the first device reaches the target than the second, each at its best settings.

    The interval is corrected for the selection of both cells. None without a success on each side.
    """
    attempts = [sides[each.number].target_attempts for each in (second, first)]
    # The best settings may differ, so equal numbers of epochs are not required.
    ratio = compare_targets(attempts[0], attempts[1], learn_differently=True).seconds
    return selected(ratio, first.candidates * second.candidates) if ratio else None


def times_ratio(first: RankedDevice, second: RankedDevice, sides: Sequence[CellSummary]) -> Speedup | None:
    """Return the ratio of epoch times of the second device to the first, each at its best settings.

    The interval is corrected for the selection of both cells. None without times on each side.
    """
    times = [list(sides[each.number].times.values()) for each in (second, first)]
    ratio = speedup(times[0], times[1])
    return selected(ratio, first.candidates * second.candidates) if ratio else None


def energy_ratio(
    first: RankedDevice, second: RankedDevice, sides: Sequence[CellSummary], to_target: bool
) -> Speedup | None:
    """Return how many times less energy the first device uses than the second, each at its best settings.

    It is the energy to the target or of an epoch. The interval is corrected for the selection of both cells.
    """
    more, less = (sides[each.number] for each in (second, first))
    if to_target:
        ratio = compare_targets(more.target_energies, less.target_energies, learn_differently=True).seconds
    else:
        ratio = speedup(more.energies, less.energies)
    return selected(ratio, first.candidates * second.candidates) if ratio else None
