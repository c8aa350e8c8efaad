"""Rendering of facts as sentences, and formatting of numbers.

Output formats are terminal text, Markdown and HTML. The English text of a fact is the macro of its class's name in one
of the `SENTENCES`. A macro writes HTML: `<em>` for names from users' files, `<code>` for words of a grid file,
`<strong>` for the main result. Values are escaped.
"""

from __future__ import annotations

import math
import re
from decimal import Decimal
from functools import cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from jinja2 import Environment
    from markupsafe import Markup

    from raybench.analysis.fact import Fact

SENTENCES = (
    "verdict.html.j2",
    "target.html.j2",
    "learning.html.j2",
    "summary.html.j2",
    "remarks.html.j2",
)
"""Templates with the sentences, in `templates/`."""

NAME, CODE, STRONG = "em", "code", "strong"

LEAST, MOST = 0.001, 9999
"""Range in which the ends of a ratio's interval are printed."""

ROUNDING = 1e-9
"""Seconds, ratios and points below this are floating-point rounding errors."""

_TAGS = re.compile(r"<(/?)(em|code|strong)>")
_SIGNS = re.compile(r"([\\`*_{}\[\]<>#|~!&])")


@cache
def environment() -> Environment:
    """Return the templates of reports.

    Everything in them is escaped, because names come from users' files.
    """
    from jinja2 import Environment, PackageLoader, StrictUndefined

    from raybench.core.memory import size
    from raybench.core.settings import label
    from raybench.core.text import format_value, join_words

    loader = PackageLoader("raybench.reporting", "templates")
    templates = Environment(
        loader=loader,
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        auto_reload=False,  # otherwise it looks at the template's file for each phrase
    )
    filters = (between, digits, end, inverse, join_words, plural, label, format_value, signed, size, starting, times)
    templates.filters.update({each.__name__: each for each in filters})
    return templates


@cache
def _macros() -> dict[str, Callable[[Fact], Markup]]:
    modules = [environment().get_template(name).module for name in SENTENCES]
    kinds = ("Fact", "Remedy")
    return {name: macro for module in modules for name, macro in vars(module).items() if name.endswith(kinds)}


def as_html(fact: Fact) -> Markup:
    """Render a fact as a sentence in HTML, everything escaped."""
    return _written(_macros()[type(fact).__name__], fact)


def remedy(fact: Fact) -> str:
    """Return the remedy of a remark in plain text.

    Empty if none is known.
    """
    macro = _macros().get(type(fact).__name__.removesuffix("Fact") + "Remedy")
    return _written(macro, fact).unescape() if macro else ""


def _written(macro: Callable[[Fact], Markup], fact: Fact) -> Markup:
    from markupsafe import Markup

    # Lines of a template end at spaces of the sentence.
    return Markup(re.sub(r"\s*\n\s*", " ", macro(fact)).strip())


def spans(fact: Fact) -> list[tuple[str, str]]:
    """Split a fact's sentence into parts, each with its markup.

    The markup is empty for plain words.
    """
    from html import unescape

    text, *pieces = _TAGS.split(as_html(fact))
    # For each tag: whether it closes, its name, and the text after it.
    parts = [
        ("", text),
        *(("" if closing else tag, text) for closing, tag, text in zip(*[iter(pieces)] * 3, strict=True)),
    ]
    return [(unescape(text), mark) for mark, text in parts if text]


def plain(fact: Fact) -> str:
    """Render a fact as a sentence in plain text."""
    return "".join(text for text, _ in spans(fact))


def markdown(fact: Fact) -> str:
    """Render a fact as a sentence in Markdown.

    Names are in italics, code is between backticks, and the main result is in bold.
    """
    return "".join(_markdown(text, mark) for text, mark in spans(fact))


def _markdown(text: str, mark: str) -> str:
    if mark == CODE:
        fence = "`" * (1 + max((len(run) for run in re.findall("`+", text)), default=0))
        space = " " if "`" in text else ""
        return f"{fence}{space}{text}{space}{fence}"
    escaped = _SIGNS.sub(r"\\\1", text)
    return {NAME: f"*{escaped}*", STRONG: f"**{escaped}**"}.get(mark, escaped)


def render_phrase(name: str, *args: object, of: str = "phrases.html.j2") -> str:
    """Render a macro of a template as plain text, keeping its lines."""
    from markupsafe import Markup

    return Markup(getattr(environment().get_template(of).module, name)(*args)).unescape()


def digits(value: float, count: int = 3) -> str:
    """Format a number with this many significant digits: 3.92, 0.0178.

    All digits before the decimal point are kept: 2331.
    """
    if abs(value) >= 10**count:
        return f"{value:.0f}"
    return f"{Decimal(f'{value:.{count - 1}e}'):f}" if abs(value) > ROUNDING else "0"


def end(value: float) -> str:
    """Format an end of an interval.

    Two very different runs leave an interval nearly open; its digits are then meaningless and are not shown.
    """
    if value < LEAST:
        return f"<{LEAST:g}"
    return f">{MOST:g}" if value > MOST else digits(value)


def times(ratio: float, low: float | None = None, high: float | None = None) -> str:
    """Format a ratio for a table, with its 95% interval if present: 1.55x (1.34–1.78)."""
    return f"{digits(ratio)}x" + ("" if low is None or high is None else f" ({end(low)}–{end(high)})")


def between(low: float, high: float) -> str:
    """Format the ends of an interval: 1.34–1.78, or −1.1 to +0.68 if it contains negative numbers."""
    if max(abs(low), abs(high)) < ROUNDING:  # of a difference between equal values
        return "0–0"
    return f"{end(low)}–{end(high)}" if low >= 0 else f"{signed(low)} to {signed(high)}"


def signed(value: float) -> str:
    """Format a difference with its sign and two significant digits: +0.68, −1.1."""
    text = digits(abs(value), 2)
    return text if text == "0" else f"{'−' if value < 0 else '+'}{text}"


def inverse(ratio: float | None) -> float | None:
    """Return the reciprocal of a ratio; None for None."""
    return None if ratio is None else 1 / ratio if ratio else math.inf


def starting(name: str) -> str:
    """Capitalize a cell's name at the start of a sentence, unless it is the user's own: Batch 128, but gpu."""
    from raybench.core.settings import SETTINGS, label

    known = any(name.startswith(f"{label(setting)} ") for setting in SETTINGS)
    return name[:1].upper() + name[1:] if known else name


def plural(count: float, noun: str) -> str:
    """Format a count with its noun: "1 run", "3 runs"."""
    return f"{count:g} {noun}" if count == 1 else f"{count:g} {noun}s"
