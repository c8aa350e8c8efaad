"""Build reports from a grid's history or from results on disk."""

from __future__ import annotations

import json
import logging
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from raybench.analysis.before_after import Session
from raybench.analysis.diagnostics.diagnose import diagnose_all
from raybench.analysis.diagnostics.other_machines import compare_machines
from raybench.analysis.diagnostics.provenance import find_different_sessions
from raybench.analysis.fact import Fact
from raybench.analysis.grid_request import GridRequest
from raybench.analysis.grid_results import GridResults, in_fractions, of_journal
from raybench.analysis.remarks import NoStartupFact, PartOfGridFact, PercentFact
from raybench.checks.pretrial import PretrialChecks, missing_rooflines
from raybench.core.collector import collector_paused
from raybench.core.events import Event, now
from raybench.core.files import write_atomic
from raybench.core.identity import INLINE, SMOKE, is_inline, is_smoke, trial_id
from raybench.core.secret_masking import redact
from raybench.core.settings import MISSING
from raybench.core.text import printable, printable_json
from raybench.datasets.paths import user_path
from raybench.errors import UsageError, nearest
from raybench.reporting.report import Report, ReportContext, as_json, make_report
from raybench.reporting.sentences import plain
from raybench.results.attempt import Attempt, Key, latest
from raybench.results.folder import grids_in, has_results
from raybench.results.history import GridHistory
from raybench.results.machines import as_further_repeats
from raybench.sources import load_grids, mlflow_store
from raybench.sources.result_tables import GridSource, Record

log = logging.getLogger("raybench")


HTML, DATA = "report.html", "report.json"


def load_libraries() -> None:
    """Load the libraries of statistics and figures, which takes half a second; any thread may do it in advance."""
    import scipy.special  # noqa: F401


def from_history(
    name: str,
    history: GridHistory,
    request: GridRequest | None,
    warnings: Iterable[str] = (),
    all_cells: bool = False,
    baseline: Sequence[str] = (),
) -> Report:
    """Return the report of a grid.

    Args:
        name: of the grid.
        history: its events and attempts.
        request: the request of its last execution; None if it is not known, and then every cell is included.
        warnings: messages for the user that are not results.
        all_cells: whether to include every cell with results, also those that were not requested.
        baseline: the baseline to use instead of the grid's: a device, or AXIS=VALUE.

    Raises:
        UsageError: no cell has such a baseline.
    """
    all_attempts, checks, request = _of_every_machine(history, request)
    last_attempts = latest(all_attempts.values())
    if request and not all_cells:
        results = GridResults(name, request.workload, request.cells, last_attempts, request.baseline, request.target)
    else:
        results = _everything(of_journal(name, last_attempts), request)
    if request:
        results = replace(results, price_per_kwh=request.price_per_kwh, gco2_per_kwh=request.gco2_per_kwh)
    results = _with_baseline(results, baseline)
    evidence = PretrialChecks(checks)
    observations = find_different_sessions(results, all_attempts.values())
    machines = compare_machines(results)
    found = diagnose_all(all_attempts.values(), observations, results.axes, machines)
    results = replace(results, findings=found)
    runs = [run for cell in results.cells for run in results.runs(cell)]
    proof_warnings = [
        proof.warning for proof, _ in evidence.decay_checks(run.cell for run in runs if run.cell) if proof.warning
    ]
    warning_counts = Counter(warning for run in runs for warning in run.warnings)
    run_warnings = [f"{warning} ({count} trial{'s' if count > 1 else ''})" for warning, count in warning_counts.items()]
    shown_results = in_fractions(results)
    return make_report(
        shown_results,
        ReportContext(
            description=request.description if request else "",
            text=request.text if request else "",
            warnings=[*warnings, *proof_warnings, *run_warnings, *missing_rooflines(runs)],
            notes=list(map(plain, [*_in_percent(results), *_left_out(request, all_cells)])),
            made=now(),
        ),
    )


def _of_every_machine(
    history: GridHistory, request: GridRequest | None
) -> tuple[Mapping[Key, Attempt], Sequence[Event], GridRequest | None]:
    """Return the attempts of a grid, its checks and its request.

    The runs of other machines are further repeats.
    """
    attempts: Mapping[Key, Attempt] = history.attempts
    checks: Sequence[Event] = history.checks
    if len({attempt.origin for attempt in attempts.values()}) > 1:
        requested = {cell.cell_id: cell.repeats for cell in request.cells} if request else {}
        attempts = as_further_repeats(attempts, requested)
        new_trials = {attempt.trial for attempt in attempts.values()} - {trial for trial, _ in history.attempts}
        request = _with_repeats(request, new_trials) if request else None
    return (_with_warmup(attempts, request) if request else attempts), checks, request


def _with_baseline(results: GridResults, texts: Sequence[str]) -> GridResults:
    """Replace the baseline by the user's choice, if any: devices, or AXIS=VALUE.

    Raises:
        UsageError: no cell has it.
    """
    baseline = {}
    for text in texts:
        left, equals, right = (part.strip() for part in text.partition("="))
        axis, value = (left, right) if equals else ("device", left)
        try:
            baseline[axis] = results.value_on(axis, value)
        except UsageError as error:
            raise UsageError(f"--baseline {text}: {error}") from None
    return replace(results, baseline=baseline) if baseline else results


def _with_repeats(request: GridRequest, trials: Iterable[str]) -> GridRequest:
    """Return the request with further repeats, each as a trial (`raybench.results.machines.as_further_repeats`)."""
    repeats: dict[str, int] = {}
    for trial in trials:
        attempt = Attempt(trial, 1)
        repeats[attempt.cell_id] = max(attempt.repeat + 1, repeats.get(attempt.cell_id, 0))
    cells = [replace(cell, repeats=max(cell.repeats, repeats.get(cell.cell_id, 0))) for cell in request.cells]
    return replace(request, cells=cells)


def _with_warmup(all_attempts: Mapping[Key, Attempt], request: GridRequest) -> dict[Key, Attempt]:
    """Return the attempts with the warm-up epochs of the current request.

    The number that was requested when they ran is ignored.
    """
    warmup_epochs = {
        cell.cell_id: cell.content.warmup_epochs for cell in request.cells if cell.content.warmup_epochs is not MISSING
    }
    return {
        key: replace(attempt, cell=replace(attempt.cell, warmup_epochs=warmup_epochs[attempt.cell_id]))
        if attempt.cell and attempt.cell.warmup_epochs != warmup_epochs.get(attempt.cell_id, attempt.cell.warmup_epochs)
        else attempt
        for key, attempt in all_attempts.items()
    }


def _everything(results: GridResults, request: GridRequest | None) -> GridResults:
    """Return every cell with results, completed with the request's data.

    These are the axes of skipped cells, prices and the baseline.
    """
    if request is None:
        return results
    planned_by_id = {cell.cell_id: cell for cell in request.cells}
    prices = {str(cell.axes.get("device")): cell.price_per_hour for cell in request.cells}
    grid_axes = {axis for cell in results.cells for axis in cell.axes}
    cells = []
    for cell in results.cells:
        planned = planned_by_id.get(cell.cell_id)
        cell_axes = {axis: value for axis, value in planned.axes.items() if axis in grid_axes} if planned else {}
        price = prices.get(str(cell.axes.get("device", cell_axes.get("device"))))
        cells.append(replace(cell, axes=cell.axes or cell_axes, price_per_hour=price))
    baseline = {axis: value for axis, value in request.baseline.items() if axis in grid_axes}
    target = request.target or results.target
    return replace(results, cells=cells, baseline=baseline or results.baseline, target=target)


def _in_percent(recorded_results: GridResults) -> list[Fact]:
    return [PercentFact()] if recorded_results.has_percent else []


def _left_out(request: GridRequest | None, all_cells: bool) -> list[Fact]:
    return [] if all_cells or request is None or not request.part else [PartOfGridFact(request.part)]


@collector_paused()
def files(report: Report, with_data: bool = True) -> dict[str, str]:
    """Return the files of a report by name.

    These are the page, the data, and each figure as an SVG.

    Args:
        report: the report.
        with_data: whether to include the data, which in a large grid takes as long as the page.
    """
    from raybench.reporting.figures import FIGURES, rendered_figures
    from raybench.reporting.html import page

    # Numbers of a smoke run are not results, and a figure would present them as such.
    drawn, left_out = ([], {}) if report.results.smoke else rendered_figures(report.results)
    titles = {FIGURES[name].title: reason for name, reason in left_out.items()}
    figures = {f"figure_{picture.name}.svg": picture.svg for picture in drawn}
    pages = {HTML: page(report, drawn, titles), **figures}
    # Users may print the page to a terminal (`cat report.html`), and XML does not allow control characters.
    data = {DATA: text(as_json(report, left_out))} if with_data else {}
    return {name: printable(content) for name, content in pages.items()} | data


def write_page(folder: Path, contents: Mapping[str, str]) -> None:
    """Write the report's page next to the attempts, if one was made.

    Raises:
        OSError: it cannot be written.
    """
    if HTML in contents:
        write_atomic(folder / HTML, contents[HTML])


def text(data: Mapping[str, Any]) -> str:
    """Return plain data as JSON.

    Values of other types are written as text.
    """
    return printable_json(json.dumps(data, indent=1, default=str, ensure_ascii=False)) + "\n"


@collector_paused()
def from_sources(
    sources: Sequence[str],
    results: Path,
    everything: bool = False,
    smoke: bool = False,
    grid: str | None = None,
    baseline: Sequence[str] = (),
    progress: mlflow_store.Progress | None = None,
    inline: bool = False,
) -> Report:
    """Return the report of one grid of which one or several sources have results.

    Args:
        sources: grid files, names of grids in the results folder, or sources that `raybench.load` reads.
        results: the results folder.
        everything: whether to include every cell with results, not only those of the latest request.
        smoke: whether to report the smoke run of the named grid.
        grid: the grid to report if the sources have several.
        baseline: the baseline to use instead of the grid's: a device, or AXIS=VALUE.
        progress: gets the number of files fetched from a store and the total.
        inline: whether to report the trials of `grid --inline` of the named grid.

    Raises:
        UsageError: a source cannot be read, or they are of several grids; the message lists them.
        StoreError: an MLflow store cannot be reached or used.
    """
    return from_grid(_one_grid(sources, results, smoke, grid, progress, inline), everything, baseline)


def session_of(source: str, results: Path, grid: str | None = None) -> Session:
    """Return the results of a source, to compare them with another one's.

    Args:
        source: see `from_sources`.
        results, grid: see `from_sources`.

    Raises:
        UsageError: the source cannot be read, or has several grids.
        StoreError: an MLflow store cannot be reached or used.
    """
    loaded = _one_grid([source], results, grid=grid)
    if loaded.history is None:
        raise UsageError(f"{redact(source)}: a table has no request to compare; report it alone")
    name = loaded.name or ""
    attempts, _, request = _of_every_machine(loaded.history, loaded.request)
    last_attempts = latest(attempts.values())
    if request:
        evaluated = GridResults(name, request.workload, request.cells, last_attempts, request.baseline)
    else:
        evaluated = of_journal(name, last_attempts)
    return Session(source, evaluated)


def _one_grid(
    sources: Sequence[str],
    results: Path,
    smoke: bool = False,
    grid: str | None = None,
    progress: mlflow_store.Progress | None = None,
    inline: bool = False,
) -> GridSource:
    """Load the one grid of sources.

    Raises:
        UsageError: there is none, or several of which none is named.
    """
    named = [str(folder_of(source, results, smoke, inline) or source) for source in sources]
    grids = load_grids(named, grid, "all", progress)
    if len(grids) > 1:
        names = sorted(each.name or "" for each in grids)
        where = ", ".join(map(redact, sources))
        raise UsageError(f"{where}: results of {len(names)} grids; choose one with --grid: {', '.join(names)}")
    if not grids[0].records:
        raise UsageError(f"{redact(sources[0])}: no trial in it yet")
    return grids[0]


def from_grid(grid: GridSource, all_cells: bool = False, baseline: Sequence[str] = ()) -> Report:
    """Return the report of a grid that was loaded (`raybench.sources.load_grids`).

    Args:
        grid: the grid.
        all_cells, baseline: see `from_sources`.
    """
    name, history = grid.name or "", grid.history
    if history is None:
        return from_records(name, grid.records, baseline)
    return from_history(name, history, grid.request, history.warnings, all_cells, baseline)


def from_records(source: str, grid_records: Sequence[Record], baseline: Sequence[str] = ()) -> Report:
    """Return the report of results in a table, with all their cells.

    Args:
        source: the origin of the results.
        grid_records: the rows of one grid (`raybench.sources.records`).
        baseline: the baseline: a device, or AXIS=VALUE; by default the first device.

    Raises:
        UsageError: there are none, or none has that baseline.
    """
    grids = list(dict.fromkeys(record.attempt.grid or record.grid or "" for record in grid_records))
    if not grid_records:
        raise UsageError(f"{redact(source)}: no results in it")
    runs = [_named(record) for record in grid_records]
    known_prices = [(str(each.attempt.profile), each.columns.get("price_per_hour")) for each in grid_records]
    prices = {device: price for device, price in known_prices if price is not None}
    results = _with_baseline(of_journal(grids[0], latest(runs), prices), baseline)
    results = replace(results, findings=diagnose_all(runs), file=redact(source))
    shown_results = in_fractions(results)
    facts = [*_in_percent(results), *([] if any(run.ledger for run in runs) else [NoStartupFact()])]
    return make_report(
        shown_results,
        ReportContext(notes=list(map(plain, facts)), made=now()),
    )


def _named(record: Record) -> Attempt:
    """Return a record's attempt, named by its cell and repeat.

    Other sources store these in separate fields.
    """
    attempt, columns = record.attempt, record.columns
    cell, repeat = columns.get("cell", attempt.cell_id), columns.get("repeat", attempt.repeat)
    return replace(attempt, trial=trial_id(cell, repeat))


def folder_of(source: str, results: Path, smoke: bool = False, inline: bool = False) -> Path | None:
    """Return the folder of a grid that is named by its file or its name; None for any other source.

    Raises:
        UsageError: there is no such grid.
    """
    path = user_path(source)
    is_file = path.suffix in (".yaml", ".yml") and path.is_file()
    if not is_file and (path.exists() or mlflow_store.is_store(source)):
        return None
    if is_file:
        from raybench.config import load_grid

        name = load_grid(path).name
    else:
        name = source
    if inline and not is_inline(name):
        name += INLINE
    if smoke and not is_smoke(name):
        name += SMOKE
    if has_results(results / name):
        return results / name
    if is_file:
        command = f"raybench grid {source}{' --inline' if inline else ''}{' --smoke' if smoke else ''}"
        raise UsageError(f"{source}: no results of the grid {name} in {results}; `{command}` makes them")
    if path.suffix in (".yaml", ".yml", ".csv", ".zip"):
        raise UsageError(f"{source}: there is no such file")
    names = grids_in(results)
    raise UsageError(f"{results}: no results of a grid {source}" + (f"; {nearest(source, names)}" if names else ""))
