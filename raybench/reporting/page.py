"""The report as a self-contained page, and its overview for notebooks."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import TYPE_CHECKING, Any

from raybench.analysis.answer import Answer
from raybench.core.text import plural, printable
from raybench.reporting import figures
from raybench.reporting.columns import configuration_columns, device_columns, effect_columns, machine_columns, rows
from raybench.reporting.report import Report
from raybench.reporting.tables import as_markdown
from raybench.reporting.words.best import best_texts, further_sentences
from raybench.reporting.words.captions import hardware_text, machines_text, table_caption
from raybench.reporting.words.effects import effect_detail, effects_note
from raybench.reporting.words.status import caution_text, failure_sentences, status_sentences, trust_sentence
from raybench.tracking.mapping import Result

if TYPE_CHECKING:
    from jinja2 import Template

USED: tuple[Callable[..., Any], ...] = (
    *(status_sentences, best_texts, further_sentences, effect_detail, effects_note, table_caption, failure_sentences),
    *(trust_sentence, caution_text, machines_text, hardware_text, plural),
    *(rows, effect_columns, device_columns, configuration_columns, machine_columns),
)
"""Functions that the template calls."""


def page(report: Report, running: str = "") -> str:
    """Return the report as an HTML page in one file.

    Args:
        running: what to say instead of the answer while the grid runs; the page then reloads itself.
    """
    module: Any = template().module
    drawn = figures.rendered_figures(report.answer, ("speed", "learning") if running else ())
    return printable(str(module.page(report, drawn, running)).lstrip())


def tracked(report: Report) -> Result:
    """Return the report as MLflow shows it."""
    return Result(report.answer, as_markdown(report), page(report))


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
    templates.globals |= {function.__name__: function for function in USED}
    return templates.get_template("page.html.j2")
