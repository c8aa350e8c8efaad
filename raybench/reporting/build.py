"""Build reports from a grid's history or from results on disk."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from raybench.analysis.analyze import Grid
from raybench.analysis.answer import Caution
from raybench.analysis.compare import compare
from raybench.analysis.measured import as_one_grid
from raybench.analysis.trade_off import choices
from raybench.analysis.versions import Limits
from raybench.analysis.work import counted_units
from raybench.core.cell import VERSION_AXIS
from raybench.core.events import now
from raybench.core.job import Target
from raybench.core.options import ReportOptions
from raybench.core.secret_masking import redact
from raybench.core.settings import PARAM
from raybench.core.text import is_written, plural
from raybench.datasets.paths import user_path
from raybench.errors import UsageError, nearest
from raybench.reporting.comparison import sentences
from raybench.reporting.report import Report
from raybench.results.executions import Execution
from raybench.results.folder import grids_in, has_results
from raybench.results.grid_request import GridRequest, request_of_runs
from raybench.results.history import GridHistory
from raybench.results.run_table import Run
from raybench.results.utilization import unknown_mfu
from raybench.sources import GridSource, load_grids
from raybench.tracking.store import is_store

_TARGET = re.compile(
    r"(?P<mean>mean )?\s*(?P<metric>[^<>=\s]+)\s*(?P<sign><=|>=)\s*(?P<bound>-?\d+(?:\.\d+)?(?:e-?\d+)?)"
    r"(?(mean)(?: at (?P<level>\d+(?:\.\d+)?)%)?)"
)


def load_libraries() -> None:
    """Load the libraries of statistics and figures, which takes half a second; any thread may do it in advance."""
    import scipy.special  # noqa: F401


def from_attempts(
    attempts: Iterable[Run],
    request: GridRequest,
    options: ReportOptions | None = None,
    warnings: Iterable[str] = (),
    executions: Sequence[Execution] = (),
    sources: Sequence[str] = (),
) -> Report:
    """Return the report of attempts.

    Args:
        attempts: of the grid; those of other configurations are ignored.
        request: what was requested.
        options: its baseline, prices, unit, directions of metrics and weights of workloads, instead of the request's.
        warnings: messages that are not results, such as results of checks.
        executions: that made the attempts.
        sources: names of the files that the attempts are from.

    Raises:
        UsageError: no configuration has that baseline, or no run counts that unit.
    """
    attempts, warnings, options = list(attempts), list(warnings), options or ReportOptions()
    unused, are_prices = "", True
    requested = {cell.cell_id for cell in request.cells}
    if options.prices:
        from raybench.config.prices import PriceList  # with all of the grid file, which takes a quarter of a second

        request, unused, are_prices = PriceList.read(Path(options.prices), options.terms).applied(request, attempts)
        warnings += [unused] if unused and are_prices else []
    counted = [run for run in attempts if run.cell_id in requested]
    if (chosen_unit := options.unit or request.unit) and chosen_unit not in (units := counted_units(counted)):
        hint = nearest(chosen_unit, units) if units else "the trials count nothing"
        problem = f"unit: no run counts {chosen_unit}; {hint}"
        if options.unit:
            raise UsageError(problem)
        warnings += [problem] if units else []
    directions = {**request.higher_is_better, **options.directions}
    request = replace(request, unit=chosen_unit, higher_is_better=directions)
    analyzed = Grid(attempts, request, _values(request, _baseline_in(options.baseline)) or None)
    answer = analyzed.answer(warnings, _weights(options.weights))
    if not are_prices:  # nothing of what the user asked for is shown
        answer = replace(answer, status=replace(answer.status, repeats=(*answer.status.repeats, unused)))
    if request.limits:
        try:
            decision = tuple(sentences(compare(analyzed, Limits.from_json(request.limits))))
        except UsageError as error:  # no run has the metric, or the limits are damaged
            decision = (str(error),)
        answer = replace(answer, decision=decision)
    return Report(answer, counted, now(), request.text, executions, sources)


def from_grid(grid: GridSource, options: ReportOptions | None = None, everything: bool = False) -> Report:
    """Return the report of a grid that was loaded (`one_grid`).

    Args:
        options: those of `from_attempts`, and what is chosen of its runs.
        everything: whether to include every configuration with results, not only those of the latest request.
    """
    options = options or ReportOptions()
    # A sentence before the answer says what was left out of a folder of logs; a note on a run would repeat it.
    attempts = list(grid.runs) if grid.history else [run.changed(warnings=[]) for run in grid.runs]
    own_prices = {run.cell_id: run.price_per_hour for run in attempts if run.price_per_hour is not None}
    request = grid.request
    if request and everything:  # the same command does not continue what it no longer has
        current = {cell.cell_id for cell in request.cells}
        attempts = [run for run in attempts if run.cell_id in current or run.status not in ("killed", "lost")]
    if request is None or everything:
        implied = request_of_runs(grid.name or "", attempts, own_prices)
        request = replace(request, cells=implied.cells, part="", limits=None) if request else implied
    warnings = history_warnings(grid.history) if grid.history else []
    requested = {cell.cell_id for cell in request.cells}
    if left_out := sum(run.cell_id not in requested for run in attempts):
        runs = f"{plural(left_out, 'run')} of other configurations or older code"
        warnings.append(f"{runs} not shown; `raybench report {grid.name} --all` includes them")
    request, attempts = _changed(request, attempts, options)
    executions = grid.history.executions if grid.history else ()
    report = from_attempts(attempts, request, options, warnings, executions, grid.sources)
    answer = replace(report.answer, runs_per_month=options.runs_per_month)
    if options.deadline or options.spend_at_most:
        from raybench.config.values import money_of, seconds_of  # with all of the grid file

        deadline_s = seconds_of(options.deadline, "--deadline") if options.deadline else None
        spend = money_of(options.spend_at_most, "--spend-at-most") if options.spend_at_most else None
        if spend and all(row.price_per_hour is None for row in answer.configurations):
            raise UsageError("spend_at_most: no configuration has a price; set `price_per_hour`, or use --prices")
        within = choices(answer.configurations, deadline_s or math.inf, math.inf if spend is None else spend)
        answer = replace(answer, deadline_s=deadline_s, spend_at_most=spend, within=tuple(within))
    # Without the warnings, the answer may be different.
    status = replace(answer.status, is_own=grid.is_folder, repeats=(*answer.status.repeats, *grid.warnings))
    return replace(report, answer=replace(answer, status=status))


def _changed(request: GridRequest, attempts: Sequence[Run], options: ReportOptions) -> tuple[GridRequest, list[Run]]:
    """Return a request and its runs with the metric, the target, the configurations and the unit that a user chose.

    Raises:
        UsageError: no run has the metric or the target's, or no configuration has the values.
    """
    metrics = dict.fromkeys(name for run in attempts for name in run.epochs.names("metrics"))
    target, metric = request.target, options.metric or request.metric
    if options.target:
        match = _TARGET.fullmatch(options.target)
        if match is None:
            raise UsageError(f"target: {options.target!r} is not like val/loss<=3.28, or 'mean val/loss<=3.28 at 1%'")
        least, most = (float(match["bound"]) if match["sign"] == sign else None for sign in (">=", "<="))
        target = Target(match["metric"], least, most, float(match["level"] or 1) / 100 if match["mean"] else None)
        metric = options.metric or target.metric
    for asked, name in (("metric", options.metric), ("target", target.metric if options.target and target else "")):
        if name and name not in metrics:
            hint = nearest(name, metrics) if metrics else "none has a metric"
            raise UsageError(f"{asked}: no run has {name}; {hint}")
    where = options.where
    pairs = list(where.items()) if isinstance(where, Mapping) else [text.partition("=")[::2] for text in where]
    values_of: dict[str, list[Any]] = {}
    for written, value in pairs:
        axis = written if any(written in cell.axes for cell in request.cells) else f"{PARAM}{written}"
        written_values = value if isinstance(value, (list, tuple)) else [value]
        values_of.setdefault(axis, []).extend(_values(request, {axis: one}, "where")[axis] for one in written_values)
    cells = [cell for cell in request.cells if all(cell.axes.get(axis) in values for axis, values in values_of.items())]
    if not cells:
        raise UsageError(f"where: {request.name} has no configuration with all of {', '.join(values_of)}")
    runs = [run.whole() if options.whole_runs else run for run in attempts]
    budget = request.budget
    if options.budget:
        from raybench.config.values import seconds_of  # with all of the grid file

        budget = {"time": seconds_of(options.budget, "--budget")}
        runs = [replace(run, cell=replace(run.cell, budget={"seconds": budget["time"]})) for run in runs]
    these_machines = options.these_machines or request.these_machines
    changed = replace(request, metric=metric, target=target, cells=cells, these_machines=these_machines)
    return replace(changed, budget=budget), runs


def versions(sources: Sequence[str], options: ReportOptions) -> Grid:
    """Return the versions of a chain as one grid: several sources, or the configurations of one."""
    grids = [one_grid([source], options.folder, options.grid, options.axis) for source in sources]
    parts = [(list(grid.runs), grid.request or request_of_runs(grid.name or "", grid.runs)) for grid in grids]
    names = [user_path(source).stem for source in sources]
    names = names if len({*names}) == len(names) else list(sources)
    runs, request = as_one_grid(VERSION_AXIS, zip(names, parts, strict=True)) if len(parts) > 1 else parts[0]
    request, runs = _changed(request, runs, options)
    directions = {**request.higher_is_better, **options.directions}
    return Grid(runs, replace(request, rule=None, first_look=0, unit=options.unit, higher_is_better=directions))


def _weights(weights: str | Mapping[str, float]) -> dict[str, float]:
    """Return the weights of workloads that a user wrote, such as `vgg16=2,bert=1`."""
    pairs = (
        weights.items() if isinstance(weights, Mapping) else (text.partition("=")[::2] for text in weights.split(","))
    )
    try:
        by_name = {name.strip(): float(value) for name, value in pairs if name.strip()}
    except ValueError:
        raise UsageError(f"weights: {weights!r} is not like vgg16=2,bert=1") from None
    if min(by_name.values(), default=1.0) <= 0:
        raise UsageError(f"weights: {weights!r} has a weight that is not above 0")
    return by_name


def history_warnings(history: GridHistory) -> list[str]:
    """Return warnings that follow from a grid's checks."""
    from raybench.checks.pretrial import PretrialChecks  # which a CSV does not need

    runs = list(history.attempts.values())
    cells = {id(run.cell): run.cell for run in runs if run.cell}  # runs of one cell share the object
    return [*PretrialChecks(history.checks).warnings(cells.values()), *unknown_mfu(runs)]


def with_warnings(report: Report, warnings: Iterable[str]) -> Report:
    """Add notes for warnings that were raised after the report was made."""
    notes = [Caution("warning", text.rstrip(".")) for text in warnings]
    trust = report.answer.trust
    added = [note for note in notes if note not in trust.notes]
    return replace(report, answer=replace(report.answer, trust=replace(trust, notes=(*trust.notes, *added))))


def _baseline_in(baseline: str | Mapping[str, Any] | Iterable[str]) -> dict[str, Any]:
    """Return the baseline that a user wrote: devices, texts such as `AXIS=VALUE`, or values by axis."""
    if isinstance(baseline, Mapping):
        return dict(baseline)
    pairs = (text.partition("=") for text in ([baseline] if isinstance(baseline, str) else baseline))
    return {name.strip() if equals else "device": (right if equals else name).strip() for name, equals, right in pairs}


def _values(request: GridRequest, baseline: Mapping[str, Any], option: str = "baseline") -> dict[str, Any]:
    """Return a baseline, or what a different option names, with the grid's own values.

    Raises:
        UsageError: the grid has no such axis or value; the message names the nearest one.
    """
    values = {}
    for axis, value in baseline.items():
        values_here = [cell.axes[axis] for cell in request.cells if axis in cell.axes]
        if not values_here:
            axes = list(dict.fromkeys(axis for cell in request.cells for axis in cell.axes))
            raise UsageError(f"{option}: {request.name} has no axis {axis}; {nearest(axis, axes)}")
        match = next((choice for choice in values_here if choice == value or is_written(str(value), choice)), None)
        if match is None:
            texts = list(dict.fromkeys(map(str, values_here)))
            raise UsageError(f"{option}: {request.name} has no {axis} {value}; {nearest(str(value), texts)}")
        values[axis] = match
    return values


def one_grid(
    sources: Sequence[str], results: Path, grid: str | None = None, axis: Mapping[str, str] | Sequence[str] = ()
) -> GridSource:
    """Load the one grid of which one or several sources have results.

    Args:
        sources: grid files, names of grids in the results folder, or sources that `raybench.load` reads.
        results: the results folder.
        grid: the grid if the sources have several.
        axis: regular expressions of axes in the names and texts of logs, by name or as `NAME=REGEX`.

    Raises:
        UsageError: a source cannot be read, or they are of several grids; the message lists them.
        StoreError: an MLflow store cannot be reached or used.
    """
    named = [str(folder_of(source, results) or source) for source in sources]
    grids = load_grids(named, grid, "all", axis)
    where = ", ".join(map(redact, sources))
    if len(grids) > 1:
        names = sorted(grid.name or "" for grid in grids)
        raise UsageError(f"{where}: results of {len(names)} grids; choose one with --grid: {', '.join(names)}")
    if not grids[0].runs:
        damage = grids[0].history.warnings if grids[0].history else []
        raise UsageError("\n".join([f"{where}: no trial in it yet", *damage]))
    return replace(grids[0], sources=named)


def folder_of(source: str, results: Path) -> Path | None:
    """Return the folder of a grid that is named by its file or its name; None for any other source.

    Raises:
        UsageError: there is no such grid.
    """
    path = user_path(source)
    is_file = path.suffix in (".yaml", ".yml") and path.is_file()
    if not is_file and (path.exists() or is_store(source)):
        return None
    if is_file:
        from raybench.config import load_grid

        name = load_grid(path).name
    else:
        name = source
    if has_results(results / name):
        return results / name
    if is_file:
        raise UsageError(f"{source}: no results of the grid {name} in {results}; `raybench grid {source}` makes them")
    if path.suffix in (".yaml", ".yml", ".csv", ".zip"):
        raise UsageError(f"{source}: there is no such file")
    if not results.is_dir():
        raise UsageError(f"{results}: no such folder, so that there are no results of a grid {source}; see --results")
    names = grids_in(results)
    raise UsageError(f"{results}: no results of a grid {source}" + (f"; {nearest(source, names)}" if names else ""))
