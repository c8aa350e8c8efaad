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
"""Maximum number of incomplete trials and of paragraphs of the verdict on the screen; the page shows all."""

IN_FULL = 1
"""Maximum number of paragraphs that are printed in full; with more, only the first sentences of each are printed."""

FIRST = 2
"""Number of these sentences: which is faster, and the next one."""

STYLES = {STRONG: "bold", NAME: "italic"}


def show_verdict(report: Report, console: Console, full: bool = False) -> None:
    """Print the verdict of the grid."""
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
    """Its first facts and any caveat about the hardware's part in a ratio."""
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
    """Print the caveats.

    Findings that could change a verdict come below the table, the others only in full.
    """
    for caveat in report.caveats:
        if caveat.runs is None or (full and caveat.kind == NOTE):
            runs = f" ({caveat.runs} run{'s' if caveat.runs > 1 else ''})" if caveat.runs else ""
            words = f"{caveat.kind}{runs}: {caveat.says} {caveat.remedy}".rstrip()
            console.print(words, style="dim" if caveat.kind == NOTE else "yellow", soft_wrap=True)


def show_report(report: Report, console: Console | None = None, full: bool = False) -> None:
    """Print the report; `full` adds everything that a terminal can show of the page."""
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
    """The caption of the table, which explains its numbers."""
    return " ".join(render_phrase("caption", report.results).split())


def worded(fact: Fact) -> Text:
    """A fact as a sentence for the terminal: the most important part in bold, names in italics."""
    from rich.text import Text

    return Text.assemble(*((text, STYLES.get(mark, "")) for text, mark in spans(fact)))
