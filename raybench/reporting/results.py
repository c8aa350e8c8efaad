"""Results for Python: tables, comparisons, figures, and the answer in a notebook."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from shutil import get_terminal_size
from typing import TYPE_CHECKING, Any

from raybench.analysis.comparison import PlannedCell, Row, baseline_indices, cautions_of, compare
from raybench.analysis.fact import Fact
from raybench.analysis.grid_results import GridResults
from raybench.analysis.statistics import time_to_target
from raybench.core.collector import collector_paused
from raybench.core.files import write_atomic
from raybench.core.text import format_value
from raybench.errors import UsageError
from raybench.reporting import build, comparison_table
from raybench.reporting.comparison_table import TableColumn, cell_columns, excerpt, fitting, ranking_columns
from raybench.reporting.plots import Plots
from raybench.reporting.report import NOTE, Report
from raybench.reporting.sentences import as_html, environment, plain, plural
from raybench.results import columns as c
from raybench.sources import Attempts, load_grids
from raybench.sources.result_tables import GridSource, Record, frame, tables

if TYPE_CHECKING:
    from pandas import DataFrame


TEMPLATE = "results.html.j2"


@dataclass(frozen=True)
class _Summary:
    """The answer, the table and the cautions of one grid.

    Attributes:
        columns: the table, for HTML.
        table: the table as text, with the cautions about runs below it.
        cautions: about anything.
        further: the cautions that are not below the table.
    """

    name: str
    verdict: Sequence[Sequence[Fact]]
    columns: Sequence[TableColumn]
    table: str
    cautions: Sequence[str]
    further: Sequence[str]


class Results:
    """Results of one or several grids: returned by `raybench.run_grid` and `raybench.load`.

    A notebook displays the answer and the table; `print(results)` prints the same as text.

    Attributes:
        plot: the figures (`raybench.reporting.plots.Plots`), each as a matplotlib Axes: `results.plot.speedup()`.

    Example:
        >>> import raybench
        >>> results = raybench.load("raybench-results", grid="quickstart")
        >>> results
        Results(quickstart: 4 cells, 12 trials)
        >>> results.cells[["batch_size", "weight_decay", "completed"]].head(2)
           batch_size  weight_decay  completed
        0          32        0.0000          3
        1          32        0.0005          3
    """

    def __init__(
        self,
        grids: Sequence[GridSource],
        reports: Sequence[Report] | None = None,
    ) -> None:
        self._grids, self._known_reports = list(grids), reports
        self.plot = Plots(self._compared)

    @cached_property
    def _tables(self) -> tuple[DataFrame, DataFrame]:
        with collector_paused():
            return tables(self._records)

    @property
    def _records(self) -> list[Record]:
        return [record for grid in self._grids for record in grid.records]

    @property
    def trials(self) -> DataFrame:
        """One row per trial: settings, status, times by every timing rule, accuracy, price.

        `columns` describes the columns, with units.

        Example:
            >>> import raybench
            >>> trials = raybench.load("raybench-results", grid="quickstart").trials
            >>> trials["status"].value_counts().to_dict()
            {'completed': 12}
        """
        return self._tables[0]

    @property
    def epochs(self) -> DataFrame:
        """One row per epoch; `grid`, `trial` and `attempt` identify its trial.

        `columns` describes the columns, with units. Metrics have columns by their own names, such as `val/accuracy`.

        Example:
            >>> import raybench
            >>> epochs = raybench.load("raybench-results", grid="quickstart").epochs
            >>> len(epochs), int(epochs["epoch"].max())
            (36, 3)
        """
        return self._tables[1]

    @cached_property
    def cells(self) -> DataFrame:
        """One row per requested cell: runs, time of an epoch, accuracy, speed-up over its baseline, price.

        `columns` describes the columns, with units. The axes of the grid have columns by their own names.

        Example:
            >>> import raybench
            >>> cells = raybench.load("raybench-results", grid="quickstart").cells
            >>> cells.loc[cells["is_baseline"], "label"].tolist()
            ['b32 wd0', 'b32 wd5e-4']
        """
        reports = self._reports
        rows = [row for report in reports for row in _cell_rows(report)]
        return frame(rows, _with_axes(c.CELLS, rows, [axis for report in reports for axis in report.results.axes]))

    @property
    def columns(self) -> DataFrame:
        """Description of every column: table, name, dtype, unit, meaning.

        Example:
            >>> import raybench
            >>> columns = raybench.load("raybench-results", grid="quickstart").columns
            >>> columns.set_index(["table", "name"]).loc[("trials", "steady_s"), "unit"]
            's'
        """
        from pandas import DataFrame

        described = {"cells": c.CELLS, "trials": c.TRIALS, "epochs": c.EPOCHS, "comparison": c.COMPARISON}
        return DataFrame(
            [
                {"table": table, **{name: getattr(column, name) for name in ("name", "dtype", "unit", "meaning")}}
                for table, columns in described.items()
                for column in columns
            ]
        )

    @property
    def report(self) -> Report:
        """The report as data: verdict, remarks, tables of evidence, machines and versions.

        Raises:
            UsageError: the results are of several grids.
        """
        reports = self._reports
        if len(reports) != 1:
            raise UsageError(self._not_one(len(reports)))
        return reports[0]

    def comparison(self, axis: str, baseline: Any = None) -> DataFrame:
        """Compare cells that differ in one axis alone, with 95% confidence intervals.

        Args:
            axis: the axis, such as "device" or "batch_size".
            baseline: its value to compare with; by default the grid's baseline or its first value.

        Returns:
            One row per pair of cells: the axes of the cell, and the columns that `columns` describes: `ratio` (above 1
            if the cell is faster), `low`, `high`, `runs` and others.

        Raises:
            UsageError: the grid has no such axis or value, or one value only.

        Example:
            >>> import raybench
            >>> results = raybench.load("raybench-results", grid="quickstart")
            >>> pairs = results.comparison("batch_size", baseline=32)
            >>> bool((pairs["ratio"] > 1).all())
            True
            >>> results.comparison("batch_sise")
            Traceback (most recent call last):
            ...
            raybench.errors.UsageError: quickstart has no axis batch_sise; did you mean batch_size?
        """
        results = self._compared(axis, baseline)
        rows = compare(results.cells, results.latest, results.baseline, results.metric, results.findings)
        pairs = [
            _pair_row(results, cell, results.cells[origin], row)
            for cell, row, origin in zip(
                results.cells, rows, baseline_indices(results.cells, results.baseline), strict=True
            )
            if origin is not None and results.cells[origin] is not cell and not cell.aa_of
        ]
        return frame(pairs, _with_axes(c.COMPARISON, pairs, results.axes))

    def _compared(self, axis: str | None, baseline: Any = None) -> GridResults:
        """Return the grid's results with a baseline on one axis, or with its own.

        Raises:
            UsageError: see `comparison`.
        """
        results = self.report.results
        if axis is None:
            return results
        if results.smoke:
            raise UsageError(f"{results.name} is a smoke run, whose times are not results; run the grid without smoke")
        value = results.compared_with.get(axis) if baseline is None else baseline
        if value is None:
            value = next((cell.axes[axis] for cell in results.cells if axis in cell.axes), "")
        value = results.value_on(axis, value)
        if axis not in results.axes:
            others = f"; compare {' or '.join(results.axes)}" if results.axes else ""
            raise UsageError(f"{axis} of {results.name} has one value, {format_value(value)}{others}")
        return replace(results, baseline={axis: value})

    @cached_property
    def _reports(self) -> list[Report]:
        """The report of each grid that has trials."""
        if self._known_reports is not None:
            return list(self._known_reports)
        return [build.from_grid(grid) for grid in self._grids if grid.records]

    def _not_one(self, count: int) -> str:
        names = ", ".join(sorted(grid.name or "" for grid in self._grids))
        return (
            f"results of {count} grids ({names}): choose one with grid=" if count else "no trial in these results yet"
        )

    def __repr__(self) -> str:
        trials = {(record.grid, record.attempt.trial) for record in self._records}
        cells = {(record.grid, record.attempt.cell_id) for record in self._records}
        names = ", ".join(grid.name or "" for grid in self._grids) or "no grid"
        return f"Results({names}: {plural(len(cells), 'cell')}, {plural(len(trials), 'trial')})"

    def __str__(self) -> str:
        width = get_terminal_size().columns
        blocks = []
        for summary in self._summaries(width):
            heading = [summary.name] if len(self._grids) > 1 else []
            sentences = [" ".join(map(plain, paragraph)) for paragraph in summary.verdict]
            answer = [textwrap.fill(text, width, break_on_hyphens=False) for text in sentences]
            cautions = [textwrap.fill(text, width, break_on_hyphens=False) for text in summary.further]
            lines = "\n".join([*heading, *answer])
            blocks.append("\n\n".join(filter(None, [lines, summary.table.rstrip("\n"), "\n".join(cautions)])))
        return "\n\n".join(blocks) or repr(self)

    def _repr_html_(self) -> str:
        from raybench.reporting.html import with_code

        template = environment().get_template(TEMPLATE)
        return template.render(grids=self._summaries(), html=as_html, with_code=with_code) if self._records else ""

    def _summaries(self, width: int = comparison_table.WIDE) -> list[_Summary]:
        return [_summary(report, width) for report in self._reports]


def load(source: str | Path | Sequence[str | Path], grid: str | None = None, attempts: Attempts = "latest") -> Results:
    """Load results; see `raybench.load`."""
    return Results(load_grids(source, grid, attempts))


def write_report(
    source: Results | str | Path | Sequence[str | Path],
    html: str | Path,
    results: str | Path,
    grid: str | None,
    baseline: str | Mapping[str, Any] | None,
    smoke: bool,
) -> Path:
    """Write the report of results as a page; see `raybench.report`."""
    path = Path(html)
    try:
        write_atomic(path, _page(source, Path(results), grid, baseline, smoke))
    except OSError as error:
        raise UsageError(f"{path}: cannot be written: {error.strerror or error}") from None
    return path


def _page(
    source: Results | str | Path | Sequence[str | Path],
    folder: Path,
    grid: str | None,
    baseline: str | Mapping[str, Any] | None,
    smoke: bool,
) -> str:
    texts = [baseline] if isinstance(baseline, str) else [f"{a}={format_value(v)}" for a, v in (baseline or {}).items()]
    if not isinstance(source, Results):
        sources = [source] if isinstance(source, (str, Path)) else source
        report = build.from_sources(list(map(str, sources)), folder, smoke=smoke, grid=grid, baseline=texts)
    elif texts:
        chosen = source.report.results.name
        report = build.from_grid(next(each for each in source._grids if each.name == chosen), baseline=texts)
    else:
        report = source.report
    return build.files(report, with_data=False)[build.HTML]


def _summary(report: Report, width: int) -> _Summary:
    results = report.results
    columns = ranking_columns(results, report.ranking) if report.ranking else []
    columns = columns or excerpt(cell_columns(results.rows, results.metric_label), results.rows, report.best_first)
    columns = fitting(columns, comparison_table.WIDE)
    table = comparison_table.text(results.rows, metric=results.metric_label, width=width, best_first=report.best_first)
    cautions = {f"{remark.says} {remark.remedy}".strip(): remark for remark in report.remarks if remark.kind != NOTE}
    further = [text for text, remark in cautions.items() if remark.runs is None]
    return _Summary(results.name, report.verdict, columns, table, list(cautions), further)


def _padded(column: TableColumn) -> list[str]:
    texts = (column.head, *column.cells)
    return [text.rjust(column.width) if column.right else text.ljust(column.width) for text in texts]


def _cell_rows(report: Report) -> list[dict[str, Any]]:
    results = report.results
    return [_cell_row(results, cell, row) for cell, row in zip(results.cells, results.rows, strict=True)]


def _cell_row(results: GridResults, cell: PlannedCell, row: Row) -> dict[str, Any]:
    steady, metric, speedup = row.steady, row.metric, row.speedup
    return {
        "grid": results.name,
        "cell": cell.cell_id,
        "label": results.label(cell),
        **_axis_values(results, cell),
        "planned": row.counts.planned,
        "completed": row.counts.completed,
        "skip": row.counts.skip,
        "steady_s": steady and steady.value,
        "steady_min_s": steady and steady.low,
        "steady_max_s": steady and steady.high,
        "metric": results.metric,
        "metric_mean": metric and metric.value,
        "metric_min": metric and metric.low,
        "metric_max": metric and metric.high,
        "is_baseline": row.is_baseline,
        "speedup": speedup and speedup.ratio,
        "speedup_low": speedup and speedup.low,
        "speedup_high": speedup and speedup.high,
        "per_example": row.per_example if speedup else None,
        **_target_values(results, cell),
        "bottleneck": row.bottleneck.causes[0] if row.bottleneck else None,
        "epoch_price": row.epoch_price,
        "total_price": row.total_price,
        **_energy_values(row),
        "cautions": ", ".join(row.cautions) or None,
    }


def _energy_values(row: Row) -> dict[str, Any]:
    if row.energy is None:
        return {}
    target, ratio = row.energy.target, row.energy_ratio
    return {
        "epoch_energy_j": row.energy.epoch,
        "epoch_energy_min_j": row.energy.low,
        "epoch_energy_max_j": row.energy.high,
        "host_epoch_energy_j": row.energy.host_epoch,
        "example_energy_j": row.energy.example,
        "energy_ratio": ratio and ratio.ratio,
        "energy_ratio_low": ratio and ratio.low,
        "energy_ratio_high": ratio and ratio.high,
        "target_energy_j": target and target.seconds,
        "target_energy_low_j": target and target.low,
        "target_energy_high_j": target and target.high,
        "epoch_energy_price": row.energy.price,
        "epoch_gco2": row.energy.gco2,
    }


def _target_values(results: GridResults, cell: PlannedCell) -> dict[str, Any]:
    target = results.target
    if target is None:
        return {}
    attempts = [time_to_target.target_attempt_of(run, target) for run in results.runs(cell)]
    estimate = time_to_target.expected([attempt for attempt in attempts if attempt])
    if estimate is None:
        return {}
    return {
        "target_runs": estimate.successes,
        "time_to_target_s": estimate.seconds,
        "time_to_target_low_s": estimate.low,
        "time_to_target_high_s": estimate.high,
    }


def _pair_row(results: GridResults, cell: PlannedCell, baseline: PlannedCell, row: Row) -> dict[str, Any]:
    speedup, baseline_runs, runs = row.speedup, results.runs(baseline), results.runs(cell)
    cautions = frozenset().union(*cautions_of(speedup, baseline_runs, runs, results.findings)) if speedup else ()
    return {
        "label": results.label(cell),
        **_axis_values(results, cell),
        "baseline": results.label(baseline),
        "ratio": speedup and speedup.ratio,
        "low": speedup and speedup.low,
        "high": speedup and speedup.high,
        "runs": row.runs,
        "baseline_runs": len(results.completed(baseline)),
        "paired": speedup.paired if speedup else None,
        "per_example": row.per_example if speedup else None,
        "cautions": ", ".join(sorted(cautions)) or None,
    }


def _axis_values(results: GridResults, cell: PlannedCell) -> dict[str, Any]:
    """Return a cell's values on the axes that vary; other values than numbers and booleans as text."""
    values = {axis: cell.axes[axis] for axis in results.axes if axis in cell.axes}
    return {
        axis: value if isinstance(value, (bool, int, float)) else format_value(value) for axis, value in values.items()
    }


def _with_axes(
    described: Sequence[c.Column], rows: Sequence[Mapping[str, Any]], axes: Sequence[str] | Mapping[str, Any]
) -> list[c.Column]:
    """Return the columns of a table, with those of the axes behind the label."""
    axis_columns = []
    for axis in dict.fromkeys(axes):
        values = [row[axis] for row in rows if axis in row]
        kinds: dict[str, type | tuple[type, ...]] = {c.YES_NO: bool, c.WHOLE: int, c.NUMBER: (int, float)}
        dtype = next((name for name, kind in kinds.items() if all(isinstance(each, kind) for each in values)), c.TEXT)
        axis_columns.append(c.Column(axis, dtype, "", "a value of this axis"))
    place = [column.name for column in described].index("label") + 1
    return [*described[:place], *axis_columns, *described[place:]]
