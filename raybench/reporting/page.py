"""The report as a self-contained page, and its overview for notebooks."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

from raybench.core.text import plural, printable
from raybench.reporting import figures, words
from raybench.reporting.columns import configuration_columns, device_columns, effect_columns, machine_columns, rows

if TYPE_CHECKING:
    from jinja2 import Template

    from raybench.analysis.answer import Answer
    from raybench.reporting.report import Report


def page(report: Report) -> str:
    """Return the report as an HTML page in one file."""
    module: Any = template().module
    return printable(str(module.page(report, figures.rendered_figures(report.answer))).lstrip())


def overview(answer: Answer) -> str:
    """Return the answer, the table of effects and the figure of speeds as HTML, for a notebook."""
    module: Any = template().module
    return str(module.overview(answer, figures.rendered_figures(answer, ["speed"])))


@cache
def template() -> Template:
    """Return the template of the page; everything in it is escaped, because names come from users' files."""
    from jinja2 import Environment, PackageLoader, StrictUndefined

    templates = Environment(
        loader=PackageLoader("raybench.reporting", "templates"),
        autoescape=lambda name: name is not None and name.endswith(".html.j2"),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    templates.globals |= {
        "words": words,
        "plural": plural,
        "effect_columns": effect_columns,
        "device_columns": device_columns,
        "machine_columns": machine_columns,
        "rows": rows,
    }
    templates.globals |= {"configuration_columns": configuration_columns}
    return templates.get_template("page.html.j2")
