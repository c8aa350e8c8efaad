"""Results for Python: tables of pandas, figures, and the answer in a notebook."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from shutil import get_terminal_size
from typing import TYPE_CHECKING, Any

from raybench.analysis.answer import Answer
from raybench.analysis.findings.finding import findings
from raybench.core.options import ReportOptions
from raybench.core.text import plural
from raybench.errors import UsageError, nearest
from raybench.reporting import build, frames
from raybench.reporting.report import Report
from raybench.reporting.text import report_text
from raybench.results.epoch_table import EPOCHS
from raybench.results.run_table import TRIALS, Run
from raybench.sources import GridSource

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from pandas import DataFrame


class Results:
    """Results of one or several grids: returned by `raybench.run_grid` and `raybench.load`.

    A notebook displays the answer, the table of effects and the figure of speeds; `print(results)` prints the report.

    Examples:
        >>> import raybench
        >>> results = raybench.load("raybench-results", grid="quickstart")
        >>> results
        Results(quickstart: 4 configurations, 12 runs)
        >>> results.comparison[["batch_size", "weight_decay", "completed"]].head(2)
           batch_size  weight_decay  completed
        0          32        0.0000          3
        1          32        0.0005          3
    """

    def __init__(
        self,
        grids: Sequence[GridSource],
        reports: Sequence[Report] | None = None,
        baseline: Mapping[str, Any] | None = None,
        these_machines: bool = False,
    ) -> None:
        self._grids, self._known_reports, self._baseline = list(grids), reports, dict(baseline or {})
        self._these_machines = these_machines

    @property
    def for_these_machines(self) -> Results:
        """The same results as a comparison of these machines, and not of their models of device."""
        return Results(self._grids, None, self._baseline, True)

    def with_baseline(self, **values: Any) -> Results:
        """Return the same results with a different baseline.

        Args:
            values: value by axis, such as `device="gpu"` or `batch_size=128`.

        Raises:
            UsageError: the grid has no such axis or value.

        Examples:
            >>> import raybench
            >>> results = raybench.load("raybench-results", grid="quickstart")
            >>> effects = results.with_baseline(batch_size=128).effects
            >>> effects.loc[effects["axis"] == "batch_size", "other"].tolist()
            ['128']
        """
        changed = Results(self._grids, None, self._baseline | values, self._these_machines)
        _ = changed._reports
        return changed

    @property
    def _runs(self) -> list[Run]:
        return [run for grid in self._grids for run in grid.runs]

    @cached_property
    def trials(self) -> DataFrame:
        """One row per trial: settings, status, times by every timing rule, accuracy, price.

        `columns` describes the columns, with units.

        Examples:
            >>> import raybench
            >>> trials = raybench.load("raybench-results", grid="quickstart").trials
            >>> trials["status"].value_counts().to_dict()
            {'completed': 12}
        """
        return frames.trials(self._runs, findings(self._runs))

    @cached_property
    def epochs(self) -> DataFrame:
        """One row per epoch; `grid`, `trial` and `attempt` identify its trial.

        `columns` describes the columns, with units. Metrics have columns by their own names, such as `val/accuracy`.
        """
        return frames.epochs(self._runs)

    @cached_property
    def comparison(self) -> DataFrame:
        """One row per configuration: runs, time, ratio to its reference with interval, quality, price, energy.

        `columns` describes the columns, with units. The axes of the grid have columns by their own names.
        """
        return frames.comparison(self._answers)

    @cached_property
    def effects(self) -> DataFrame:
        """One row per axis and value: its effect on speed and quality over all pairs that differ in it alone."""
        return frames.effects(self._answers)

    @cached_property
    def best(self) -> DataFrame:
        """One row per criterion: the best configuration, relative to its reference."""
        return frames.best(self._answers)

    def plot(self, figure: str = "speed") -> Axes:
        """Draw a figure of the report; a notebook displays it.

        Args:
            figure: `speed` (and quality, by configuration), `scaling` (by an amount of hardware), `learning` (quality
                over training time), `loss`, `time_parts` (of a run's wall time) or `time_and_price`.

        Raises:
            RaybenchError: the grid has no data for it; the message has the reason.
            UsageError: there is no such figure.

        Examples:
            >>> import raybench
            >>> results = raybench.load("raybench-results", grid="quickstart")
            >>> axes = results.plot("speed")
            >>> axes.figure.savefig("speed.png")
        """
        from matplotlib import pyplot

        from raybench.reporting.figures import FIGURES, draw

        if figure not in FIGURES:
            raise UsageError(f"plot: there is no figure {figure}; {nearest(figure, FIGURES)}")
        return draw(figure, self.report.answer, pyplot.figure).axes[0]

    @property
    def columns(self) -> DataFrame:
        """Description of every column: table, name, dtype, unit, meaning."""
        from pandas import DataFrame

        described = {**frames.TABLES, "trials": TRIALS, "epochs": EPOCHS}
        return DataFrame(
            [
                {"table": table, **{name: getattr(column, name) for name in ("name", "dtype", "unit", "meaning")}}
                for table, columns in described.items()
                for column in columns
            ]
        )

    @property
    def report(self) -> Report:
        """The report as data: `report.answer` has everything that it says.

        Raises:
            UsageError: the results are of several grids, or there are none.
        """
        _ = self.grid
        return self._reports[0]

    @property
    def grid(self) -> GridSource:
        """The only grid of these results.

        Raises:
            UsageError: they are of several grids, or there are none.
        """
        grids = [grid for grid in self._grids if grid.runs]
        if len(grids) != 1:
            names = ", ".join(sorted(grid.name or "" for grid in grids))
            several = f"results of {len(grids)} grids ({names}): choose one with grid="
            raise UsageError(several if grids else "no trial in these results yet")
        return grids[0]

    @cached_property
    def _reports(self) -> list[Report]:
        if self._known_reports is not None:
            return list(self._known_reports)
        options = ReportOptions(baseline=self._baseline or (), these_machines=self._these_machines)
        return [build.from_grid(grid, options) for grid in self._grids if grid.runs]

    @property
    def _answers(self) -> list[Answer]:
        return [report.answer for report in self._reports]

    def __repr__(self) -> str:
        trials, cells = ({(run.grid, getattr(run, part)) for run in self._runs} for part in ("trial", "cell_id"))
        names = ", ".join(grid.name or "" for grid in self._grids) or "no grid"
        return f"Results({names}: {plural(len(cells), 'configuration')}, {plural(len(trials), 'run')})"

    def __str__(self) -> str:
        width = get_terminal_size().columns
        texts = [report_text(answer, width) for answer in self._answers]
        if len(texts) > 1:
            texts = [f"{answer.grid}\n\n{text}" for answer, text in zip(self._answers, texts, strict=True)]
        return "\n".join(texts).rstrip("\n") or repr(self)

    def _repr_html_(self) -> str:
        from raybench.reporting.page import overview

        return "\n".join(map(overview, self._answers))
