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
from raybench.analysis.grid_request import GridRequest, latest_request, same_cells
from raybench.analysis.grid_results import GridResults, in_fractions, of_journal
from raybench.analysis.remarks import NoStartupFact, PartOfGridFact, PercentFact
from raybench.checks.pretrial import PretrialChecks
from raybench.checks.roofline import schedule
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
from raybench.results.bundle import is_bundle
from raybench.results.history import GridHistory
from raybench.results.journal import JOURNAL, grids_in, has_journal
from raybench.results.union import GridEvents, as_further_repeats, events_of, with_distinct_hosts
from raybench.sources import mlflow_store, records
from raybench.sources.journal import of_history
from raybench.sources.result_tables import GridSource, Record
from raybench.sources.union import grids_of, load_union, parts_of, several_grids, union_history

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
        request: the request of its last execution; None if only the journal is known, and then every cell in it is
            included.
        warnings: messages for the user that are not results.
        all_cells: whether to include every cell of the journal, also those that were not requested.
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
        proof.warning for proof, _ in evidence.proofs.of(run.cell for run in runs if run.cell) if proof.warning
    ]
    warning_counts = Counter(warning for run in runs for warning in run.warnings)
    run_warnings = [f"{warning} ({count} trial{'s' if count > 1 else ''})" for warning, count in warning_counts.items()]
    shown_results = in_fractions(results)
    return make_report(
        shown_results,
        ReportContext(
            description=request.description if request else "",
            text=request.text if request else "",
            warnings=[*warnings, *proof_warnings, *run_warnings, *schedule.warnings(runs)],
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
    checks: Sequence[Event] = list(history.of_kind("check_ended"))
    if any(attempt.origin for attempt in attempts.values()):
        requested = {cell.cell_id: cell.repeats for cell in request.cells} if request else {}
        attempts, checks = with_distinct_hosts(attempts, checks)
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
    """Return the request with further repeats, each as a trial (`raybench.results.union.as_further_repeats`)."""
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
    """Return every cell of a journal, completed with the request's data.

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
    """Write the report's page next to the journal, if one was made.

    Raises:
        OSError: it cannot be written.
    """
    if HTML in contents:
        write_atomic(folder / HTML, contents[HTML])


def page_is_current(history: GridHistory, request: GridRequest) -> bool:
    """Return whether the HTML report is current.

    It is if it is newer than the journal and shows the requested cells.
    """
    page = history.folder / HTML
    if not page.is_file() or page.stat().st_mtime_ns < history.path.stat().st_mtime_ns:
        return False
    return same_cells(latest_request(history), request)


def text(data: Mapping[str, Any]) -> str:
    """Return plain data as JSON.

    Values of other types are written as text.
    """
    return printable_json(json.dumps(data, indent=1, default=str, ensure_ascii=False)) + "\n"


@collector_paused()
def from_source(
    source: str,
    results: Path,
    everything: bool = False,
    smoke: bool = False,
    grid: str | None = None,
    baseline: Sequence[str] = (),
    progress: mlflow_store.Progress | None = None,
    inline: bool = False,
) -> Report:
    """Return the report of results on disk or in an MLflow store.

    Args:
        source: a grid file, the name of a grid in the results folder, a grid's own folder, or a journal; or any other
            source that `raybench.load` reads: an MLflow store, a CSV of epochs.
        results: the results folder.
        everything: whether to include every cell of the journal, not only those of the latest request.
        smoke: whether to report the smoke run of the named grid.
        grid: the grid to report if the source has several.
        baseline: the baseline to use instead of the grid's: a device, or AXIS=VALUE.
        progress: callback with the numbers of bytes fetched from a store and in total.
        inline: whether to report the trials of `grid --inline` of the named grid.

    Raises:
        UsageError: the source does not exist; the message lists the available ones.
        StoreError: the MLflow store cannot be reached or used.
    """
    path = user_path(source)
    if is_bundle(path):
        return from_sources([source], results, everything, smoke, grid, baseline, progress, inline)
    if mlflow_store.is_store(source) and not path.is_dir():
        with mlflow_store.journals_of(mlflow_store.store_of(source, path), grid, progress) as journals:
            if len(journals) > 1:
                raise several_grids(redact(source), (each.grid for each in journals))
            (stored_journal,) = journals
            label = f"{redact(source)}: {stored_journal.grid}"
            return _of_journal(
                stored_journal.path, label, stored_journal.grid, stored_journal.problems, everything, baseline
            )
    if path.suffix == ".csv":
        return from_records(source, records(source, grid), baseline)
    journal = journal_of(source, results, smoke, grid, inline)
    return _of_journal(journal, str(journal), journal.absolute().parent.name, (), everything, baseline)


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
    """Return the report of one grid of which several sources have results.

    Args:
        sources: results folders, journals, bundles, MLflow stores, grid files, or names of grids in the results folder;
            of the first come the baseline and the order of the cells.
        results, everything, smoke, grid, baseline, progress, inline: see `from_source`.

    Raises:
        UsageError: a source cannot be read, they are of several grids, or two have the same attempt with other content.
        StoreError: an MLflow store cannot be reached or used.
    """
    if len(sources) == 1 and not is_bundle(user_path(sources[0])):
        return from_source(sources[0], results, everything, smoke, grid, baseline, progress, inline)
    parts = _parts(sources, results, smoke, grid, progress, inline)
    united = load_union(parts)
    if not united.records:
        raise UsageError(f"{', '.join(part.source for part in parts)}: no trial in it yet")
    return from_grid(united, everything, baseline)


def session_of(source: str, results: Path, grid: str | None = None) -> Session:
    """Return the results of a source, to compare them with another one's.

    Args:
        source: see `from_sources`.
        results, grid: see `from_source`.

    Raises:
        UsageError: the source cannot be read, or has several grids.
        StoreError: an MLflow store cannot be reached or used.
    """
    parts = _parts([source], results, grid=grid)
    history = union_history(parts)
    request = latest_request(history)
    attempts, _, request = _of_every_machine(history, request)
    last_attempts = latest(attempts.values())
    name = parts[0].grid
    if request:
        evaluated = GridResults(name, request.workload, request.cells, last_attempts, request.baseline)
    else:
        evaluated = of_journal(name, last_attempts)
    return Session(source, evaluated)


def _parts(
    sources: Sequence[str],
    results: Path,
    smoke: bool = False,
    grid: str | None = None,
    progress: mlflow_store.Progress | None = None,
    inline: bool = False,
) -> list[GridEvents]:
    """Return the parts of one grid of which several sources have results."""
    grids = []
    for source in sources:
        path = user_path(source)
        if path.suffix == ".csv":
            raise UsageError(f"{redact(source)}: has no journal to unite with other sources; report it alone")
        if is_bundle(path) or mlflow_store.is_store(source) or path.is_dir() or has_journal(path):
            grids.append(grids_of(source, grid, progress))
        else:
            journal = journal_of(source, results, smoke, inline=inline)
            grids.append([events_of(journal, str(journal))])
    return parts_of(grids, grid, sources)


def _of_journal(
    journal: Path, source: str, grid: str, problems: Sequence[str], all_cells: bool, baseline: Sequence[str]
) -> Report:
    """Return the report of a journal.

    Args:
        journal: the journal, with the files of its executions in their folders.
        source: its name in messages.
        grid: the grid's name, if the events do not record it.
        problems: descriptions of missing parts.
        all_cells, baseline: see `from_source`.
    """
    history = GridHistory.read(journal)
    damaged_lines = history.damaged_lines
    if not history.attempts:
        raise UsageError(
            f"{source}:{damaged_lines[0]}: no event of a journal" if damaged_lines else f"{source}: no trial in it yet"
        )
    return from_grid(of_history(grid, history, tuple(problems)), all_cells, baseline)


def from_grid(grid: GridSource, all_cells: bool = False, baseline: Sequence[str] = ()) -> Report:
    """Return the report of a grid that was loaded (`raybench.sources.load_grids`).

    Args:
        grid: the grid.
        all_cells, baseline: see `from_source`.
    """
    name, history = grid.name or "", grid.history
    if history is None:
        return from_records(name, grid.records, baseline)
    lines = [f"{len(history.damaged_lines)} damaged lines of the journal are left out"] if history.damaged_lines else []
    return from_history(name, history, grid.request, [*grid.problems, *lines], all_cells, baseline)


def from_records(source: str, grid_records: Sequence[Record], baseline: Sequence[str] = ()) -> Report:
    """Return the report of results without a journal, with all their cells.

    Args:
        source: the origin of the results.
        grid_records: the rows of one grid (`raybench.sources.records`).
        baseline: the baseline: a device, or AXIS=VALUE; by default the first device.

    Raises:
        UsageError: they are of several grids, there are none, or none has that baseline.
    """
    grids = list(dict.fromkeys(record.attempt.grid or record.grid or "" for record in grid_records))
    if len(grids) > 1:
        raise several_grids(redact(source), grids)
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


def journal_of(source: str, results: Path, smoke: bool = False, grid: str | None = None, inline: bool = False) -> Path:
    """Return the journal that a source refers to.

    Raises:
        UsageError: there is none.
    """
    path = user_path(source)
    grids = [] if has_journal(path) else grids_in(path)
    if grids:
        if grid is None and len(grids) > 1:
            raise several_grids(source, grids)
        if grid is not None and grid not in grids:
            raise UsageError(f"{source}: no results of a grid {grid}; {nearest(grid, grids)}")
        return path / (grid or grids[0]) / JOURNAL
    if grid is not None:
        raise UsageError(f"--grid {grid}: {source} names one grid already")
    if has_journal(path):
        return path / JOURNAL
    if (path.is_file() and path.suffix not in (".yaml", ".yml")) or (path.name == JOURNAL and has_journal(path.parent)):
        return path
    if path.is_file():
        from raybench.config import load_grid

        name = load_grid(path).name
    else:
        name = source
    if inline and not is_inline(name):
        name += INLINE
    if smoke and not is_smoke(name):
        name += SMOKE
    if has_journal(results / name):
        return results / name / JOURNAL
    grid_names = grids_in(results)
    if path.is_file():
        command = f"raybench grid {source}{' --inline' if inline else ''}{' --smoke' if smoke else ''}"
        raise UsageError(f"{source}: grid {name} has no journal in {results}; `{command}` makes one")
    if path.suffix in (".yaml", ".yml", ".jsonl"):
        raise UsageError(f"{source}: {'is not a regular file' if path.exists() else 'there is no such file'}")
    raise UsageError(
        f"{results}: no journal of a grid {source}" + (f"; {nearest(source, grid_names)}" if grid_names else "")
    )
