"""Reports: what is known of a grid, just ended or on disk, is gathered here, and made into files."""

from __future__ import annotations

import json
import logging
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from raybench.analysis.caveats import NoStartupFact, PartOfGridFact, PercentFact
from raybench.analysis.diagnostics.findings import diagnose_all
from raybench.analysis.diagnostics.provenance import find_different_sessions
from raybench.analysis.fact import Fact
from raybench.analysis.grid_results import GridResults, in_fractions, of_journal
from raybench.analysis.request import GridRequest, latest_request, same_cells
from raybench.checks.pretrial import PretrialChecks
from raybench.checks.roofline import schedule
from raybench.core.events import Event, now
from raybench.core.files import write_atomic
from raybench.core.identity import SMOKE, is_smoke, trial_id
from raybench.core.masking import redact
from raybench.core.text import printable, printable_json
from raybench.datasets.folders import user_path
from raybench.errors import UsageError, nearest
from raybench.planning.plan import format_value, is_written
from raybench.reporting.reference_results import reported_numbers
from raybench.reporting.report import Report, ReportContext, as_json, make_report
from raybench.reporting.text import plain
from raybench.results.attempt import Attempt, Key, attempts, latest
from raybench.results.journal import JOURNAL, grids_in, has_journal, read
from raybench.results.recovery import complete_events
from raybench.sources import records, stores
from raybench.sources.tables import Record

log = logging.getLogger("raybench")


HTML, DATA = "report.html", "report.json"


def from_journal(
    name: str,
    told: Sequence[Event],
    wanted: GridRequest | None,
    warnings: Iterable[str] = (),
    everything: bool = False,
    found: Mapping[Key, Attempt] | None = None,
    baseline: Sequence[str] = (),
) -> Report:
    """The report of a grid.

    Args:
        name: of the grid.
        told: every event of its journal.
        wanted: what it asked for; None where only the journal is known, and then every cell in it counts.
        warnings: what else a person should know that is no result.
        everything: every cell that the journal has, also beyond what was asked for.
        found: the attempts that the events tell of, where they are known already.
        baseline: what the others are compared with, instead of the grid's: a device, or AXIS=VALUE.

    Raises:
        UsageError: no cell has such a baseline.
    """
    found = attempts(told) if found is None else found
    if wanted:
        found = _with_warmup(found, wanted)
    last = latest(found.values())
    if wanted and not everything:
        standing = GridResults(name, wanted.workload, wanted.cells, last, wanted.baseline, wanted.target)
    else:
        standing = _everything(of_journal(name, last), wanted)
    standing = _with_baseline(standing, baseline)
    evidence = PretrialChecks(told)
    drifts = evidence.canaries.drifts(found.values())
    apart = find_different_sessions(standing, found.values(), evidence.canaries.told)
    standing = replace(standing, findings=diagnose_all(found.values(), drifts, apart, standing.axes))
    own = [run for cell in standing.cells for run in standing.runs(cell)]
    proofs = [proof.warning for proof, _ in evidence.proofs.of(run.cell for run in own if run.cell) if proof.warning]
    said = Counter(words for run in own for words in run.warnings)
    of_runs = [f"{words} ({count} trial{'s' if count > 1 else ''})" for words, count in said.items()]
    shown = in_fractions(standing)
    return make_report(
        shown,
        ReportContext(
            description=wanted.description if wanted else "",
            text=wanted.text if wanted else "",
            warnings=[*warnings, *proofs, *of_runs, *schedule.warnings(own)],
            drifts=drifts,
            notes=list(map(plain, [*_in_percent(standing, shown), *_left_out(wanted, everything)])),
            published=reported_numbers(shown),
            made=now(),
        ),
    )


def _with_baseline(standing: GridResults, texts: Sequence[str]) -> GridResults:
    """The same with the baseline that the user has chosen, if any: devices, or AXIS=VALUE.

    Raises:
        UsageError: no cell has it.
    """
    values: dict[str, list[Any]] = {}
    for cell in standing.cells:
        for axis, value in cell.axes.items():
            values.setdefault(axis, []).append(value)
    chosen = {}
    for text in texts:
        left, equals, right = (part.strip() for part in text.partition("="))
        axis, value = (left, right) if equals else ("device", left)
        if axis not in values:
            known = nearest(axis, values) if values else "there is none"
            raise UsageError(f"--baseline {text}: {standing.name} has no axis {axis}; {known}")
        same = [known for known in values[axis] if is_written(value, known)]
        if not same:
            known = nearest(value, dict.fromkeys(map(format_value, values[axis])))
            raise UsageError(f"--baseline {text}: {axis} of {standing.name} is never {value}; {known}")
        chosen[axis] = same[0]
    return replace(standing, baseline=chosen) if chosen else standing


def _with_warmup(found: Mapping[Key, Attempt], wanted: GridRequest) -> dict[Key, Attempt]:
    """The attempts with as many warm-up epochs as the grid asks for now, whatever it asked for when they ran."""
    asked = {cell.cell_id: cell.content["warmup_epochs"] for cell in wanted.cells if "warmup_epochs" in cell.content}
    return {
        key: replace(attempt, cell={**attempt.cell, "warmup_epochs": asked[attempt.cell_id]})
        if attempt.cell and attempt.cell_id in asked
        else attempt
        for key, attempt in found.items()
    }


def _everything(standing: GridResults, wanted: GridRequest | None) -> GridResults:
    """Every cell of a journal, with what the grid says of them: where a skipped one lies, prices, the baseline."""
    if wanted is None:
        return standing
    known = {cell.cell_id: cell for cell in wanted.cells}
    prices = {str(cell.axes.get("device")): cell.price_per_hour for cell in wanted.cells}
    there = {axis for cell in standing.cells for axis in cell.axes}
    cells = []
    for cell in standing.cells:
        asked = known.get(cell.cell_id)
        own = {axis: value for axis, value in asked.axes.items() if axis in there} if asked else {}
        price = prices.get(str(cell.axes.get("device", own.get("device"))))
        cells.append(replace(cell, axes=cell.axes or own, price_per_hour=price))
    baseline = {axis: value for axis, value in wanted.baseline.items() if axis in there}
    target = wanted.target or standing.target
    return replace(standing, cells=cells, baseline=baseline or standing.baseline, target=target)


def _in_percent(recorded: GridResults, shown: GridResults) -> list[Fact]:
    return [] if shown is recorded else [PercentFact()]


def _left_out(wanted: GridRequest | None, everything: bool) -> list[Fact]:
    return [] if everything or wanted is None or not wanted.part else [PartOfGridFact(wanted.part)]


def files(report: Report) -> dict[str, str]:
    """The report as files, by their names: the page, the data, and each figure as an SVG of its own."""
    from raybench.reporting.figures import FIGURES, rendered_figures
    from raybench.reporting.html import page

    # Of a smoke run's numbers none is a result, and a figure would make one of them.
    drawn, left_out = ([], {}) if report.standing.smoke else rendered_figures(report.standing)
    titles = {FIGURES[name].title: reason for name, reason in left_out.items()}
    figures = {f"figure_{picture.name}.svg": picture.svg for picture in drawn}
    pages = {HTML: page(report, drawn, titles), **figures}
    # `cat report.html` is a terminal, too, and XML admits no control characters.
    return {**{name: printable(made) for name, made in pages.items()}, DATA: text(as_json(report, left_out))}


def write_page(folder: Path, made: Mapping[str, str]) -> None:
    """Write the report's page beside the journal, where one was made.

    Raises:
        OSError: it cannot be written.
    """
    if HTML in made:
        write_atomic(folder / HTML, made[HTML])


def page_is_current(folder: Path, wanted: GridRequest) -> bool:
    """Whether the HTML report is newer than the journal and shows the requested cells."""
    page, journal = folder / HTML, folder / JOURNAL
    if not page.is_file() or page.stat().st_mtime_ns < journal.stat().st_mtime_ns:
        return False
    return same_cells(latest_request(journal, read(journal)), wanted)


def text(data: Mapping[str, Any]) -> str:
    """Plain data as JSON; what JSON does not know is written as people would."""
    return printable_json(json.dumps(data, indent=1, default=str, ensure_ascii=False)) + "\n"


def from_source(
    source: str,
    results: Path,
    everything: bool = False,
    smoke: bool = False,
    grid: str | None = None,
    baseline: Sequence[str] = (),
    progress: stores.Progress | None = None,
) -> Report:
    """The report of what is on disk, or in an MLflow store.

    Args:
        source: a grid file, the name of a grid in the results folder, a grid's own folder, or a journal; or whatever
            else `raybench.load` reads: an MLflow store, a CSV of epochs.
        results: the results folder.
        everything: every cell that the journal has, not only those that the grid asked for last.
        smoke: of the smoke run of the grid that is named.
        grid: which one, where the source has several.
        baseline: what the others are compared with, instead of the grid's: a device, or AXIS=VALUE.
        progress: gets the bytes that were fetched from a store, and all.

    Raises:
        UsageError: there is no such thing; the message says what there is.
        StoreError: the MLflow store cannot be reached or used.
    """
    path = user_path(source)
    if stores.is_store(source) and not path.is_dir():
        with stores.journals_of(stores.store_of(source, path), grid, progress) as journals:
            if len(journals) > 1:
                names = ", ".join(sorted(each.grid for each in journals))
                raise UsageError(f"{redact(source)}: results of {len(journals)} grids; say --grid, of {names}")
            (found,) = journals
            shown = f"{redact(source)}: {found.grid}"
            return _of_journal(found.path, shown, found.grid, found.problems, everything, baseline)
    if path.suffix == ".csv":
        return from_records(source, records(source, grid), baseline)
    journal = _journal(source, results, smoke, grid)
    return _of_journal(journal, str(journal), journal.absolute().parent.name, (), everything, baseline)


def _of_journal(
    journal: Path, source: str, grid: str, problems: Sequence[str], everything: bool, baseline: Sequence[str]
) -> Report:
    """The report of a journal.

    Args:
        journal: the journal, with the files of its executions in their folders.
        source: what messages call it.
        grid: the grid's name, where the events do not say it.
        problems: what is missing in it.
        everything, baseline: see `of_source`.
    """
    damaged: list[int] = []
    told = complete_events(journal, damaged)
    known = attempts(told)
    if not known:
        raise UsageError(
            f"{source}:{damaged[0]}: no event of a journal" if damaged else f"{source}: no trial in it yet"
        )
    lines = [f"{len(damaged)} damaged lines of the journal are left out"] if damaged else []
    name = next((run.grid for run in known.values() if run.grid), None) or grid
    return from_journal(name, told, latest_request(journal, told), [*problems, *lines], everything, known, baseline)


def from_records(source: str, found: Sequence[Record], baseline: Sequence[str] = ()) -> Report:
    """The report of results that are no journal: every cell they have, as far as they tell.

    Args:
        source: where they are from.
        found: the rows of one grid (`raybench.sources.records`).
        baseline: what the others are compared with: a device, or AXIS=VALUE; by default the first device.

    Raises:
        UsageError: they are of several grids, there are none, or none has that baseline.
    """
    grids = list(dict.fromkeys(record.attempt.grid or record.grid or "" for record in found))
    if len(grids) > 1:
        raise UsageError(f"{redact(source)}: results of {len(grids)} grids; say --grid, of {', '.join(sorted(grids))}")
    if not found:
        raise UsageError(f"{redact(source)}: no results in it")
    own = [_named(record) for record in found]
    told = [(str(each.attempt.profile), each.known.get("price_per_hour")) for each in found]
    prices = {device: price for device, price in told if price is not None}
    standing = _with_baseline(of_journal(grids[0], latest(own), prices), baseline)
    standing = replace(standing, findings=diagnose_all(own, ()))
    shown = in_fractions(standing)
    facts = [*_in_percent(standing, shown), *([] if any(run.ledger for run in own) else [NoStartupFact()])]
    return make_report(
        shown, ReportContext(notes=list(map(plain, facts)), published=reported_numbers(shown), made=now())
    )


def _named(record: Record) -> Attempt:
    """A record's attempt under the name that tells its cell and its repeat, which other sources tell beside it."""
    attempt, known = record.attempt, record.known
    cell, repeat = known.get("cell", attempt.cell_id), known.get("repeat", attempt.repeat)
    return replace(attempt, trial=trial_id(cell, repeat))


def _journal(source: str, results: Path, smoke: bool, grid: str | None) -> Path:
    """The journal that a person means.

    Raises:
        UsageError: there is none.
    """
    path = user_path(source)
    grids = [] if has_journal(path) else grids_in(path)
    if grids:
        if grid is None and len(grids) > 1:
            raise UsageError(f"{source}: results of {len(grids)} grids; say --grid, of {', '.join(grids)}")
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
    if smoke and not is_smoke(name):
        name += SMOKE
    if has_journal(results / name):
        return results / name / JOURNAL
    there = grids_in(results)
    if path.is_file():
        makes = f"raybench grid {source}{' --smoke' if smoke else ''}"
        raise UsageError(f"{source}: grid {name} has no journal in {results}; `{makes}` makes one")
    if path.suffix in (".yaml", ".yml", ".jsonl"):
        raise UsageError(f"{source}: {'is not a regular file' if path.exists() else 'there is no such file'}")
    raise UsageError(f"{results}: no journal of a grid {source}" + (f"; {nearest(source, there)}" if there else ""))
