"""The report as a single self-contained HTML page.

It has no external resources, and a script only to sort tables. It is laid out for desktop, phone and print.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from raybench.reporting.comparison_table import cell_columns, notes, ranking_columns, skip_notes
from raybench.reporting.report import NOTE, Report, grouped_troubles
from raybench.reporting.sentences import as_html, environment, render_phrase

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

    results, ranking = report.results, report.ranking
    # Own drawings are already escaped.
    figures = {picture.name: (picture, Markup(picture.svg)) for picture in pictures}
    return (
        environment()
        .get_template(TEMPLATE)
        .render(
            report=report,
            context=report.context,
            results=results,
            ranking=ranking_columns(results, ranking) if ranking else [],
            cells=cell_columns(results.rows, results.metric_label),
            skips=skip_notes(results.rows),
            notes=notes(results.rows, " ".join(render_phrase("caption", results).split())),
            figures=figures,
            sections={section.name: section for section in report.sections},
            left_out=left_out or {},
            cautions=[remark for remark in report.remarks if remark.kind != NOTE],
            troubles=grouped_troubles(report.troubles),
            remarks=[remark for remark in report.remarks if remark.kind == NOTE],
            comparisons=report.comparisons[:COMPARISONS],
            html=as_html,
            with_code=with_code,
        )
    )


def published_page(report: PublishedReport) -> str:
    """Return the HTML page of a published result."""

    publication = report.publication
    return environment().get_template(PUBLISHED).render(report=report, of=publication, html=as_html)
