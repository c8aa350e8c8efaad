"""Published results in the terminal: the report of one, and the list."""

from __future__ import annotations

from typing import TYPE_CHECKING

from raybench.cli.console import page
from raybench.cli.report_view import show_sections, worded

if TYPE_CHECKING:
    from collections.abc import Mapping

    from rich.console import Console

    from raybench.reporting.published import PublishedReport
    from raybench.sources.published_results import Publication


def show_published(report: PublishedReport, console: Console | None = None) -> None:
    """Print the reported numbers of a source, their evaluation, and caveats."""
    from rich.text import Text

    console, publication = console or page(), report.publication
    for paragraph in report.verdict:
        console.print(Text(" ").join(map(worded, paragraph)))
    show_sections(report.sections, console)
    console.print()
    console.print(f"source: {publication.source}")
    console.print(f"workload: {publication.workload}")
    console.print(f"protocol: {publication.protocol}")
    for caveat in publication.caveats:
        console.print(f"caveat: {caveat}", style="yellow")


def show_names(publications: Mapping[str, Publication]) -> None:
    """Print the available published results, one per line."""
    from rich.table import Table

    table = Table(box=None, show_header=False, padding=(0, 2, 0, 0))
    for name, publication in publications.items():
        table.add_row(f"published:{name}", publication.source)
    page().print(table)
