"""Build reports from a grid's history or from results on disk."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from raybench.analysis.analyze import analyze
from raybench.analysis.answer import Caution
from raybench.analysis.matching import parse_baseline
from raybench.checks.pretrial import PretrialChecks
from raybench.checks.roofline import schedule
from raybench.core.collector import collector_paused
from raybench.core.events import now
from raybench.core.files import write_atomic
from raybench.core.identity import INLINE, SMOKE, is_inline, is_smoke
from raybench.core.secret_masking import redact
from raybench.datasets.paths import user_path
from raybench.errors import UsageError, nearest
from raybench.reporting.report import Report, as_json, make_report
from raybench.results.attempt import Attempt
from raybench.results.grid_request import GridRequest, request_of_runs
from raybench.results.history import GridHistory
from raybench.results.journal import grids_in
from raybench.results.journal import has_journal as has_results
from raybench.sources import load_grids, mlflow_store
from raybench.sources.result_tables import GridSource

if TYPE_CHECKING:
    from raybench.sources.mlflow_store import Progress

HTML, DATA = "report.html", "report.json"


def load_libraries() -> None:
    """Load the libraries of statistics and figures, which takes half a second; any thread may do it in advance."""
    import scipy.special  # noqa: F401


def from_history(
    name: str,
    history: GridHistory,
    request: GridRequest | None,
    warnings: Iterable[str] = (),
    baseline: Sequence[str] = (),
) -> Report:
    """Return the report of a grid's history.

    Args:
        name: of the grid.
        history: its attempts.
        request: what was requested; None if it is not known, and then every configuration is included.
        warnings: messages that are not results, such as results of checks.
        baseline: what to compare with instead of the request's baseline: a device, or AXIS=VALUE.

    Raises:
        UsageError: no configuration has that baseline.
    """
    attempts = list(history.attempts.values())
    asked = _new(request, name) if request else request_of_runs(name, attempts)
    return _report(attempts, asked, baseline, [*warnings, *_check_warnings(history)])


def from_grid(grid: GridSource, baseline: Sequence[str] = (), everything: bool = False) -> Report:
    """Return the report of a grid that was loaded (`raybench.sources.load_grids`).

    Args:
        grid: the grid.
        baseline: see `from_history`.
        everything: whether to include every configuration with results, not only those of the latest request.
    """
    attempts = [record.attempt for record in grid.records]
    request = _new(grid.request, grid.name or "") if grid.request else None
    if request is None or everything:
        known = ((str(each.attempt.profile), each.columns.get("price_per_hour")) for each in grid.records)
        prices = {device: price for device, price in known if price is not None}
        request = replace(request_of_runs(grid.name or "", attempts, prices), text=request.text if request else "")
    warnings = _check_warnings(grid.history) if grid.history else []
    return _report(attempts, request, baseline, [*grid.problems, *warnings])


def _check_warnings(history: GridHistory) -> list[str]:
    """Return warnings that follow from the checks before the trials."""
    proofs = PretrialChecks(list(history.of_kind("check_ended"))).proofs
    runs = list(history.attempts.values())
    decay = [proof.warning for proof, _ in proofs.of(run.cell for run in runs if run.cell) if proof.warning]
    return [*decay, *schedule.warnings(runs)]


def _new(request, name):
    from raybench.results.grid_request import PlannedCell

    return GridRequest(
        name,
        [
            PlannedCell(c.cell_id, c.axes, c.repeats, c.skip, c.price_per_hour, c.content)
            for c in request.cells
            if not getattr(c, "aa_of", None)
        ],
        request.baseline,
        request.workload,
        request.target,
        "",
        request.description,
        request.text,
        request.part,
        request.price_per_kwh,
        request.gco2_per_kwh,
    )


def page_is_current(history, request):
    from raybench.analysis.grid_request import latest_request, same_cells

    page = history.folder / HTML
    if not page.is_file() or page.stat().st_mtime_ns < history.path.stat().st_mtime_ns:
        return False
    return same_cells(latest_request(history), request)


def _report(
    attempts: Sequence[Attempt], request: GridRequest, baseline: Sequence[str], warnings: Iterable[str]
) -> Report:
    cells = {cell.cell_id for cell in request.cells}
    values = parse_baseline(baseline, [cell.axes for cell in request.cells], request.name)
    answer = analyze(attempts, request, values or None, warnings)
    return make_report(answer, [run for run in attempts if run.cell_id in cells], now(), request.text)


def with_warnings(report: Report, warnings: Iterable[str]) -> Report:
    """Add notes for warnings that were raised after the report was made."""
    notes = [Caution("warning", text.rstrip(".")) for text in warnings]
    trust = report.answer.trust
    added = [note for note in notes if note not in trust.notes]
    return replace(report, answer=replace(report.answer, trust=replace(trust, notes=(*trust.notes, *added))))


@collector_paused()
def from_sources(
    sources: Sequence[str],
    results: Path,
    everything: bool = False,
    smoke: bool = False,
    grid: str | None = None,
    baseline: Sequence[str] = (),
    progress: Progress | None = None,
    inline: bool = False,
) -> Report:
    """Return the report of one grid of which one or several sources have results.

    Args:
        sources: grid files, names of grids in the results folder, or sources that `raybench.load` reads.
        results: the results folder.
        everything: see `from_grid`.
        smoke: whether to report the smoke run of the named grid.
        grid: the grid to report if the sources have several.
        baseline: see `from_history`.
        progress: gets the number of files fetched from a store and the total.
        inline: whether to report the trials of `grid --inline` of the named grid.

    Raises:
        UsageError: a source cannot be read, or they are of several grids; the message lists them.
        StoreError: an MLflow store cannot be reached or used.
    """
    return from_grid(one_grid(sources, results, smoke, grid, progress, inline), baseline, everything)


@collector_paused()
def files(report: Report) -> dict[str, str]:
    """Return the files of a report by name: the page, the data, and each figure as an SVG."""
    from raybench.reporting.figures import rendered_figures
    from raybench.reporting.page import page

    drawn = rendered_figures(report.answer)
    figures = {f"figure_{picture.name}.svg": picture.svg for picture in drawn.values()}
    return {HTML: page(report, drawn), DATA: as_json(report), **figures}


def write_page(folder: Path, contents: Mapping[str, str]) -> None:
    """Write the report's page next to the attempts, if one was made.

    Raises:
        OSError: it cannot be written.
    """
    if HTML in contents:
        write_atomic(folder / HTML, contents[HTML])


def one_grid(
    sources: Sequence[str],
    results: Path,
    smoke: bool = False,
    grid: str | None = None,
    progress: Progress | None = None,
    inline: bool = False,
) -> GridSource:
    """Load the one grid of sources; see `from_sources`.

    Raises:
        UsageError: there is none, or several of which none is named.
    """
    named = [str(folder_of(source, results, smoke, inline) or source) for source in sources]
    grids = load_grids(named, grid, "all")
    where = ", ".join(map(redact, sources))
    if len(grids) > 1:
        names = sorted(each.name or "" for each in grids)
        raise UsageError(f"{where}: results of {len(names)} grids; choose one with --grid: {', '.join(names)}")
    if not grids[0].records:
        raise UsageError(f"{where}: no trial in it yet")
    return grids[0]


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
