"""Is it the device, the decay or luck? What each axis of a grid does to a number of its runs, such as accuracy.

An additive model: one mean, one effect for each value of each axis. What the effects leave unexplained between cells
is *interaction* (the decay acts otherwise on one device than on another); what is left between the runs of one cell is
*luck*. Each is tested against luck by F, so that without repeats nothing is.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any

import numpy as np

from raybench.analysis.statistics.intervals import CONFIDENCE, Difference, quantile

Run = tuple[Mapping[str, Hashable], float]
"""Where a run lies in the grid, each axis and its value, and its number."""


@dataclass(frozen=True)
class Factor:
    """A source of differences.

    Attributes:
        name: of the axis, or "interaction".
        share: its part of all squares; with cells missing, shares do not add up to 1.
        f, df: Fisher's F against luck and its degrees of freedom above the line.
        p: how often luck alone would do as much; None without repeats.
    """

    name: str
    share: float
    df: int
    f: float | None = None
    p: float | None = None

    @property
    def shown(self) -> bool:
        """Whether luck alone would do as much less than one time in twenty."""
        return self.p is not None and self.p < 1 - CONFIDENCE


@dataclass(frozen=True)
class Decomposition:
    """The differences of a grid's runs, taken apart.

    Attributes:
        sources: the axes with more than one value, and "interaction" where the grid can tell it.
        residual_sd: standard deviation of one run within its cell; None without repeats.
        luck_share: its part of all squares.
        luck_df: degrees of freedom: runs less cells.
        confounded: axes that the cells there are cannot tell from others, as when each device ran another decay.
    """

    sources: tuple[Factor, ...]
    residual_sd: float | None
    luck_share: float
    luck_df: int
    confounded: tuple[str, ...]
    _columns: Mapping[tuple[str, Hashable], int]
    _effects: Any
    _covariance: Any

    @property
    def interaction(self) -> Factor | None:
        """What effects that add up leave unexplained between cells; None where the grid cannot tell it."""
        return next((source for source in self.sources if source.name == INTERACTION), None)

    @property
    def repeatability_limit(self) -> float | None:
        """By how much two runs of the same cell differ at most, 95 times in 100; None without repeats."""
        return None if self.residual_sd is None else quantile(self.luck_df) * math.sqrt(2) * self.residual_sd

    def effect(self, axis: str, first: Hashable, second: Hashable, chosen: bool = False) -> Difference | None:
        """What an axis does at one of its values less what it does at another, all other axes the same.

        Args:
            axis: one of those that vary.
            first, second: two of its values.
            chosen: whether these two were picked for how far they are apart, such as the best and the worst. The
                interval then is Scheffé's, which covers whatever is picked, and never leaves 0 out where the axis as a
                whole is not shown to do anything; Student's would cover 66 % of the best of six against the worst.

        Returns:
            None where the axis has one value only, or cannot be told from another one.

        Raises:
            KeyError: no run has that value.
        """
        if axis in self.confounded or axis not in {source.name for source in self.sources}:
            return None
        contrast = np.zeros(len(self._effects))
        contrast[self._columns[axis, first]] += 1
        contrast[self._columns[axis, second]] -= 1
        value = float(contrast @ self._effects)
        if self.residual_sd is None:
            return Difference(value)
        error = self.residual_sd * math.sqrt(max(0.0, float(contrast @ self._covariance @ contrast)))
        half = self._reach_of(axis, chosen) * error
        return Difference(value, value - half, value + half, float(self.luck_df), error)

    def _reach_of(self, axis: str, chosen: bool) -> float:
        """How many standard errors an interval reaches to either side."""
        if not chosen:
            return quantile(self.luck_df)
        from scipy.special import fdtri

        df = sum(name == axis for name, _ in self._columns) - 1
        return math.sqrt(df * float(fdtri(df, self.luck_df, CONFIDENCE)))


INTERACTION = "interaction"

NOTHING = 1e-9
"""A share of squares that is no more than the error of sums in floating point."""


def decompose(runs: Sequence[Run], floor: float = 0.0) -> Decomposition | None:
    """Take the differences of a grid's runs apart.

    Cells may have runs missing, or be missing: an axis is given what it explains beyond all the others (squares of
    type II). An axis that the runs there are cannot tell from others is named and given nothing.

    Args:
        runs: where each lies and its number; every one with the same axes.
        floor: a variance of one run below which luck is not believed to be, such as that of rounding
            (`raybench.analysis.statistics.accuracy.rounding`).

    Returns:
        None without runs.

    Raises:
        ValueError: runs have different axes.
    """
    if not runs:
        return None
    axes = list(runs[0][0])
    if any(set(place) != set(axes) for place, _ in runs):
        raise ValueError("every run of a decomposition has the same axes")
    levels = {axis: list(dict.fromkeys(place[axis] for place, _ in runs)) for axis in axes}
    varied = [axis for axis in axes if len(levels[axis]) > 1]
    numbers = np.array([value for _, value in runs], float)
    numbers = numbers - numbers.mean()
    blocks = {
        axis: np.array([[place[axis] == level for level in levels[axis]] for place, _ in runs], float)
        for axis in varied
    }
    ones = np.ones((len(runs), 1))
    design = np.hstack([ones, *blocks.values()])
    cells: dict[tuple[Hashable, ...], list[float]] = {}
    for (place, _), number in zip(runs, numbers, strict=True):
        cells.setdefault(tuple(place[axis] for axis in axes), []).append(float(number))
    total, (residual, rank) = float(numbers @ numbers), _fit(design, numbers)
    means = {place: fmean(cell_numbers) for place, cell_numbers in cells.items()}
    unexplained = sum((number - means[place]) ** 2 for place, cell_numbers in cells.items() for number in cell_numbers)
    luck_df = len(runs) - len(cells)
    luck = math.sqrt(max(unexplained / luck_df, floor)) if luck_df else None

    def source(name: str, squares: float, df: int) -> Factor:
        share = max(0.0, squares) / total if total else 0.0
        if luck is None:
            return Factor(name, share, df)
        if luck == 0:
            return Factor(name, share, df, p=0.0 if share > NOTHING else 1.0)
        from scipy.special import fdtrc

        f = max(0.0, squares) / df / luck**2
        return Factor(name, share, df, f, float(fdtrc(df, luck_df, f)))

    sources, confounded = [], []
    for axis in varied:
        other_design = np.hstack([ones, *(block for name, block in blocks.items() if name != axis)])
        larger_residual, smaller_rank = _fit(other_design, numbers)
        if rank - smaller_rank < len(levels[axis]) - 1:
            confounded.append(axis)
        else:
            sources.append(source(axis, larger_residual - residual, rank - smaller_rank))
    if len(cells) > rank:
        sources.append(source(INTERACTION, residual - unexplained, len(cells) - rank))
    inverse = np.linalg.pinv(design.T @ design)
    places = [(axis, level) for axis in varied for level in levels[axis]]
    return Decomposition(
        sources=tuple(sources),
        residual_sd=luck,
        luck_share=unexplained / total if total else 0.0,
        luck_df=luck_df,
        confounded=tuple(confounded),
        _columns={place: number + 1 for number, place in enumerate(places)},
        _effects=inverse @ design.T @ numbers,
        _covariance=inverse,
    )


def _fit(design: Any, numbers: Any) -> tuple[float, int]:
    """What least squares leave, and the rank of the design."""
    coefficients, _, rank, _ = np.linalg.lstsq(design, numbers, rcond=None)
    residuals = numbers - design @ coefficients
    return float(residuals @ residuals), int(rank)
