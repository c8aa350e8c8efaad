"""The report as one HTML page that stands alone: no script, nothing from elsewhere; for a desk, a phone and paper."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import cache
from typing import TYPE_CHECKING

from raybench.analysis.report import NOTE, Report
from raybench.analysis.sentences import as_html
from raybench.analysis.table import Columns, columns

if TYPE_CHECKING:
    from jinja2 import Template
    from markupsafe import Markup

    from raybench.analysis.figures import Picture
    from raybench.sources.published_report import PublishedReport

TEMPLATE, PUBLISHED = "report.html.j2", "published.html.j2"

COMPARISONS = 60
"""Cells whose verdicts are all written out; of more, the data have them."""


@cache
def _template(name: str) -> Template:
    from jinja2 import Environment, PackageLoader, StrictUndefined

    # Everything is escaped; names come from people's files.
    loader = PackageLoader("raybench.analysis", "templates")
    made = Environment(loader=loader, autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    return made.get_template(name)


def with_code(text: str) -> Markup:
    """Text of ours or of anybody, escaped; what stands between backticks is code."""
    from markupsafe import Markup, escape

    return Markup(re.sub("`([^`]+)`", r"<code>\1</code>", str(escape(text))))


def page(report: Report, pictures: Sequence[Picture] = (), left_out: Mapping[str, str] | None = None) -> str:
    """The page.

    Args:
        report: the report.
        pictures: its figures (`raybench.analysis.figures.pictures`).
        left_out: from a figure's title to why it has nothing to show.
    """
    from markupsafe import Markup

    standing = report.standing
    kept, notes = columns(standing.rows, standing.metric)
    head: Columns = kept
    return _template(
        TEMPLATE
    ).render(
        report=report,
        told=report.told,
        standing=standing,
        columns=head,
        notes=notes,
        rows=range(len(standing.rows)),
        pictures=[(picture, Markup(picture.svg)) for picture in pictures],  # our own drawing, escaped
        left_out=left_out or {},
        doubted=sum(doubt.kind != NOTE for doubt in report.doubts) + len(report.troubles),
        comparisons=report.comparisons[:COMPARISONS],
        html=lambda told: Markup(as_html(told)),  # escapes every part
        with_code=with_code,
    )


def published_page(report: PublishedReport) -> str:
    """The page of a published result."""
    from markupsafe import Markup

    of = report.publication
    return _template(PUBLISHED).render(report=report, of=of, html=lambda told: Markup(as_html(told)))
