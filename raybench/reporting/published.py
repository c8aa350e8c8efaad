"""Reports of published results, by the source's timing rule and others."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any

from raybench.analysis.fact import Fact
from raybench.analysis.pairs import axis_value_label
from raybench.core.status import TrialStatus
from raybench.core.text import format_value
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
from raybench.reporting.sentences import digits, plain, render_phrase
from raybench.reporting.tables import Column, ReportTable
from raybench.sources.published_results import Publication
from raybench.sources.result_tables import cell_columns

VERSION = 1
"""Version of the format of `as_json`."""

_SETTINGS = ("batch_size", "weight_decay", "precision", "compile", "input", "train_examples")


@dataclass(frozen=True)
class PublishedReport:
    """The report of a published result.

    Attributes:
        name: its name among the published results.
        publication: the source: description, protocol, timing rule, and caveats.
        verdict: paragraphs of facts, each with the most important first.
        sections: tables of the reported numbers, and of results by other rules.
    """

    name: str
    publication: Publication
    verdict: Sequence[Sequence[Fact]]
    sections: Sequence[ReportTable]


def published_report(name: str, publication: Publication) -> PublishedReport:
    """Return the report of a source.

    Args:
        name: its name among the published results.
        publication: the source.
    """
    measurements = source_cells(name, publication)
    pairs = list(pairs_of(measurements, publication))
    verdict = published_verdict(measurements, pairs, publication)
    sections = [_reported(measurements, publication), _every_rule(pairs, publication)]
    return PublishedReport(name, publication, verdict, [each for each in sections if each.records])


def as_json(report: PublishedReport) -> dict[str, Any]:
    """Return the report as plain data.

    The keys are `v`, 1; the fields of the source; `verdict`, sentences; `sections`; `caveats`.
    """
    publication = report.publication
    return {
        "v": VERSION,
        "published": report.name,
        "source": publication.source,
        "workload": publication.workload,
        "protocol": publication.protocol,
        "counts": publication.counts,
        "rule": publication.rule,
        "verdict": [plain(each) for paragraph in report.verdict for each in paragraph],
        "sections": {
            section.name: {"title": section.title, "says": section.says, "records": list(section.records)}
            for section in report.sections
        },
        "claims": [claim.model_dump() for claim in publication.claims],
        "caveats": list(publication.caveats),
    }


def _reported(measurements: Sequence[SourceCell], publication: Publication) -> ReportTable:
    """Return a table of reported numbers, one row per cell and machine."""
    columns = [cell_columns(measurement.cell) for measurement in measurements]
    varied_axes = [axis for axis in _SETTINGS if len({repr(measurement.get(axis)) for measurement in columns}) > 1]
    records = []
    for measurement, cell in zip(measurements, columns, strict=True):
        seconds = [fields[SECONDS] for fields in measurement.rows if SECONDS in fields]
        settings = [axis_value_label(axis, cell[axis]) for axis in varied_axes if cell.get(axis) is not None]
        status = measurement.attempts[0].status if not measurement.first("status") else measurement.first("status")
        records.append(
            {
                "machine": measurement.model,
                "run": ", ".join(filter(None, (measurement.label, *settings))) or None,
                "runs": len(seconds) if len(seconds) > 1 else measurement.first("runs"),
                "seconds": fmean(seconds) if seconds else None,
                "least_most": (min(seconds), max(seconds)) if len(seconds) > 1 else None,
                "rate": measurement.first(RATE),
                "accuracy": measurement.accuracy,
                "price": measurement.first("total_price"),
                "status": None if status == TrialStatus.COMPLETED else status,
                "origin": measurement.origins[0],
            }
        )
    return ReportTable(
        "reported",
        (
            Column("machine", "machine", right=False),
            Column("run", "run", right=False),
            Column("runs", "runs"),
            Column(
                "seconds", "s", lambda value: format_value(float(f"{value:.4g}")) if value < 1000 else f"{value:,.0f}"
            ),
            Column("least_most", "min, max", lambda ends: f"{digits(ends[0], 4)}, {digits(ends[1], 4)}"),
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
    """Return a table of speed-ups by all rules that the source allows.

    It has no rows if they allow no other rule.
    """
    pair_ratios = [(pair, by_other_rules(pair, publication.rule)) for pair in pairs]
    clock = f"{publication.rule}{CPU}"
    rules = [rule for rule in (*OTHER_RULES, clock) if any(rule in ratios for _, ratios in pair_ratios)]
    records: list[dict[str, Any]] = []
    if rules:
        own_ratios = {str(number): pair.speedup.ratio for number, (pair, _) in enumerate(pair_ratios)}
        records.append({"rule": publication.rule, "counts": "as the source counts", **own_ratios})
    for rule in rules:
        ratios = {str(number): each.get(rule) for number, (_, each) in enumerate(pair_ratios)}
        records.append({"rule": rule, "counts": render_phrase("rule", "cpu" if rule == clock else rule), **ratios})
    heads = [f"{pair.other.model} over {pair.baseline.model}" for pair, _ in pair_ratios]
    return ReportTable(
        "rules",
        (
            Column("counts", "timing rule", right=False),
            *(Column(str(number), head, lambda ratio: f"{ratio:.2f}x") for number, head in enumerate(heads)),
        ),
        records,
    )
