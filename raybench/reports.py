"""Reports: what is known of a grid, just ended or on disk, is gathered here, and made into files."""

from __future__ import annotations

import json
import logging
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from raybench import rooflines
from raybench.analysis.apart import made_apart
from raybench.analysis.findings import Finding, survey
from raybench.analysis.report import Report, Told, as_json, make_report
from raybench.analysis.results import Attempt, Key, attempts, latest
from raybench.analysis.standing import Standing, of_journal
from raybench.analysis.tables import Record
from raybench.errors import UsageError, nearest
from raybench.evidence import Evidence
from raybench.identity import SMOKE, is_smoke, trial_id
from raybench.sources import records
from raybench.sources.beside import beside
from raybench.tracking.journal import JOURNAL, read
from raybench.tracking.store import is_uri, redact
from raybench.trial.events import Event, now
from raybench.trial.writing import put
from raybench.wanted import Wanted, last_wanted, same_cells

log = logging.getLogger("raybench")

LOADED = (".db", ".sqlite", ".csv", ".json", ".tsv")
"""Ends of the names of files that are results and no journal."""

NO_START = "These results do not tell what each run paid before its first step, so that nothing is said of job lengths."

HTML, DATA = "report.html", "report.json"


def of_events(
    name: str,
    told: Sequence[Event],
    wanted: Wanted | None,
    warnings: Iterable[str] = (),
    everything: bool = False,
    found: Mapping[Key, Attempt] | None = None,
) -> Report:
    """The report of a grid.

    Args:
        name: of the grid.
        told: every event of its journal.
        wanted: what it asked for; None where only the journal is known, and then every cell in it counts.
        warnings: what else a person should know that is no result.
        everything: every cell that the journal has, also beyond what was asked for.
        found: the attempts that the events tell of, where they are known already.
    """
    found = attempts(told) if found is None else found
    last = latest(found.values())
    if wanted and not everything:
        standing = Standing(name, wanted.workload, wanted.cells, last, wanted.baseline, wanted.target)
    else:
        standing = _everything(of_journal(name, last), wanted)
    evidence = Evidence(told)
    drifts = evidence.canaries.drifts(found.values())
    apart = made_apart(standing, found.values(), evidence.canaries.told)
    findings = {key: (*filter(None, [apart.get(key)]), *of) for key, of in survey(found.values(), drifts).items()}
    standing = replace(standing, findings=findings)
    own = [run for cell in standing.cells for run in standing.runs(cell)]
    proofs = [proof.warning for proof, _ in evidence.proofs.of(run.cell for run in own if run.cell) if proof.warning]
    said = Counter(words for run in own for words in _beside_proofs(run))
    of_runs = [f"{words} ({count} trial{'s' if count > 1 else ''})" for words, count in said.items()]
    return make_report(
        standing,
        Told(
            description=wanted.description if wanted else "",
            text=wanted.text if wanted else "",
            warnings=[*warnings, *proofs, *of_runs, *rooflines.warnings(own)],
            drifts=drifts,
            notes=_left_out(wanted, everything),
            published=beside(standing),
            made=now(),
        ),
    )


def _everything(standing: Standing, wanted: Wanted | None) -> Standing:
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


def _left_out(wanted: Wanted | None, everything: bool) -> list[str]:
    if everything or wanted is None or not wanted.part:
        return []
    return [f"This is a part of the grid: {wanted.part}."]


def _beside_proofs(run: Attempt) -> list[str]:
    """An attempt's warnings without that of its decay proof, which may have been made again since."""
    says = run.decay_proof.get("says")
    return [words for words in run.warnings if not (says and words.endswith(f": {says}"))]


def files(report: Report) -> dict[str, str]:
    """The report as files, by their names: the page, the data, and each figure as an SVG of its own."""
    from raybench.analysis.figures import FIGURES, pictures
    from raybench.analysis.page import page

    # Of a smoke run's numbers none is a result, and a figure would make one of them.
    drawn, left_out = ([], {}) if report.standing.smoke else pictures(report.standing)
    titles = {FIGURES[name].title: reason for name, reason in left_out.items()}
    figures = {f"figure_{picture.name}.svg": picture.svg for picture in drawn}
    return {HTML: page(report, drawn, titles), DATA: text(as_json(report, left_out)), **figures}


def keep_page(folder: Path, made: Mapping[str, str]) -> None:
    """Write the report's page beside the journal, where one was made.

    Raises:
        OSError: it cannot be written.
    """
    if HTML in made:
        put(folder / HTML, made[HTML])


def page_is_current(folder: Path, wanted: Wanted) -> bool:
    """Whether the page beside the journal is of all that is in it, and of what is asked for now."""
    page, journal = folder / HTML, folder / JOURNAL
    if not page.is_file() or page.stat().st_mtime_ns < journal.stat().st_mtime_ns:
        return False
    return same_cells(last_wanted(journal, read(journal)), wanted)


def text(data: Mapping[str, Any]) -> str:
    """Plain data as JSON; what JSON does not know is written as people would."""
    return json.dumps(data, indent=1, default=str, ensure_ascii=False) + "\n"


def of_source(
    source: str, results: Path, everything: bool = False, smoke: bool = False, grid: str | None = None
) -> Report:
    """The report of what is on disk.

    Args:
        source: a grid file, the name of a grid in the results folder, a grid's own folder, or a journal; or whatever
            else `raybench.load` reads: an MLflow store, a CSV of epochs, an entry of DAWNBench.
        results: the results folder.
        everything: every cell that the journal has, not only those that the grid asked for last.
        smoke: of the smoke run of the grid that is named.
        grid: which one, where the source has several.

    Raises:
        UsageError: there is no such thing; the message says what there is.
        StoreError: the MLflow store cannot be reached or used.
    """
    if is_uri(source) or Path(source).suffix in LOADED:
        return of_records(source, records(source, grid))
    journal = _journal(source, results, smoke, grid)
    damaged: list[int] = []
    try:
        told = list(read(journal, damaged))
    except OSError as error:
        raise UsageError(f"{journal}: cannot be read: {error.strerror or error}") from None
    known = attempts(told)
    if not known:
        what = f"{journal}:{damaged[0]}: no event of a journal" if damaged else f"{journal}: no trial in it yet"
        raise UsageError(what)
    lines = f"{len(damaged)} damaged lines of the journal are left out" if damaged else ""
    name = next((run.grid for run in known.values() if run.grid), None) or journal.absolute().parent.name
    return of_events(name, told, last_wanted(journal, told), filter(None, [lines]), everything, known)


def of_records(source: str, found: Sequence[Record]) -> Report:
    """The report of results that are no journal: every cell they have, as far as they tell.

    Args:
        source: where they are from.
        found: the rows of one grid (`raybench.sources.records`).

    Raises:
        UsageError: they are of several grids, or there are none.
    """
    grids = list(dict.fromkeys(record.attempt.grid or record.grid or "" for record in found))
    if len(grids) > 1:
        raise UsageError(f"{redact(source)}: results of {len(grids)} grids; say --grid, of {', '.join(sorted(grids))}")
    if not found:
        raise UsageError(f"{redact(source)}: no results in it")
    own = [_named(record) for record in found]
    told = [(str(each.attempt.profile), each.known.get("price_per_hour")) for each in found]
    prices = {device: price for device, price in told if price is not None}
    standing = of_journal(grids[0], latest(own), prices)
    standing = replace(standing, findings=_doubts(found, own))
    notes = [] if any(run.ledger for run in own) else [NO_START]
    return make_report(standing, Told(notes=notes, published=beside(standing), made=now()))


def _doubts(found: Sequence[Record], own: Sequence[Attempt]) -> dict[Key, tuple[Finding, ...]]:
    """What there is to doubt of each: what its events show here, and what was told of it and they no longer do."""
    doubts = survey(own, ())
    for record, attempt in zip(found, own, strict=True):
        seen = {finding.code for finding in doubts[attempt.key]}
        doubts[attempt.key] += tuple(finding for finding in record.findings if finding.code not in seen)
    return doubts


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
    path = Path(source).expanduser()
    grids = [] if (path / JOURNAL).is_file() else _grids(path)
    if grids:
        if grid is None and len(grids) > 1:
            raise UsageError(f"{source}: results of {len(grids)} grids; say --grid, of {', '.join(grids)}")
        if grid is not None and grid not in grids:
            raise UsageError(f"{source}: no results of a grid {grid}; {nearest(grid, grids)}")
        return path / (grid or grids[0]) / JOURNAL
    if grid is not None:
        raise UsageError(f"--grid {grid}: {source} names one grid already")
    if (path / JOURNAL).is_file():
        return path / JOURNAL
    if path.is_file() and path.suffix not in (".yaml", ".yml"):
        return path
    if path.is_file():
        from raybench.spec import load_grid

        name = load_grid(path).name
    else:
        name = source
    if smoke and not is_smoke(name):
        name += SMOKE
    if (results / name / JOURNAL).is_file():
        return results / name / JOURNAL
    there = _grids(results)
    if path.is_file():
        makes = f"raybench grid {source}{' --smoke' if smoke else ''}"
        raise UsageError(f"{source}: grid {name} has no journal in {results}; `{makes}` makes one")
    if path.suffix in (".yaml", ".yml", ".jsonl"):
        raise UsageError(f"{source}: there is no such file")
    raise UsageError(f"{results}: no journal of a grid {source}" + (f"; {nearest(source, there)}" if there else ""))


def _grids(results: Path) -> list[str]:
    """The grids of a results folder."""
    return sorted(found.parent.name for found in results.glob(f"*/{JOURNAL}"))
