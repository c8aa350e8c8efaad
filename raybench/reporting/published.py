"""The report of a published result: what follows from what its source reported, by its own rule and by others."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any

from raybench.analysis.fact import Fact
from raybench.analysis.pairs import axis_value_label
from raybench.core.status import TrialStatus
from raybench.planning.plan import format_value
from raybench.reporting.published_comparison import (
    CPU,
    OTHER_RULES,
    RATE,
    SECONDS,
    SourceCell,
    SourceComparison,
    by_other_rules,
    pairs_of,
    source_cells,
)
from raybench.reporting.published_verdict import published_verdict
from raybench.reporting.tables import Column, ReportTable
from raybench.reporting.text import digits, plain, render_phrase
from raybench.sources.published_results import Publication
from raybench.sources.tables import cell_columns

VERSION = 1
"""Of the form of `as_json`."""

_SETTINGS = ("batch_size", "weight_decay", "precision", "compile", "input", "train_examples")


@dataclass(frozen=True)
class PublishedReport:
    """What a published result comes to.

    Attributes:
        name: what it is called among the published results.
        publication: the source: what it is, its protocol, what it counts, and what to keep in mind.
        verdict: paragraphs of facts, each with what matters most first.
        sections: tables of what it reported, and of what that gives by other rules.
    """

    name: str
    publication: Publication
    verdict: Sequence[Sequence[Fact]]
    sections: Sequence[ReportTable]


def published_report(called: str, publication: Publication) -> PublishedReport:
    """The report of a source.

    Args:
        called: what it is called among the published results.
        publication: the source.
    """
    told = source_cells(called, publication)
    pairs = list(pairs_of(told, publication))
    verdict = published_verdict(told, pairs, publication)
    sections = [_reported(told, publication), _every_rule(pairs, publication)]
    return PublishedReport(called, publication, verdict, [each for each in sections if each.records])


def as_json(report: PublishedReport) -> dict[str, Any]:
    """The report as plain data: `v`, 1; what the source says of itself; `verdict`, sentences; `sections`; `caveats`."""
    of = report.publication
    return {
        "v": VERSION,
        "published": report.name,
        "source": of.source,
        "workload": of.workload,
        "protocol": of.protocol,
        "counts": of.counts,
        "rule": of.rule,
        "verdict": [plain(each) for paragraph in report.verdict for each in paragraph],
        "sections": {
            section.name: {"title": section.title, "says": section.says, "records": list(section.records)}
            for section in report.sections
        },
        "claims": [claim.model_dump() for claim in of.claims],
        "caveats": list(of.caveats),
    }


def _reported(told: Sequence[SourceCell], publication: Publication) -> ReportTable:
    """What the source reports: a row for each cell on each machine."""
    columns = [cell_columns(each.cell) for each in told]
    varied = [axis for axis in _SETTINGS if len({repr(each.get(axis)) for each in columns}) > 1]
    records = []
    for each, cell in zip(told, columns, strict=True):
        seconds = [known[SECONDS] for known in each.known if SECONDS in known]
        settings = [axis_value_label(axis, cell[axis]) for axis in varied if cell.get(axis) is not None]
        status = each.attempts[0].status if not each.first("status") else each.first("status")
        records.append(
            {
                "machine": each.model,
                "run": ", ".join(filter(None, (each.label, *settings))) or None,
                "runs": len(seconds) if len(seconds) > 1 else each.first("runs"),
                "seconds": fmean(seconds) if seconds else None,
                "least_most": (min(seconds), max(seconds)) if len(seconds) > 1 else None,
                "rate": each.first(RATE),
                "accuracy": each.accuracy,
                "price": each.first("total_price"),
                "status": None if status == TrialStatus.COMPLETED else status,
                "origin": each.origins[0],
            }
        )
    return ReportTable(
        "reported",
        (
            Column("machine", "machine", right=False),
            Column("run", "what", right=False),
            Column("runs", "runs"),
            Column(
                "seconds", "s", lambda value: format_value(float(f"{value:.4g}")) if value < 1000 else f"{value:,.0f}"
            ),
            Column("least_most", "least–most", lambda ends: f"{digits(ends[0], 4)}–{digits(ends[1], 4)}"),
            Column("rate", "examples/s", digits),
            Column("accuracy", "accuracy", lambda value: f"{value:.4f}"),
            Column("price", "price", lambda value: f"{value:.2f}"),
            Column("status", "status", right=False),
            Column("origin", "claimed or derived", right=False),
        ),
        records,
        (publication.counts,),
    )


def _every_rule(pairs: Sequence[SourceComparison], publication: Publication) -> ReportTable:
    """How many times as fast by each rule that the source's numbers allow; no rows where they allow no other."""
    found = [(pair, by_other_rules(pair, publication.rule)) for pair in pairs]
    clock = f"{publication.rule}{CPU}"
    rules = [rule for rule in (*OTHER_RULES, clock) if any(rule in ratios for _, ratios in found)]
    records: list[dict[str, Any]] = []
    if rules:
        own = {str(number): pair.found.ratio for number, (pair, _) in enumerate(found)}
        records.append({"rule": publication.rule, "counts": "as the source counts", **own})
    for rule in rules:
        ratios = {str(number): each.get(rule) for number, (_, each) in enumerate(found)}
        records.append({"rule": rule, "counts": render_phrase("rule", "cpu" if rule == clock else rule), **ratios})
    heads = [f"{pair.other.model} over {pair.baseline.model}" for pair, _ in found]
    return ReportTable(
        "rules",
        (
            Column("counts", "counted", right=False),
            *(Column(str(number), head, lambda ratio: f"{ratio:.2f} ×") for number, head in enumerate(heads)),
        ),
        records,
    )
