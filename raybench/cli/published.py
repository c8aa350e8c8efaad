"""The report of a published result in the terminal, and the list of those that there are."""

from __future__ import annotations

from typing import TYPE_CHECKING

from raybench.cli.page import page
from raybench.cli.verdict import worded

if TYPE_CHECKING:
    from collections.abc import Mapping

    from rich.console import Console
    from rich.table import Table

    from raybench.analysis.sections import Section
    from raybench.sources.publications import Publication
    from raybench.sources.published_report import PublishedReport


def show_published(report: PublishedReport, console: Console | None = None) -> None:
    """Print what a source reported, what that comes to, and what to keep in mind."""
    from rich.text import Text

    console, of = console or page(), report.publication
    for paragraph in report.verdict:
        console.print(Text(" ").join(map(worded, paragraph)))
    for section in report.sections:
        console.print()
        console.print(f"{section.title}. {section.says}")
        console.print(table(section))
    console.print()
    console.print(f"source: {of.source}")
    console.print(f"workload: {of.workload}")
    console.print(f"protocol: {of.protocol}")
    for caveat in of.caveats:
        console.print(f"caveat: {caveat}", style="yellow")


def show_names(there: Mapping[str, Publication]) -> None:
    """Print what published results there are, a line each."""
    from rich.table import Table

    made = Table(box=None, show_header=False, padding=(0, 2, 0, 0))
    for name, one in there.items():
        made.add_row(f"published:{name}", one.source)
    page().print(made)


def table(section: Section) -> Table:
    """A table of a report for the terminal."""
    from rich import box
    from rich.table import Table
    from rich.text import Text

    made = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=(0, 1, 0, 0))
    for column in section.shown:
        made.add_column(Text(column.head), justify="right" if column.right else "left", overflow="fold")
    for record in section.records:
        made.add_row(*(Text(text) for _, text in section.cells(record)))
    return made
