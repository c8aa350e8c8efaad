"""The report as a single self-contained HTML page.

It has no external resources, and a script only to sort and search tables. It is laid out for desktop, phone and print.
"""

from __future__ import annotations

import csv
import re
from base64 import b64encode
from collections.abc import Iterable, Mapping, Sequence
from io import StringIO
from typing import TYPE_CHECKING, Any

from raybench.reporting.comparison_table import TableColumn, cell_columns, notes, ranking_columns, skip_notes
from raybench.reporting.report import NOTE, Report, grouped_troubles
from raybench.reporting.sentences import as_html, environment, render_phrase
from raybench.reporting.tables import ReportTable

if TYPE_CHECKING:
    from markupsafe import Markup

    from raybench.reporting.figures import RenderedFigure

TEMPLATE = "report.html.j2"

COMPARISONS = 60
"""Maximum number of cells with written verdicts.

The data files contain those of more cells.
"""

ROWS = 500
"""Maximum number of rows of a table that are on the page at once; all rows of a longer one are in it as CSV."""


def with_code(text: str) -> Markup:
    """Escape a text and mark its parts between backticks as code.

    The text may come from raybench or from users' files.
    """
    from markupsafe import Markup, escape

    return Markup(re.sub("`([^`]+)`", r"<code>\1</code>", str(escape(text))))


def csv_of_columns(columns: Sequence[TableColumn]) -> str:
    """Return a table of texts as CSV in base64, for a link."""
    return _csv([column.head for column in columns], zip(*(column.cells for column in columns), strict=True))


def csv_of_section(section: ReportTable) -> str:
    """Return a table of evidence as CSV in base64, for a link."""
    rows = ([text for _, text in section.cells(record)] for record in section.records)
    return _csv([column.head for column in section.shown], rows)


def _csv(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    text = StringIO()
    # The script of the page reads quoted cells, one row per line.
    writer = csv.writer(text, quoting=csv.QUOTE_ALL)
    writer.writerows([" ".join(cell.split()) for cell in row] for row in (heads, *rows))
    return b64encode(text.getvalue().encode("utf-8", "replace")).decode()


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
            models=_models(report.machines),
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
            most_rows=ROWS,
            csv_of_columns=csv_of_columns,
            csv_of_section=csv_of_section,
            html=as_html,
            with_code=with_code,
        )
    )


def _models(machines: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return the device models of a report's machines, each once."""

    def text(machine: Mapping[str, Any]) -> str:
        several = machine["kind"] != "cpu" and (machine["count"] or 0) > 1
        return f"{machine['device']}: {machine['model']}" + (f" (× {machine['count']})" if several else "")

    return list(dict.fromkeys(map(text, machines)))
