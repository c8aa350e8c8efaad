"""The report as a single self-contained HTML page.

It has no scripts and no external resources, and is laid out for desktop, phone and print.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from raybench.reporting.comparison_table import Columns, columns
from raybench.reporting.report import NOTE, Report
from raybench.reporting.sentences import as_html, environment

if TYPE_CHECKING:
    from markupsafe import Markup

    from raybench.reporting.figures import RenderedFigure
    from raybench.reporting.published import PublishedReport

TEMPLATE, PUBLISHED = "report.html.j2", "published_page.html.j2"

COMPARISONS = 60
"""Maximum number of cells with written verdicts.

The data files contain those of more cells.
"""


def with_code(text: str) -> Markup:
    """Escape a text and mark its parts between backticks as code.

    The text may come from raybench or from users' files.
    """
    from markupsafe import Markup, escape

    return Markup(re.sub("`([^`]+)`", r"<code>\1</code>", str(escape(text))))


def page(report: Report, pictures: Sequence[RenderedFigure] = (), left_out: Mapping[str, str] | None = None) -> str:
    """Return the HTML page of a report.

    Args:
        report: the report.
        pictures: its figures (`raybench.reporting.figures.rendered_figures`).
        left_out: the reasons for figures without data, by title.
    """
    from markupsafe import Markup

    results = report.results
    shown_columns, notes = columns(results.rows, results.metric_label)
    head: Columns = shown_columns
    return (
        environment()
        .get_template(TEMPLATE)
        .render(
            report=report,
            context=report.context,
            results=results,
            columns=head,
            notes=notes,
            rows=range(len(head[0][2]) if head else 0),
            pictures=[(picture, Markup(picture.svg)) for picture in pictures],  # own drawing, already escaped
            left_out=left_out or {},
            caveat_count=sum(caveat.kind != NOTE for caveat in report.caveats) + len(report.troubles),
            comparisons=report.comparisons[:COMPARISONS],
            html=as_html,
            with_code=with_code,
        )
    )


def published_page(report: PublishedReport) -> str:
    """Return the HTML page of a published result."""

    publication = report.publication
    return environment().get_template(PUBLISHED).render(report=report, of=publication, html=as_html)
