"""The noise floor: how much runs of one configuration differ, and what a number of repeats can show."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from statistics import fmean, linear_regression, stdev

from raybench.analysis.intervals import quantile
from raybench.analysis.measured import TIME, Measured, measure_all
from raybench.results.grid_request import latest_request
from raybench.results.history import GridHistory
from raybench.results.machines import as_requested
from raybench.results.metrics import quality_metrics

REPEATS = (3, 5, 10, 20)  # numbers of repeats for which the smallest detectable difference is printed
POWER = 0.8  # power: the share of comparisons that detect a difference of the printed size
LEAST_RUNS = 3  # fewest runs that show noise


@dataclass(frozen=True)
class Noise:
    """The standard deviation of a number over runs of one configuration; of a time, of its logarithm.

    Attributes:
        mean: a typical value.
        runs: number of runs.
        drift: by how much it changes from the first run to the last; 0.0 if no drift is shown.
        doubling: by how much the second half of the epochs changes a metric; None if not known.
    """

    sd: float
    mean: float
    runs: int
    drift: float = 0.0
    doubling: float | None = None

    def shown(self, repeats: int) -> float:
        """Return the difference that so many repeats of each of two versions show in 4 of 5 comparisons (Welch)."""
        df = 2 * repeats - 2
        return (quantile(df, 0.975) + quantile(df, POWER)) * self.sd * math.sqrt(2 / repeats)

    @property
    def sd_range(self) -> tuple[float, float]:
        """The 95% interval of the standard deviation: few runs hardly show it."""
        from scipy.special import chdtri

        low, high = (self.sd * math.sqrt((self.runs - 1) / float(chdtri(self.runs - 1, p))) for p in (0.025, 0.975))
        return low, high

    @property
    def gain(self) -> float | None:
        """The change by the second half of the epochs, in standard deviations; None if not known."""
        return None if self.doubling is None or not self.sd else abs(self.doubling) / self.sd


@dataclass(frozen=True)
class NoiseFloor:
    """The noise of the time of a configuration, None if it is not known, and of its metrics.

    Attributes:
        same: metrics that are the same in all runs, which are then one run.
    """

    time: Noise | None
    metrics: Mapping[str, Noise] = field(default_factory=dict)
    same: tuple[str, ...] = ()

    @property
    def most_telling(self) -> str:
        """The metric in which a doubling of the epochs is largest against its noise; empty if not known."""
        gains = {name: gain for name, noise in self.metrics.items() if (gain := noise.gain) is not None}
        return max(gains, key=lambda name: gains[name], default="")


def noise_floor(cell: Measured) -> NoiseFloor:
    """Return the noise of a configuration, by its runs in their order."""
    doublings: dict[str, list[float]] = {}
    for run in cell.completed:
        for name in cell.qualities:
            column = [value for value in run.epochs.column("metrics", name, math.nan) if math.isfinite(value)]
            if len(column) > 1:
                doublings.setdefault(name, []).append(column[-1] - column[(len(column) - 1) // 2])
    metrics = {}
    for name in quality_metrics(cell.qualities):
        values = [sample.value for sample in cell.qualities[name]]
        if len(values) >= LEAST_RUNS and name not in cell.alike:
            changes = doublings.get(name)
            metrics[name] = _noise(values, cell.rounding(name), fmean(changes) if changes else None)
    times = [sample.value for sample in cell.times]
    time = _noise(times, cell.rounding(TIME)) if len(times) >= LEAST_RUNS else None
    return NoiseFloor(time, metrics, tuple(name for name in cell.qualities if name in cell.alike))


def _noise(values: Sequence[float], rounding: float, doubling: float | None = None) -> Noise:
    """Return the noise of numbers in the order of their runs; `rounding` is the least variance of one."""
    count, sd = len(values), max(stdev(values), math.sqrt(rounding))
    slope, start = linear_regression(range(count), values)
    rest = sum((value - start - slope * place) ** 2 for place, value in enumerate(values)) / (count - 2)
    error = math.sqrt(rest / (count * (count**2 - 1) / 12))
    is_shown = abs(slope) > quantile(count - 2, 0.975) * error > 0
    return Noise(sd, fmean(values), count, slope * (count - 1) if is_shown else 0.0, doubling)


def saved_noise(history: GridHistory) -> NoiseFloor | None:
    """Return the noise that `raybench noise` measured; None without it."""
    attempts, request = as_requested(history, latest_request(history))
    if request is None:
        return None
    measured, _ = measure_all(attempts, request)
    return next((noise_floor(cell) for cell in measured if cell.completed), None)
