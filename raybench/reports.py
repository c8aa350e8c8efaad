"""Reports: what is known of a grid, just ended or on disk, is gathered here, and made into files."""

from __future__ import annotations

import json
import logging
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from raybench import rooflines
from raybench.analysis.apart import made_apart
from raybench.analysis.comparison import PlannedCell
from raybench.analysis.findings import survey
from raybench.analysis.report import Report, Told, as_json, make_report
from raybench.analysis.results import Attempt, attempts, latest
from raybench.analysis.standing import Standing, of_journal
from raybench.errors import UsageError, nearest
from raybench.evidence import Evidence
from raybench.identity import SMOKE, is_smoke
from raybench.plan import Plan, baseline_of
from raybench.sources.beside import beside
from raybench.tracking import executions
from raybench.tracking.journal import JOURNAL, read
from raybench.trial.events import Event, now
from raybench.trial.job import Target

log = logging.getLogger("raybench")

HTML, DATA = "report.html", "report.json"
PLAN, FILE = "plan.json", "grid.yaml"
"""What an execution of a grid leaves beside its journal: the cells that it wanted, and its file."""


@dataclass(frozen=True)
class Wanted:
    """What an execution of a grid asked for, as far as it is written down.

    Attributes:
        cells: in the order of the file.
        baseline: axes and the value that the baseline has there.
        target: the quality to reach.
        description: what the grid is for.
        text: the grid file.
    """

    cells: Sequence[PlannedCell]
    baseline: Mapping[str, Any]
    workload: str
    target: Target | None = None
    description: str = ""
    text: str = ""


def planned_cells(plan: Plan) -> list[PlannedCell]:
    """The plan's cells as the comparison wants them."""
    return [
        PlannedCell(
            cell.cell_id,
            cell.axes,
            0 if cell.predicted else plan.spec.repeats,
            cell.skip,
            cell.price_per_hour,
            cell.content.get("again"),
            cell.content,
        )
        for cell in plan.cells
    ]


def wanted_by(plan: Plan) -> Wanted:
    """What a plan asks for."""
    spec = plan.spec
    return Wanted(
        cells=planned_cells(plan),
        baseline=baseline_of(spec, plan.cells),
        workload=plan.workload.name,
        target=Target(**spec.target.model_dump()) if spec.target else None,
        description=spec.description or "",
        text=spec.source_text or "",
    )


def written(wanted: Wanted) -> dict[str, Any]:
    """The same as plain data, for `PLAN`; the file has one of its own."""
    return {name: value for name, value in asdict(wanted).items() if name != "text"}


def of_events(name: str, told: Sequence[Event], wanted: Wanted | None, warnings: Iterable[str] = ()) -> Report:
    """The report of a grid.

    Args:
        name: of the grid.
        told: every event of its journal.
        wanted: what it asked for; None where only the journal is known, and then every cell in it counts.
        warnings: what else a person should know that is no result.
    """
    found = attempts(told)
    last = latest(found.values())
    if wanted:
        standing = Standing(name, wanted.workload, wanted.cells, last, wanted.baseline, wanted.target)
    else:
        standing = of_journal(name, last)
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
            published=beside(standing),
            made=now(),
        ),
    )


def _beside_proofs(run: Attempt) -> list[str]:
    """An attempt's warnings without that of its decay proof, which may have been made again since."""
    says = run.decay_proof.get("says")
    return [words for words in run.warnings if not (says and words.endswith(f": {says}"))]


def files(report: Report) -> dict[str, str]:
    """The report as files, by their names: the page, the data, and each figure as an SVG of its own."""
    from raybench.analysis.figures import FIGURES, pictures
    from raybench.analysis.page import page

    drawn, left_out = pictures(report.standing)
    titles = {FIGURES[name].title: reason for name, reason in left_out.items()}
    figures = {f"figure_{picture.name}.svg": picture.svg for picture in drawn}
    return {HTML: page(report, drawn, titles), DATA: text(as_json(report, left_out)), **figures}


def text(data: Mapping[str, Any]) -> str:
    """Plain data as JSON; what JSON does not know is written as people would."""
    return json.dumps(data, indent=1, default=str, ensure_ascii=False) + "\n"


def of_source(source: str, results: Path, everything: bool = False, smoke: bool = False) -> Report:
    """The report of what is on disk.

    Args:
        source: a grid file, the name of a grid in the results folder, a grid's own folder, or a journal.
        results: the results folder.
        everything: every cell that the journal has, not only those that the grid asked for last.
        smoke: of the smoke run of the grid that is named.

    Raises:
        UsageError: there is no such thing; the message says what there is.
    """
    journal = _journal(source, results, smoke)
    damaged: list[int] = []
    try:
        told = list(read(journal, damaged))
    except OSError as error:
        raise UsageError(f"{journal}: cannot be read: {error.strerror or error}") from None
    if not attempts(told):
        what = f"{journal}:{damaged[0]}: no event of a journal" if damaged else f"{journal}: no trial in it yet"
        raise UsageError(what)
    lines = f"{len(damaged)} damaged lines of the journal are left out" if damaged else ""
    name = next((run.grid for run in attempts(told).values() if run.grid), None) or journal.absolute().parent.name
    return of_events(name, told, None if everything else last_wanted(journal, told), filter(None, [lines]))


def last_wanted(journal: Path, told: Iterable[Event]) -> Wanted | None:
    """What the last execution of a grid asked for; None where none has left word that can be read."""
    for event in reversed([event for event in told if event.get("event") == executions.ENDED]):
        summary = executions.recall(journal, event)
        found = _wanted(summary.files) if summary else None
        if found:
            return found
    return None


def _wanted(left: Mapping[str, str]) -> Wanted | None:
    try:
        plan = json.loads(left[PLAN])["wanted"]
        cells = [PlannedCell(**cell) for cell in plan["cells"]]
        target = Target(**plan["target"]) if plan["target"] else None
        return Wanted(cells, plan["baseline"], plan["workload"], target, plan["description"], left.get(FILE, ""))
    except (LookupError, TypeError, ValueError):
        return None


def _journal(source: str, results: Path, smoke: bool) -> Path:
    """The journal that a person means.

    Raises:
        UsageError: there is none.
    """
    path = Path(source).expanduser()
    if path.is_dir() and (path / JOURNAL).is_file():
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
    there = sorted(found.parent.name for found in results.glob(f"*/{JOURNAL}"))
    if path.is_file():
        makes = f"raybench grid {source}{' --smoke' if smoke else ''}"
        raise UsageError(f"{source}: grid {name} has no journal in {results}; `{makes}` makes one")
    if path.suffix in (".yaml", ".yml", ".jsonl"):
        raise UsageError(f"{source}: there is no such file")
    raise UsageError(f"{results}: no journal of a grid {source}" + (f"; {nearest(source, there)}" if there else ""))
