"""Analysis of variance over a grid's axes.

The analysed number of a run is, for example, its accuracy. An additive model: one mean, one effect for each value of
each axis. The variance between cells that the effects leave unexplained is the *interaction* (for example, weight decay
has another effect on one device than on another); the variance between the runs of one cell is the *residual*. Each is
tested against the residual by F, so without repeats no test is possible.
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
"""The coordinates of a run (axes and their values), and its number."""


@dataclass(frozen=True)
class Factor:
    """A source of variance.

    Attributes:
        name: of the axis, or "interaction".
        share: its fraction of the total sum of squares; with cells missing, the fractions do not add up to 1.
        f, df: Fisher's F against the residual and its numerator degrees of freedom.
        p: the p-value; None without repeats.
    """

    name: str
    share: float
    df: int
    f: float | None = None
    p: float | None = None

    @property
    def shown(self) -> bool:
        """Whether it is significant at p < 0.05."""
        return self.p is not None and self.p < 1 - CONFIDENCE


@dataclass(frozen=True)
class _Fit:
    """A fit of an additive model.

    Attributes:
        squares: residual sum of squares.
        rank: number of independent effects, including the mean.
        effects: by value, those of the first axis first; defined up to contrasts that the runs cannot identify.
        counts: runs by value of the first axis.
        shares: for each value of the first axis, the fractions of its runs that have each value of the other axes.
        inverse: generalized inverse of the normal equations of the other axes.
    """

    squares: float
    rank: int
    effects: Any
    counts: Any
    shares: Any
    inverse: Any

    def variance(self, contrast: Any) -> float:
        """Return the variance of a contrast of effects, for a residual variance of 1."""
        first, others = np.split(contrast, [len(self.counts)])
        moved = others - first @ self.shares
        return float(first @ (first / self.counts) + moved @ self.inverse @ moved)


@dataclass(frozen=True)
class Decomposition:
    """Variance decomposition of a grid's runs.

    Attributes:
        sources: the axes with more than one value, and "interaction" if the grid can identify it.
        residual_sd: standard deviation of one run within its cell; None without repeats.
        luck_share: the residual's fraction of the total sum of squares.
        luck_df: its degrees of freedom: runs minus cells.
        confounded: axes that the available cells cannot separate from others, for example if each device ran with a
            different weight decay.
    """

    sources: tuple[Factor, ...]
    residual_sd: float | None
    luck_share: float
    luck_df: int
    confounded: tuple[str, ...]
    _columns: Mapping[tuple[str, Hashable], int]
    _fit: _Fit

    @property
    def interaction(self) -> Factor | None:
        """The variance that additive effects leave unexplained between cells.

        None if the grid cannot identify it.
        """
        return next((source for source in self.sources if source.name == INTERACTION), None)

    @property
    def repeatability_limit(self) -> float | None:
        """The largest difference between two runs of a cell, at 95%.

        None without repeats.
        """
        return None if self.residual_sd is None else quantile(self.luck_df) * math.sqrt(2) * self.residual_sd

    def effect(self, axis: str, first: Hashable, second: Hashable, chosen: bool = False) -> Difference | None:
        """Return the effect of an axis between two of its values.

        All other axes are equal.

        Args:
            axis: one of those that vary.
            first, second: two of its values; the effect is that of the first minus that of the second.
            chosen: whether these two were selected by their difference, such as the best and the worst. The interval is
                then Scheffé's, which has its coverage for any selection and never excludes 0 if the axis as a whole is
                not significant; Student's would have a coverage of 66% for the best of six against the worst.

        Returns:
            None if the axis has only one value or cannot be separated from another.

        Raises:
            KeyError: no run has that value.
        """
        if axis in self.confounded or axis not in {source.name for source in self.sources}:
            return None
        contrast = np.zeros(len(self._fit.effects))
        contrast[self._columns[axis, first]] += 1
        contrast[self._columns[axis, second]] -= 1
        value = float(contrast @ self._fit.effects)
        if self.residual_sd is None:
            return Difference(value)
        error = self.residual_sd * math.sqrt(max(0.0, self._fit.variance(contrast)))
        half = self._reach_of(axis, chosen) * error
        return Difference(value, value - half, value + half, float(self.luck_df), error)

    def _reach_of(self, axis: str, chosen: bool) -> float:
        """Return the half-width of an interval in standard errors."""
        if not chosen:
            return quantile(self.luck_df)
        from scipy.special import fdtri

        df = sum(name == axis for name, _ in self._columns) - 1
        return math.sqrt(df * float(fdtri(df, self.luck_df, CONFIDENCE)))


INTERACTION = "interaction"

NOTHING = 1e-9
"""Largest fraction of squares that is attributed to floating-point error."""

SINGULAR = 1e-10
"""Largest eigenvalue of normal equations, relative to the number of runs, that counts as 0."""


def decompose(runs: Sequence[Run], floor: float = 0.0) -> Decomposition | None:
    """Decompose the variance of a grid's runs.

    Cells may lack runs or be missing: an axis is credited with what it explains beyond all the others (type II sums of
    squares). An axis that the available runs cannot separate from others is listed as confounded and credited with
    nothing.

    Args:
        runs: the coordinates of each and its number; all with the same axes.
        floor: minimum variance of one run, such as that of rounding (`raybench.analysis.statistics.accuracy.rounding`).

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
    codes = {}
    for axis in sorted(varied, key=lambda axis: -len(levels[axis])):
        code_of = {level: code for code, level in enumerate(levels[axis])}
        codes[axis] = np.array([code_of[place[axis]] for place, _ in runs])
    cells: dict[tuple[Hashable, ...], list[float]] = {}
    for (place, _), number in zip(runs, numbers, strict=True):
        cells.setdefault(tuple(place[axis] for axis in axes), []).append(float(number))
    total, fit = float(numbers @ numbers), _fit(list(codes.values()), numbers)
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
        smaller = _fit([each for name, each in codes.items() if name != axis], numbers)
        if fit.rank - smaller.rank < len(levels[axis]) - 1:
            confounded.append(axis)
        else:
            sources.append(source(axis, smaller.squares - fit.squares, fit.rank - smaller.rank))
    if len(cells) > fit.rank:
        sources.append(source(INTERACTION, fit.squares - unexplained, len(cells) - fit.rank))
    places = [(axis, level) for axis in codes for level in levels[axis]]
    return Decomposition(
        sources=tuple(sources),
        residual_sd=luck,
        luck_share=unexplained / total if total else 0.0,
        luck_df=luck_df,
        confounded=tuple(confounded),
        _columns={place: number for number, place in enumerate(places)},
        _fit=fit,
    )


def _fit(axes: Sequence[Any], numbers: Any) -> _Fit:
    """Fit an additive model by least squares.

    The effects of the first axis are eliminated from the normal equations, which is a division by its counts. The
    equations that remain are as many as the other axes have values, however many runs there are.

    Args:
        axes: the number of the value of each run (from 0), by axis; the one with the most values first.
        numbers: of the runs, with a mean of 0.
    """
    if not axes:
        return _Fit(float(numbers @ numbers), 1, np.zeros(0), np.zeros(0), np.zeros((0, 0)), np.zeros((0, 0)))
    first, *others = axes
    counts, sizes = np.bincount(first), [int(codes.max()) + 1 for codes in others]
    means = np.bincount(first, numbers) / counts
    shared = np.hstack([np.zeros((len(counts), 0)), *(_counts(first, codes) for codes in others)])
    gram = np.vstack(
        [np.zeros((0, sum(sizes))), *(np.hstack([_counts(codes, each) for each in others]) for codes in others)]
    )
    sums = np.concatenate([np.zeros(0), *(np.bincount(codes, numbers) for codes in others)])
    shares = shared / counts[:, None]
    inverse, rank = _inverse(gram - shared.T @ shares, np.sqrt(np.diag(gram)))
    other_effects = inverse @ (sums - shared.T @ means)
    effects = np.concatenate([means - shares @ other_effects, other_effects])
    starts = np.cumsum([0, len(counts), *sizes])
    residuals = numbers - sum(effects[start + codes] for start, codes in zip(starts, axes, strict=False))
    return _Fit(float(residuals @ residuals), len(counts) + rank, effects, counts, shares, inverse)


def _counts(first: Any, second: Any) -> Any:
    """Return the numbers of runs by the values of two axes."""
    rows, columns = int(first.max()) + 1, int(second.max()) + 1
    return np.bincount(first * columns + second, minlength=rows * columns).reshape(rows, columns).astype(float)


def _inverse(matrix: Any, scale: Any) -> tuple[Any, int]:
    """Return a generalized inverse of a symmetric matrix, and its rank.

    Args:
        matrix: the matrix.
        scale: divides its rows and columns, so that the size of an eigenvalue does not depend on the number of runs.
    """
    scales = np.outer(scale, scale)
    values, vectors = np.linalg.eigh(matrix / scales)
    kept = values > SINGULAR
    return (vectors[:, kept] / values[kept]) @ vectors[:, kept].T / scales, int(kept.sum())
