"""The report in the terminal: the answer, a table, and the remarks that could change the answer."""

from __future__ import annotations

from dataclasses import replace
from shlex import quote
from typing import TYPE_CHECKING

from raybench.analysis.summary import BestToTargetFact, NoBaselineFact
from raybench.cli.console import page
from raybench.cli.tables import fitted_table
from raybench.reporting.comparison_table import (
    BEST,
    CAUTIONS,
    EXTRA,
    KEY,
    LAST,
    MOST_ROWS,
    TableColumn,
    cell_columns,
    excerpt,
    fitting,
    notes,
    ranking_columns,
    render,
    shown_rows,
    skip_notes,
)
from raybench.reporting.report import NOTE, Report, grouped_troubles
from raybench.reporting.sentences import NAME, STRONG, render_phrase, spans

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from rich.console import Console
    from rich.text import Text

    from raybench.analysis.fact import Fact
    from raybench.reporting.tables import ReportTable

MOST = 12
"""Maximum number of kinds of incomplete trials on the screen; the page shows all."""

ANSWER_LINES = 3
"""Maximum number of lines of the answer; facts that do not fit are on the page."""

STYLES = {STRONG: "bold", NAME: "italic"}


def show_verdict(report: Report, console: Console, full: bool = False) -> None:
    """Print the answer: in full, or as much of it as fits into three lines."""
    from rich.text import Text

    room = ANSWER_LINES
    for paragraph in (each for each in report.verdict if not isinstance(each[0], NoBaselineFact)):
        sentences = [Text(" ").join(map(worded, facts)) for facts in (paragraph, [*map(shorter, paragraph)])]
        lines = [len(sentence.wrap(console, console.width)) for sentence in sentences]
        if full or lines[0] <= room or paragraph is report.verdict[0]:
            console.print(sentences[0])
            room -= lines[0]
        elif lines[1] <= room:
            console.print(sentences[1])
            room -= lines[1]
        else:
            break


def shorter(fact: Fact) -> Fact:
    """The fact of a shorter sentence, which leaves out "at best settings"; the fact itself if there is none."""
    return replace(fact, selected=False) if isinstance(fact, BestToTargetFact) else fact


def show_table(report: Report, console: Console, full: bool = False) -> None:
    """Print a row for each device or, if there is one, for each cell; then the reasons of skipped cells, and advice.

    Without `full`, only the best and the last of many cells.
    """
    results, ranking = report.results, report.ranking
    columns = ranking_columns(results, ranking) if ranking else cell_columns(results.rows, results.metric_label)
    is_long = not ranking and not full and len(shown_rows(results.rows)) > MOST_ROWS
    if columns:
        shown = excerpt(columns, results.rows, report.best_first) if is_long else columns
        console.print(render(shown, console.width))
    cells = len(shown_rows(results.rows))
    command = f"raybench report {quote(results.name)}"
    if ranking and cells > len(ranking):
        line = f"One row per device, at its best settings; all {cells} cells: {command} --full"
        console.print(line, style="dim", soft_wrap=True)
    if is_long:
        order = "time to the target, then by time per example" if results.target else "time per example"
        line = (
            f"The best {BEST} and the last {LAST} of {cells:,} cells, by {order}; all: {command} --full, or on a page "
            "that sorts and searches them: --html FILE"
        )
        console.print(line, style="dim", soft_wrap=True)
    for note in skip_notes(results.rows):
        console.print(note, soft_wrap=True)
    for fact in (each for paragraph in report.verdict for each in paragraph if isinstance(each, NoBaselineFact)):
        console.print(worded(fact))


def show_sections(sections: Iterable[ReportTable], console: Console) -> None:
    """Print the tables of evidence."""
    for section in sections:
        console.print()
        console.print(f"{section.title}. {section.says}")
        console.print(fitted_table(section_columns(section), console.width))


def section_columns(section: ReportTable) -> list[TableColumn]:
    """The columns of a table of evidence as texts."""
    rows = [[text for _, text in section.cells(record)] for record in section.records]
    importances = [EXTRA if column.extra else KEY for column in section.shown]
    return [
        TableColumn(column.head, cells, importance, column.right)
        for column, cells, importance in zip(section.shown, zip(*rows, strict=True), importances, strict=True)
    ]


def show_remarks(report: Report, console: Console, full: bool = False) -> None:
    """Print the remarks that could change the answer; in full, the others too."""
    shown = [remark for remark in report.remarks if full or remark.kind != NOTE]
    results = report.results
    columns = cell_columns(results.rows, results.metric_label) if full or not report.ranking else []
    has_marks = any(column.head == CAUTIONS for column in fitting(columns, console.width))
    cited = {mark for paragraph in report.verdict for fact in paragraph for mark in getattr(fact, "cautions", ())}
    if shown:
        console.print()
    for remark in shown:
        head = {NOTE: "Note", "smoke": "Smoke run"}.get(remark.kind, "Caution")
        head += f" {remark.mark}" if remark.mark and (has_marks or remark.mark in cited) else ""
        style = "dim" if remark.kind == NOTE else "yellow"
        console.print(f"{head}: {remark.says} {remark.remedy}".rstrip(), style=style)


def show_report(report: Report, console: Console | None = None, full: bool = False) -> None:
    """Print the report; `full` adds everything that a terminal can show of the page."""
    console = console or page()
    show_verdict(report, console, full)
    console.print()
    show_table(report, console, full)
    if full:
        _show_details(report, console)
    show_remarks(report, console, full)
    groups = grouped_troubles(report.troubles)
    if groups:
        console.print()
    for trouble in groups if full else groups[:MOST]:
        line = " ".join(render_phrase("trouble", trouble).split())
        console.print(f"{trouble['status']:<9} {line}", soft_wrap=True, markup=False)


def _show_details(report: Report, console: Console) -> None:
    """Print the table of all cells with its legend, the tables of evidence, and sentences on each cell."""
    results = report.results
    if report.ranking:
        console.print()
        console.print(render(cell_columns(results.rows, results.metric_label), console.width))
    heads = [each.head for each in fitting(cell_columns(results.rows, results.metric_label), console.width)]
    for note in notes(results.rows, caption(report, heads), heads):
        console.print(note, style="dim")
    show_sections(report.sections, console)
    if report.deciding:
        console.print()
    for fact in report.deciding:
        console.print(worded(fact))
    for label, facts in report.comparisons if len(report.comparisons) > 1 else ():
        if facts:
            console.print()
            console.print(f"{label}:")
        for fact in facts:
            console.print(worded(fact))


def caption(report: Report, heads: Collection[str] | None = None) -> str:
    """The caption of the table, which explains its numbers; `heads` are the shown columns, by default all."""
    return " ".join(render_phrase("caption", report.results, heads).split())


def worded(fact: Fact) -> Text:
    """A fact as a sentence for the terminal: the most important part in bold, names in italics."""
    from rich.text import Text

    return Text.assemble(*((text, STYLES.get(mark, "")) for text, mark in spans(fact)))
