"""The report of a grid: the verdict first, then the evidence, then what to doubt, then what was run on what.

A `Report` is data; `raybench.analysis.page` makes a page of it, `as_json` a file that programs read.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from raybench.analysis.canary import Drift
from raybench.analysis.findings import MACHINE_DRIFT, NOTES, Finding
from raybench.analysis.reaching import what_decides
from raybench.analysis.report_text import in_words, summed_up
from raybench.analysis.results import Attempt
from raybench.analysis.sections import Record, Section, published, sections
from raybench.analysis.sentences import Sentence, plain
from raybench.analysis.sides import UNKNOWN, Pair, pairs
from raybench.analysis.smoke import smoke_verdict, smoke_words
from raybench.analysis.standing import Standing
from raybench.analysis.table import doubted
from raybench.plan import short
from raybench.trial import events, memory

VERSION = 1
"""Of the form of `as_json`; raised when a field changes its meaning. New fields may come at any time."""


FINDING, NOTE = "finding", "note"
"""Kinds of doubts that are shown in their own way."""


@dataclass(frozen=True)
class Doubt:
    """Something that the numbers have to be read with.

    Attributes:
        kind: `smoke`, how cells were cut; `finding`, about runs; `warning` or `drift`; `note`, which changes no
            verdict; or `doubt`, any other.
        says: what was seen, in the worst run where it was in several.
        remedy: what to do about it; empty where nothing is known.
        runs: of how many completed runs; None where it is not about runs.
    """

    kind: str
    says: str
    remedy: str = ""
    runs: int | None = None


@dataclass(frozen=True)
class Told:
    """What is known of a grid beside its results; all of it may be missing.

    Attributes:
        description: what the grid is for, in its own words.
        text: the grid file.
        warnings: what a person should know that is no result, such as a decay proof that failed.
        drifts: devices that were not the same all the time, and the trials which that touches.
        notes: what a person should know that changes no verdict, such as what was left out.
        published: what others reported of the same workload (`raybench.analysis.sections.published`).
        made: when the report was made, UTC.
    """

    description: str = ""
    text: str = ""
    warnings: Sequence[str] = ()
    drifts: Sequence[Drift] = ()
    notes: Sequence[str] = ()
    published: Sequence[Record] = ()
    made: str = ""


@dataclass(frozen=True)
class Report:
    """A grid's report.

    Attributes:
        standing: the grid, and its rows.
        told: what is known beside its results.
        verdict: what it comes to: paragraphs of sentences, each with what matters most first.
        comparisons: the verdict on each cell: its label, and the sentences.
        deciding: what decides how well it learns: the device, a setting or luck; empty where it cannot be told.
        sections: tables of evidence.
        doubts: what to doubt, what touches verdicts first.
        troubles: trials that did not complete: label, status, error in a line.
        machines: what it ran on: a record for each kind of device on each host.
        versions: from a program to its versions, most often used first.
    """

    standing: Standing
    told: Told
    verdict: Sequence[Sequence[Sentence]]
    comparisons: Sequence[tuple[str, Sequence[Sentence]]]
    deciding: Sequence[Sentence]
    sections: Sequence[Section]
    doubts: Sequence[Doubt]
    troubles: Sequence[Record]
    machines: Sequence[Record]
    versions: Mapping[str, Sequence[str]]


def make_report(standing: Standing, told: Told | None = None) -> Report:
    """The report of a grid as it stands; nothing is read and nothing is drawn."""
    told = told or Told()
    # The target of the file as it is now, whatever runs were told when they began.
    aimed = {name: replace(run, target=standing.target) for name, run in standing.latest.items()}
    found = pairs(standing.cells, aimed, standing.compared_with, standing.metric, standing.findings)
    found = [replace(each, workload=standing.workload) if each.workload == UNKNOWN else each for each in found]
    every = [(standing.label(cell), in_words(pair)) for cell, pair in zip(standing.cells, found, strict=True)]
    examples = next((each.examples for each in found if each.examples), None)
    others = published(standing, told.published)
    own = [run for cell in standing.cells for run in standing.runs(cell)]
    return Report(
        standing=standing,
        told=told,
        verdict=smoke_verdict(standing) if standing.smoke else summed_up(standing, found),
        comparisons=[] if standing.smoke else every,
        deciding=[] if standing.smoke else what_decides(standing.accuracies, examples),
        sections=[] if standing.smoke else [*sections(standing, found), *([others] if others else [])],
        doubts=list(_doubts(standing, told, found)),
        troubles=[_trouble(run) for run in own if run.status not in (None, events.COMPLETED, events.SKIPPED)],
        machines=_machines(own),
        versions=_versions(own),
    )


def _doubts(standing: Standing, told: Told, found: Sequence[Pair]) -> Iterable[Doubt]:
    rows = standing.rows
    yield from (Doubt("smoke", words) for words in smoke_words(cell.content for cell in standing.cells))
    groups, marks = doubted(rows)
    told_of = {code: _finding(code, group, marks.get(code, "")) for code, group in groups.items()}
    yield from (doubt for doubt in told_of.values() if doubt.kind == FINDING)
    yield from (Doubt("warning", warning) for warning in told.warnings)
    # What touches a run of the table is among its findings.
    touched = {
        standing.latest[trial].key
        for row in rows
        for trial, found in row.findings.items()
        if MACHINE_DRIFT in {finding.code for finding in found}
    }
    yield from (Doubt("drift", str(drift)) for drift in told.drifts if touched.isdisjoint(drift.keys))
    counts = Counter(row.steady.runs for row in rows if row.steady)
    if counts[1] and not standing.smoke and any(pair.baseline for pair in found):
        cells = "One cell has" if counts[1] == 1 else f"{counts[1]} cells have"
        yield Doubt("doubt", f"{cells} one completed run only, which shows no interval.", "Set `repeats: 3` or more.")
    if standing.compared_with != standing.baseline:
        asked, used = (_worded(values) for values in (standing.baseline, standing.compared_with))
        yield Doubt("doubt", f"The baseline, {asked}, has no completed run; {used} stands in for it.")
    uneven = sum(not pair.even for pair in found)
    if uneven and not standing.smoke:
        cells = "One cell is" if uneven == 1 else f"{uneven} cells are"
        yield Doubt(
            "doubt",
            f"{cells} compared with a baseline whose epochs have another number of examples: such a ratio of epochs "
            "is not one of speed.",
        )
    exact = sum(row.steady.runs > 1 and row.steady.low == row.steady.high for row in rows if row.steady)
    if exact and not standing.smoke:
        cells = "The runs of one cell" if exact == 1 else f"The runs of {exact} cells"
        yield Doubt(
            "doubt",
            f"{cells} took the same time to the last digit, as rounded times do: an interval of no width claims too "
            "much.",
        )
    if any(row.from_warmup for row in rows):
        yield Doubt("doubt", "Some times are of warm-up epochs, for none came after them.", "Set more `epochs`.")
    others, further = standing.aside - standing.further, standing.further
    if others:
        more = f"{others} trial{'s' if others > 1 else ''} of other cells"
        yield Doubt(
            NOTE,
            f"The journal has {more}: of other machines, versions or settings; they are left aside.",
            f"`raybench report {standing.name} --all` takes them in.",
        )
    if further:
        more = f"{further} trial{'s' if further > 1 else ''}"
        yield Doubt(NOTE, f"The journal has {more} more of these cells than the repeats asked for, left aside.")
    yield from (Doubt(NOTE, note) for note in told.notes)
    yield from (doubt for doubt in told_of.values() if doubt.kind == NOTE)


def _worded(values: Mapping[str, Any]) -> str:
    return ", ".join(f"{axis} {short(value)}" for axis, value in values.items())


def _finding(code: str, group: Sequence[Finding], mark: str) -> Doubt:
    """A finding, as it was seen in the worst of the runs that have it."""
    worst = group[0]
    spread = "" if all(finding.says == worst.says for finding in group) else ", at worst"
    head = f"{mark}: {worst.name}{spread}" if mark else worst.name
    remedy = f"{worst.remedy[:1].upper()}{worst.remedy[1:]}."
    return Doubt(NOTE if code in NOTES else FINDING, f"{head}: {worst.says}.", remedy, len(group))


def _trouble(run: Attempt) -> Record:
    error = run.error or {}
    lines = str(error.get("message") or "").strip().splitlines()
    words = memory.in_words(error) if run.status == events.OOM else ""
    words = words or ": ".join(part for part in (error.get("type"), *lines[:1]) if part)
    return {"trial": run.label or run.trial, "status": run.status, "error": words, "phase": error.get("phase")}


def _machines(runs: Sequence[Attempt]) -> list[Record]:
    """A record for each device on each host, with how many runs it had."""
    counted: Counter[tuple[tuple[str, Any], ...]] = Counter()
    for run in runs:
        device = run.cell.get("device")
        if isinstance(device, Mapping) and run.host:
            told = {
                "host": run.host.get("name"),
                "device": run.profile or device.get("kind"),
                "kind": device.get("kind"),
                "model": device.get("model"),
                "count": device.get("count"),
                "threads": run.fairness.get("threads", device.get("threads")),
                "framework": run.cell.get("framework"),
            }
            plain_values = (
                (key, value if isinstance(value, (int, float)) else str(value)) for key, value in told.items()
            )
            counted[tuple(plain_values)] += 1
    return [{**dict(told), "runs": count} for told, count in counted.items()]


def _versions(runs: Sequence[Attempt]) -> dict[str, list[str]]:
    found: dict[str, Counter[str]] = {}
    for run in runs:
        for name, version in run.versions.items():
            if isinstance(version, (str, int, float)):
                found.setdefault(str(name), Counter())[str(version)] += 1
    return {name: [version for version, _ in counts.most_common()] for name, counts in sorted(found.items())}


def as_json(report: Report, left_out: Mapping[str, str] | None = None) -> dict[str, Any]:
    """The report as plain data, for programs.

    - `v`: the version of this form, 1; `grid`, `workload`, `description`, `made` (UTC), `metric`, `baseline`, `target`
    - `verdict`: sentences, in order; `comparisons`: a `cell` and its `sentences` each
    - `deciding`: sentences on what decides the accuracy
    - `cells`: the comparison, a row a cell: `cell_id`, `cell` (its label), `axes`, `status`, `steady` (seconds an
      epoch: `value`, `low`, `high`, `runs`), `metric`, `speedup` (`ratio`, `low`, `high`: 95 %), `bound`, `findings`,
      prices
    - `sections`: from a table's name to its `title`, `says` and `records`; seconds and shares are numbers
    - `doubts` (`kind`, `says`, `remedy`, `runs`), `troubles`, `machines`, `versions`, `grid_file`
    - `figures_left_out`: from a figure's name to the reason

    Args:
        report: the report.
        left_out: figures that had nothing to show (`raybench.analysis.figures.pictures`).
    """
    standing, told = report.standing, report.told
    labels = {cell.cell_id: standing.label(cell) for cell in standing.cells}
    return {
        "v": VERSION,
        "grid": standing.name,
        "workload": standing.workload,
        "description": told.description,
        "made": told.made,
        "metric": standing.metric,
        "baseline": dict(standing.compared_with),
        "target": asdict(standing.target) if standing.target else None,
        "verdict": [plain(each) for paragraph in report.verdict for each in paragraph],
        "comparisons": [{"cell": label, "sentences": list(map(plain, said))} for label, said in report.comparisons],
        "deciding": list(map(plain, report.deciding)),
        "cells": [{"cell": labels[row.cell_id], **asdict(row)} for row in standing.rows],
        "sections": {
            section.name: {"title": section.title, "says": section.says, "records": list(section.records)}
            for section in report.sections
        },
        "doubts": [asdict(doubt) for doubt in report.doubts],
        "troubles": list(report.troubles),
        "machines": list(report.machines),
        "versions": dict(report.versions),
        "grid_file": told.text,
        "figures_left_out": dict(left_out or {}),
    }
