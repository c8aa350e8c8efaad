"""The report of a grid: verdict, evidence, remarks, then runs and machines.

A `Report` is data; `raybench.reporting.html` renders it as a page, `as_json` as a machine-readable file.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from typing import Any, overload

from raybench.analysis.fact import Fact
from raybench.analysis.grid_results import GridResults
from raybench.analysis.learning import accuracy_factors
from raybench.analysis.pairs import Comparison, pairs
from raybench.analysis.ranking import RankedDevice, best_first, rank
from raybench.analysis.remarks import (
    EnergyMissingFact,
    FurtherRepeatsFact,
    OtherTrialsFact,
    PerExampleCellsFact,
    finding_facts,
    remarks,
)
from raybench.analysis.summary import cell_statement, summarize
from raybench.analysis.verdict import OneMachineEachFact
from raybench.core import memory
from raybench.core.cell import CellDevice
from raybench.core.status import TrialStatus
from raybench.reporting.sentences import plain, remedy, render_phrase
from raybench.reporting.tables import Record, ReportTable, sections
from raybench.results.attempt import Attempt

VERSION = 1
"""Version of the format of `as_json`.

It is raised if a field changes its meaning. New fields may be added at any time.
"""


FINDING, NOTE = "finding", "note"
"""Kinds of remarks with a presentation of their own."""

NOTES = (PerExampleCellsFact, OneMachineEachFact, OtherTrialsFact, FurtherRepeatsFact, EnergyMissingFact)
"""Remarks that do not change a verdict."""


@dataclass(frozen=True)
class Remark:
    """A remark about the numbers of a report.

    Attributes:
        kind: `smoke`, how cells were reduced; `finding`, about runs; `warning`; `note`, which changes no
            verdict; or `other`.
        says: the observation, in the worst of several runs.
        remedy: the recommended action; empty if none is known.
        runs: number of affected completed runs; None if it is not about runs.
        mark: the letter of a finding in the table of all cells; empty for other remarks.
    """

    kind: str
    says: str
    remedy: str = ""
    runs: int | None = None
    mark: str = ""


@dataclass(frozen=True)
class ReportContext:
    """Information about a grid besides its results; all of it is optional.

    Attributes:
        description: the grid's own description.
        text: the grid file.
        warnings: messages for the user that are not results, such as a failed decay proof.
        notes: messages for the user that change no verdict, such as parts that were left out.
        made: the time of the report, UTC.
    """

    description: str = ""
    text: str = ""
    warnings: Sequence[str] = ()
    notes: Sequence[str] = ()
    made: str = ""


@dataclass(frozen=True)
class Report:
    """A grid's report.

    Attributes:
        results: the grid, and its rows.
        context: information besides its results.
        verdict: at most three paragraphs of facts, the most important first.
        ranking: the devices, each at its best settings; empty if there is one.
        pairs: a comparison for each cell.
        deciding: effects on accuracy: of the device, a setting or noise; empty if they cannot be determined.
        remarks: those that affect verdicts first.
        troubles: trials that did not complete: label, status, error in one line, phase and line of code.
        machines: the hardware: a record for each kind of device on each host.
        versions: versions by program, the most frequent first.
    """

    results: GridResults
    context: ReportContext
    verdict: Sequence[Sequence[Fact]]
    ranking: Sequence[RankedDevice]
    pairs: Sequence[Comparison]
    deciding: Sequence[Fact]
    remarks: Sequence[Remark]
    troubles: Sequence[Record]
    machines: Sequence[Record]
    versions: Mapping[str, Sequence[str]]

    @property
    def comparisons(self) -> Sequence[tuple[str, Sequence[Fact]]]:
        """Label and facts of each cell."""
        return [] if self.results.smoke else CellStatements(self.results, self.pairs)

    @cached_property
    def best_first(self) -> Sequence[int]:
        """The indices of its cells: by time to the target if there is one, then by time per example."""
        return best_first(self.results, self.pairs)

    @cached_property
    def sections(self) -> Sequence[ReportTable]:
        """Tables of evidence."""
        if self.results.smoke:
            return []
        return sections(self.results, self.pairs)


class CellStatements(Sequence[tuple[str, Sequence[Fact]]]):
    """Label and facts of each cell, made when they are read: a page shows few of a large grid's.

    Args:
        results: the grid.
        pairs: a comparison for each cell.
    """

    def __init__(self, results: GridResults, pairs: Sequence[Comparison]) -> None:
        self._results = results
        self._pairs = pairs

    def __len__(self) -> int:
        return len(self._pairs)

    @overload
    def __getitem__(self, place: int) -> tuple[str, Sequence[Fact]]: ...

    @overload
    def __getitem__(self, place: slice) -> list[tuple[str, Sequence[Fact]]]: ...

    def __getitem__(self, place: Any) -> Any:
        if isinstance(place, slice):
            return [self[number] for number in range(len(self))[place]]
        return self._results.label(self._results.cells[place]), cell_statement(self._pairs[place])


def make_report(results: GridResults, context: ReportContext | None = None) -> Report:
    """Return the report of a grid, without reading files or drawing figures."""
    context = context or ReportContext()
    # Use the file's current target, not the one that runs were started with.
    latest_runs = {
        name: run if run.target == results.target else replace(run, target=results.target)
        for name, run in results.latest.items()
    }
    cell_pairs = pairs(results.cells, latest_runs, results.compared_with, results.metric, results.findings)
    ranking = rank(results, cell_pairs)
    examples = next((each.examples for each in cell_pairs if each.examples), None)
    runs = [run for cell in results.cells for run in results.runs(cell)]
    return Report(
        results=results,
        context=context,
        verdict=summarize(results, cell_pairs, ranking),
        ranking=ranking,
        pairs=cell_pairs,
        deciding=[] if results.smoke else accuracy_factors(results.accuracies, examples),
        remarks=list(_remarks(results, context, cell_pairs)),
        troubles=[
            _trouble(run) for run in runs if run.status not in (None, TrialStatus.COMPLETED, TrialStatus.SKIPPED)
        ],
        machines=_machines(runs),
        versions=_versions(runs),
    )


def with_warnings(report: Report, later: Sequence[str], behind: int) -> Report:
    """Add warnings that were raised after the report was made.

    Args:
        report: the report.
        later: the warnings.
        behind: number of its own warnings that precede them.
    """
    warnings, own_remarks = report.context.warnings, report.remarks
    start = next((i for i, each in enumerate(own_remarks) if each.kind not in ("smoke", FINDING)), len(own_remarks))
    place = start + sum(Remark("warning", warning) in own_remarks for warning in warnings[:behind])
    new_remarks = [Remark("warning", warning) for warning in later]
    return replace(
        report,
        context=replace(report.context, warnings=[*warnings[:behind], *later, *warnings[behind:]]),
        remarks=[*own_remarks[:place], *new_remarks, *own_remarks[place:]],
    )


def has_finding(report: Report, code: str) -> bool:
    """Return whether any run of the report has a finding of this kind."""
    found = (finding for row in report.results.rows for findings in row.findings.values() for finding in findings)
    return any(finding.code == code for finding in found)


def without_warning(report: Report, warning: str) -> Report:
    """Remove the remark of a warning that repeats a finding."""
    remarks_left = [each for each in report.remarks if (each.kind, each.says) != ("warning", warning)]
    return replace(report, remarks=remarks_left)


def _remarks(results: GridResults, context: ReportContext, cell_pairs: Sequence[Comparison]) -> Iterable[Remark]:
    findings = finding_facts(results.rows)
    yield from (Remark(FINDING, plain(fact), remedy(fact), fact.runs, fact.mark) for fact in findings if fact.mark)
    yield from (Remark("warning", warning) for warning in context.warnings)
    for fact in remarks(results, cell_pairs):
        yield Remark(NOTE if isinstance(fact, NOTES) else "other", plain(fact), remedy(fact))
    yield from (Remark(NOTE, note) for note in context.notes)
    yield from (Remark(NOTE, plain(fact), remedy(fact), fact.runs) for fact in findings if not fact.mark)


def _trouble(run: Attempt) -> Record:
    error = run.error or {}
    lines = str(error.get("message") or "").strip().splitlines()
    words = memory.format_bytes(error) if run.status == TrialStatus.OOM else ""
    words = words or ": ".join(part for part in (error.get("type"), *lines[:1]) if part)
    known = {"trial": run.label or run.trial, "status": run.status, "error": words, "phase": error.get("phase")}
    return known | {"where": error.get("where")}


def grouped_troubles(troubles: Sequence[Record]) -> list[Record]:
    """Return one record for all trials with the same end and error: `trial` names the first, `more` counts the others.

    The most frequent comes first.
    """
    groups: dict[tuple[Any, ...], list[Record]] = {}
    for each in troubles:
        groups.setdefault((each["status"], each["error"], each["where"]), []).append(each)
    return [{**group[0], "more": len(group) - 1} for group in sorted(groups.values(), key=len, reverse=True)]


def _machines(runs: Sequence[Attempt]) -> list[Record]:
    """Return one record per device and host, with its number of runs."""
    counts: Counter[tuple[tuple[str, Any], ...]] = Counter()
    for run in runs:
        device = run.cell.device
        if device != CellDevice() and run.host:
            machine = {
                "host": run.host.get("name"),
                "device": run.profile or device.kind or None,
                "kind": device.kind or None,
                "model": device.model or None,
                "count": device.count or None,
                "threads": run.runtime_conditions.get("threads", device.threads or None),
                "framework": run.cell.framework or None,
            }
            plain_values = (
                (key, value if isinstance(value, (int, float)) else str(value)) for key, value in machine.items()
            )
            counts[tuple(plain_values)] += 1
    return [{**dict(machine), "runs": count} for machine, count in counts.items()]


def _versions(runs: Sequence[Attempt]) -> dict[str, list[str]]:
    version_counts: dict[str, Counter[str]] = {}
    for run in runs:
        for name, version in run.versions.items():
            if isinstance(version, (str, int, float)):
                version_counts.setdefault(str(name), Counter())[str(version)] += 1
    return {name: [version for version, _ in counts.most_common()] for name, counts in sorted(version_counts.items())}


def _measured(fields: dict[str, Any]) -> dict[str, Any]:
    """Leave out energy that was not measured."""
    return {name: value for name, value in fields.items() if value is not None or not name.startswith("energy")}


def as_json(report: Report, left_out: Mapping[str, str] | None = None) -> dict[str, Any]:
    """Return the report as plain data, for programs.

    - `v`: the version of this format, 1; `grid`, `workload`, `description`, `made` (UTC), `metric`, `baseline`,
      `target`, `synthetic_data` (the name of the data set, or none)
    - `verdict`: at most three sentences, and one on energy if it was measured; `ranking`: the devices, best first, each
      with its best `cell`, `target`, `price`, `energy` (joules, if measured) and `speedup` over the baseline (95%,
      corrected for the selection)
    - `comparisons`: a `cell` and its `sentences` each
    - `deciding`: sentences on the effects on accuracy
    - `cells`: the comparison, one row per cell: `cell_id`, `cell` (its label), `axes`, `status` (text), `counts` (runs:
      `planned`, `completed`, `skip`, `endings` of the others), `steady` (seconds per epoch: `value`, `low`, `high`,
      `runs`), `metric`, `speedup` (`ratio`, `low`, `high`: 95%), `bound`, `findings`, prices; if measured, `energy`
      (joules) and `energy_ratio`, as `speedup`
    - `sections`: by table name: `title`, `says` and `records`; seconds and shares are numbers
    - `remarks` (`kind`, `says`, `remedy`, `runs`, `mark`), `troubles`, `machines`, `versions`, `grid_file`
    - `figures_left_out`: the reasons by figure name

    Args:
        report: the report.
        left_out: figures without data (`raybench.reporting.figures.rendered_figures`).
    """
    results, context = report.results, report.context
    labels = {cell.cell_id: results.label(cell) for cell in results.cells}
    return {
        "v": VERSION,
        "grid": results.name,
        "workload": results.workload,
        "description": context.description,
        "made": context.made,
        "metric": results.metric,
        "synthetic_data": results.synthetic_data or None,
        "baseline": dict(results.compared_with),
        "target": asdict(results.target) if results.target else None,
        "verdict": [plain(each) for paragraph in report.verdict for each in paragraph],
        "ranking": [
            {**_measured(asdict(each)), "cell": results.label(results.cells[each.number])} for each in report.ranking
        ],
        "comparisons": [{"cell": label, "sentences": list(map(plain, facts))} for label, facts in report.comparisons],
        "deciding": list(map(plain, report.deciding)),
        "cells": [
            {"cell": labels[row.cell_id], "status": render_phrase("run_counts", row.counts), **_measured(asdict(row))}
            for row in results.rows
        ],
        "sections": {
            section.name: {"title": section.title, "says": section.says, "records": list(section.records)}
            for section in report.sections
        },
        "remarks": [asdict(remark) for remark in report.remarks],
        "troubles": list(report.troubles),
        "machines": list(report.machines),
        "versions": dict(report.versions),
        "grid_file": context.text,
        "figures_left_out": dict(left_out or {}),
    }
