"""The report in the terminal: the verdict, the table and the caveats, on one screen."""

from __future__ import annotations

from typing import TYPE_CHECKING

from raybench.analysis.verdict import HardwareCaveatFact
from raybench.cli.console import page
from raybench.reporting.comparison_table import render
from raybench.reporting.report import NOTE, Report
from raybench.reporting.sentences import NAME, STRONG, render_phrase, spans

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    from raybench.analysis.fact import Fact
    from raybench.reporting.tables import ReportTable

MOST = 12
"""Trials that did not complete, and paragraphs of the verdict, that a screen has room for; the page has all of them."""

IN_FULL = 1
"""Paragraphs that are told in full; of more, the first sentences."""

FIRST = 2
"""How many: which is faster, and what comes next."""

STYLES = {STRONG: "bold", NAME: "italic"}


def show_verdict(report: Report, console: Console, full: bool = False) -> None:
    """Print what the grid comes to."""
    from rich.text import Text

    in_full = full or len(report.verdict) <= IN_FULL
    paragraphs = report.verdict if full else report.verdict[:MOST]
    shortened = [paragraph if in_full else _beginning(paragraph) for paragraph in paragraphs]
    for paragraph in shortened:
        console.print(Text(" ").join(map(worded, paragraph)))
    hidden = sum(map(len, report.verdict)) - sum(map(len, shortened))
    if hidden:
        rest = f"… and {hidden} sentence{'s' if hidden > 1 else ''} more on the page, and with `raybench report --full`"
        console.print(rest, style="dim")


def _beginning(paragraph: Sequence[Fact]) -> list[Fact]:
    """Its first facts and, wherever it is one of them, that a ratio may not be the hardware's."""
    return [*paragraph[:FIRST], *(fact for fact in paragraph[FIRST:] if isinstance(fact, HardwareCaveatFact))]


def show_sections(sections: Iterable[ReportTable], console: Console) -> None:
    """Print the tables of evidence."""
    for section in sections:
        console.print()
        console.print(f"{section.title}. {section.says}")
        console.print(table(section))


def table(section: ReportTable) -> Table:
    """A table of evidence for the terminal."""
    from rich import box
    from rich.table import Table
    from rich.text import Text

    view = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=(0, 1, 0, 0))
    for column in section.shown:
        view.add_column(Text(column.head), justify="right" if column.right else "left", overflow="fold")
    for record in section.records:
        view.add_row(*(Text(text) for _, text in section.cells(record)))
    return view


def show_caveats(report: Report, console: Console, full: bool = False) -> None:
    """Print the caveats; findings that could turn a verdict stand below the table, the others only in full."""
    for caveat in report.caveats:
        if caveat.runs is None or (full and caveat.kind == NOTE):
            runs = f" ({caveat.runs} run{'s' if caveat.runs > 1 else ''})" if caveat.runs else ""
            words = f"{caveat.kind}{runs}: {caveat.says} {caveat.remedy}".rstrip()
            console.print(words, style="dim" if caveat.kind == NOTE else "yellow", soft_wrap=True)


def show_report(report: Report, console: Console | None = None, full: bool = False) -> None:
    """Print all that a screen has room for or, in full, all that a terminal can show of the page."""
    console = console or page()
    show_verdict(report, console, full)
    console.print()
    console.print(render(report.results.rows, caption(report), report.results.metric_label))
    if full:
        show_sections(report.sections, console)
        console.print()
        for fact in report.deciding:
            console.print(worded(fact))
    show_caveats(report, console, full)
    for trouble in report.troubles if full else report.troubles[:MOST]:
        error = f": {trouble['error']}" if trouble["error"] else ""
        console.print(f"{trouble['status']:<9} {trouble['trial']}{error}", soft_wrap=True)


def caption(report: Report) -> str:
    """What the table's numbers are."""
    return " ".join(render_phrase("caption", report.results).split())


def worded(fact: Fact) -> Text:
    """A fact as a sentence for the terminal: what matters most in bold, names in italics."""
    from rich.text import Text

    return Text.assemble(*((text, STYLES.get(mark, "")) for text, mark in spans(fact)))
