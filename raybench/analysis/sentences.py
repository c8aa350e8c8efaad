"""Sentences about results: what stands in them, and how they are written out in a terminal, in Markdown and in HTML.

A sentence knows which of its parts are names, code or what matters most; names come from people's files and are
escaped where a form has signs of its own.
"""

from __future__ import annotations

import html
import re
from collections.abc import Sequence
from decimal import Decimal
from typing import NamedTuple

NAME, CODE, STRONG = "name", "code", "strong"

LEAST, MOST = 0.001, 9999
"""Ends of an interval of a ratio that are written out."""

TWICE = 2
"""Up to this ratio a difference is told in percent."""

_TAGS = {NAME: "em", CODE: "code", STRONG: "strong"}
_SIGNS = re.compile(r"([\\`*_{}\[\]<>#|~!&])")


class Span(NamedTuple):
    """A part of a sentence: its text, and what it is; empty for plain words."""

    text: str
    mark: str = ""


Sentence = tuple[Span, ...]


def sentence(*parts: str | Span) -> Sentence:
    """A sentence from its parts; those that are empty are left out."""
    spans = (part if isinstance(part, Span) else Span(part) for part in parts)
    return tuple(span for span in spans if span.text)


def name(text: str) -> Span:
    """A name from a person's file."""
    return Span(text, NAME)


def code(text: str) -> Span:
    """A word of a grid file."""
    return Span(text, CODE)


def strong(text: str) -> Span:
    """What matters most."""
    return Span(text, STRONG)


def plain(told: Sentence) -> str:
    """A sentence as plain text."""
    return "".join(span.text for span in told)


def markdown(told: Sentence) -> str:
    """A sentence as Markdown: names in italics, code between backticks, what matters most in bold."""
    return "".join(map(_markdown, told))


def as_html(told: Sentence) -> str:
    """A sentence as HTML, everything escaped."""
    return "".join(_html(span) for span in told)


def _markdown(span: Span) -> str:
    if span.mark == CODE:
        fence = "`" * (1 + max((len(run) for run in re.findall("`+", span.text)), default=0))
        space = " " if "`" in span.text else ""
        return f"{fence}{space}{span.text}{space}{fence}"
    # A line break would end a quotation or begin a list.
    text = _SIGNS.sub(r"\\\1", " ".join(span.text.split("\n")))
    return {NAME: f"*{text}*", STRONG: f"**{text}**"}.get(span.mark, text)


def _html(span: Span) -> str:
    text = html.escape(span.text)
    return f"<{_TAGS[span.mark]}>{text}</{_TAGS[span.mark]}>" if span.mark in _TAGS else text


def digits(value: float, count: int = 3) -> str:
    """A number with so many significant digits, as people write it: 3.92, 0.0178; all digits before the point: 2331."""
    if abs(value) >= 10**count:
        return f"{value:.0f}"
    return f"{Decimal(f'{value:.{count - 1}e}'):f}" if value else "0"


def end(value: float) -> str:
    """An end of an interval: two runs far apart leave it nearly open, and then its digits say nothing."""
    if value < LEAST:
        return f"<{LEAST:g}"
    return f">{MOST:g}" if value > MOST else digits(value)


def interval(low: float | None, high: float | None, unit: str = "") -> str:
    """A 95 % interval as it stands behind a ratio; nothing where there is none."""
    return "" if low is None or high is None else f" (95 %: {end(low)} to {end(high)}{unit})"


def how_far(ratio: float) -> str:
    """How far a ratio of 1 or more is from 1: in percent, from twice on as a ratio."""
    if ratio <= TWICE:
        return f"{digits(100 * (ratio - 1), 2)} %"
    return f"{digits(min(ratio, MOST), 2)} ×"


def times(ratio: float, low: float | None = None, high: float | None = None) -> str:
    """A ratio as it stands in a table, with its 95 % interval where it has one."""
    return f"{digits(ratio)} ×" + ("" if low is None or high is None else f" ({end(low)}–{end(high)})")


def listed(words: Sequence[str]) -> str:
    """Words as a list: "a", "a and b", "a, b and c"."""
    return " and ".join(filter(None, (", ".join(words[:-1]), *words[-1:])))
