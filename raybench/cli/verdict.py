"""The report in the terminal: the verdict, the table, and what to doubt, on one screen."""

from __future__ import annotations

from typing import TYPE_CHECKING

from raybench.analysis.report import NOTE, Report
from raybench.analysis.sentences import NAME, STRONG, Sentence
from raybench.analysis.table import render
from raybench.cli.page import page

if TYPE_CHECKING:
    from rich.console import Console
    from rich.text import Text

MOST = 12
"""Trials that did not complete, and paragraphs of the verdict, that a screen has room for; the page has all of them."""

IN_FULL = 1
"""Paragraphs that are told in full; of more, the first sentences."""

FIRST = 2
"""How many: which is faster, and whether that is the hardware's doing."""

STYLES = {STRONG: "bold", NAME: "italic"}


def show_verdict(report: Report, console: Console) -> None:
    """Print what the grid comes to."""
    from rich.text import Text

    whole = len(report.verdict) <= IN_FULL
    shown = [paragraph if whole else paragraph[:FIRST] for paragraph in report.verdict[:MOST]]
    for paragraph in shown:
        console.print(Text(" ").join(map(worded, paragraph)))
    more = sum(map(len, report.verdict)) - sum(map(len, shown))
    if more:
        console.print(f"… and {more} sentence{'s' if more > 1 else ''} more on the page", style="dim")


def show_doubts(report: Report, console: Console) -> None:
    """Print what there is to doubt, but for findings, which the table has."""
    for doubt in report.doubts:
        if doubt.runs is None:
            words = f"{doubt.kind}: {doubt.says} {doubt.remedy}".rstrip()
            console.print(words, style="dim" if doubt.kind == NOTE else "yellow", soft_wrap=True)


def show_report(report: Report, console: Console | None = None) -> None:
    """Print all that a screen has room for."""
    console = console or page()
    show_verdict(report, console)
    console.print()
    console.print(render(report.standing.rows, caption(report), report.standing.metric))
    show_doubts(report, console)
    for trouble in report.troubles[:MOST]:
        error = f": {trouble['error']}" if trouble["error"] else ""
        console.print(f"{trouble['status']:<9} {trouble['trial']}{error}", soft_wrap=True)


def caption(report: Report) -> str:
    """What the table's numbers are."""
    standing = report.standing
    repeats = max((cell.repeats for cell in standing.cells), default=1)
    each = "one run each: no interval" if repeats == 1 else f"{repeats} runs each, least and most in brackets"
    speed = "; speed-up with its 95 % interval" if repeats > 1 and any(row.speedup for row in standing.rows) else ""
    smoke = "smoke run, no results; " if standing.smoke else ""
    return f"{smoke}{standing.workload}; s/epoch: median steady epoch; {standing.metric}: last epoch; {each}{speed}."


def worded(told: Sentence) -> Text:
    """A sentence for the terminal: what matters most in bold, names in italics."""
    from rich.text import Text

    return Text.assemble(*((span.text, STYLES.get(span.mark, "")) for span in told))
