"""Comparison of two values of an axis over all pairs of cells that differ in it alone."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from raybench.analysis.comparison import CoLocatedCells, are_even, speedup_of
from raybench.analysis.grid_results import GridResults
from raybench.analysis.pairs import CellSummary
from raybench.analysis.samples import steady_seconds_by_repeat
from raybench.analysis.statistics import intervals
from raybench.analysis.statistics.accuracy import rounding
from raybench.analysis.statistics.intervals import Difference
from raybench.analysis.statistics.speedup import Speedup, is_heterogeneous, mean_speedup
from raybench.core.text import format_value

CellPairs = Sequence[tuple[int, int]]
"""The indices of a baseline and of a cell that is compared with it, for each pair."""


@dataclass(frozen=True)
class Contrast:
    """The mean comparison of two sides over pairs of cells.

    Attributes:
        pairs: number of pairs with times on both sides.
        speedup: the geometric mean of the pairs' speed-ups.
        least, most: the smallest and the largest speed-up.
        speed_depends_on: axes on which the speed-up depends, if it is shown to differ between pairs; else empty.
        accuracy: the mean difference in accuracy, as a fraction; None if it cannot be compared.
        accuracy_ends: the smallest and the largest difference.
        accuracy_depends_on: as `speed_depends_on`.
        epochs: the number of epochs of all compared cells; None if they differ.
        per_example: whether epochs of some pairs differ in size, so that examples per second are compared.
        from_warmup: whether times of warm-up epochs are included.
    """

    pairs: int
    speedup: Speedup
    least: float
    most: float
    speed_depends_on: tuple[str, ...]
    accuracy: Difference | None
    accuracy_ends: tuple[float, float]
    accuracy_depends_on: tuple[str, ...]
    epochs: float | None
    per_example: bool
    from_warmup: bool


class Contrasts:
    """Contrasts between the cells of a grid.

    Args:
        results: the grid.
        sides: the summary of each cell.
        examples: size of the validation set.
    """

    def __init__(self, results: GridResults, sides: Sequence[CellSummary], examples: int | None) -> None:
        self._cells, self._axes = results.cells, results.axes
        self._sides, self._examples = sides, examples
        self._runs = [results.runs(cell) for cell in results.cells]
        self._neighbours = CoLocatedCells(self._runs, list(map(steady_seconds_by_repeat, self._runs)))

    def of(self, cell_pairs: CellPairs) -> Contrast | None:
        """Return the contrast of pairs of cells; None if no pair has times on both sides."""
        speedups: dict[tuple[int, int], Speedup] = {}
        for baseline, other in cell_pairs:
            neighbours = self._neighbours.of(baseline, other)
            if speedup := speedup_of(self._runs[baseline], self._runs[other], neighbours):
                speedups[baseline, other] = speedup
        mean = mean_speedup(list(speedups.values()))
        if mean is None:
            return None
        accuracies = {pair: difference for pair in speedups if (difference := self._accuracy(*pair))}
        # A mean over some of the pairs would be that of other settings than the speed-up's.
        complete = len(accuracies) == len(speedups)
        ratios = [each.ratio for each in speedups.values()]
        points = [each.value for each in accuracies.values()] or [0.0]
        epochs = {count for pair in speedups for number in pair for count in self._sides[number].epochs}
        axes = self._varied([other for _, other in speedups])
        return Contrast(
            pairs=len(speedups),
            speedup=mean,
            least=min(ratios),
            most=max(ratios),
            speed_depends_on=axes if is_heterogeneous(list(speedups.values())) else (),
            accuracy=intervals.average(list(accuracies.values())) if complete else None,
            accuracy_ends=(min(points), max(points)),
            accuracy_depends_on=axes if intervals.heterogeneous(list(accuracies.values())) else (),
            epochs=next(iter(epochs)) if len(epochs) == 1 else None,
            per_example=not all(are_even(self._runs[baseline], self._runs[other]) for baseline, other in speedups),
            from_warmup=any(self._sides[number].from_warmup for pair in speedups for number in pair),
        )

    def _accuracy(self, baseline: int, other: int) -> Difference | None:
        """Return the difference in accuracy; None if sides stop at a target or trained for other numbers of epochs."""
        first, second = self._sides[other], self._sides[baseline]
        epochs = {self._cells[number].content.settings.epochs for number in (baseline, other)}
        if first.stops or second.stops or first.epochs != second.epochs or len(epochs) > 1:
            return None
        return intervals.welch(first.accuracies, second.accuracies, rounding(self._examples))

    def _varied(self, numbers: Sequence[int]) -> tuple[str, ...]:
        """Return the axes that differ between cells."""
        values = {axis: {format_value(self._cells[number].axes.get(axis)) for number in numbers} for axis in self._axes}
        return tuple(axis for axis, axis_values in values.items() if len(axis_values) > 1)
