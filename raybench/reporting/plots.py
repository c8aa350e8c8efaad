"""Figures of a results object: `results.plot.speedup()`."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from raybench.analysis.grid_results import GridResults


class Plots:
    """Figures of a grid, as `Results.plot`.

    Each method draws one figure of the report and returns its `matplotlib.axes.Axes`. A notebook displays the figure; a
    script saves it with `axes.figure.savefig("speedup.png")`. A figure with one panel per device or setting returns the
    first; `axes.figure.axes` has all. A figure that the grid has no data for raises a `RaybenchError` with the reason.
    """

    def __init__(self, results: Callable[[str | None, Any], GridResults]) -> None:
        self._results = results

    def speedup(self, axis: str | None = None, baseline: Any = None) -> Axes:
        """Speed-up of each cell over its baseline, with its 95% confidence interval.

        Args:
            axis: the axis to compare along; by default the grid's own baseline is used.
            baseline: the value on that axis to compare with; by default the grid's baseline or its first value.

        Example:
            >>> import raybench
            >>> results = raybench.load("raybench-results", grid="quickstart")
            >>> axes = results.plot.speedup("batch_size", baseline=32)
            >>> axes.figure.savefig("speedup.png")
        """
        return self._draw("speedups", axis, baseline)

    def epoch_time(self) -> Axes:
        """Seconds per steady epoch of each cell: every run, their geometric mean and its 95% confidence interval.

        Example:
            >>> import raybench
            >>> results = raybench.load("raybench-results", grid="quickstart")
            >>> axes = results.plot.epoch_time()
        """
        return self._draw("times")

    def accuracy_by_epoch(self) -> Axes:
        """Accuracy of each cell by epoch: mean over runs, minimum and maximum."""
        return self._draw("accuracy_by_epoch")

    def accuracy_by_time(self) -> Axes:
        """Accuracy of each cell by seconds of training: mean over runs, minimum and maximum."""
        return self._draw("accuracy_by_time")

    def target_reached(self) -> Axes:
        """Share of runs that have reached the target by seconds of training, with its 95% confidence interval."""
        return self._draw("reached")

    def accuracy_map(self) -> Axes:
        """Accuracy after the last epoch by settings, one panel per device: mean and standard deviation over runs."""
        return self._draw("accuracy_map")

    def time_and_cost(self) -> Axes:
        """Time and price of a whole run of each cell; needs a `price_per_hour` of a device."""
        return self._draw("time_and_cost")

    def crossover(self) -> Axes:
        """Speed-up by length of the job in epochs, with start-up and compilation included."""
        return self._draw("crossover")

    def time_breakdown(self) -> Axes:
        """Share of each section, such as training and evaluation, in the wall time of a run."""
        return self._draw("ledger")

    def __repr__(self) -> str:
        return "Plots(" + ", ".join(name for name in dir(type(self)) if not name.startswith("_")) + ")"

    def _draw(self, name: str, axis: str | None = None, baseline: Any = None) -> Axes:
        from raybench.reporting.figures import draw, managed_figures

        results = self._results(axis, baseline)
        with managed_figures():
            return draw(name, results).axes[0]
