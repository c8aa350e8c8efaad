"""Consoles for text and tables: the terminal with its width; or a file or a pipe, whose lines are not folded."""

from __future__ import annotations

import os
import sys
import textwrap
from collections.abc import Collection, Iterable, Sequence
from typing import Any

from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment

from raybench.core.text import printable
from raybench.reporting.layout import TEXT, Column, Line, table_lines

WIDE = 200
"""Columns if the width is not known."""


class Terminal(Console):
    """A console that strips control codes from text; colors and the live display are rich's own.

    A notebook gets plain lines: its output claims to be a terminal, but keeps each redrawing of a live display.
    """

    def __init__(self, **options: Any) -> None:
        if "ipykernel" in sys.modules:
            options = {"force_terminal": False, **options}
        super().__init__(markup=False, highlight=False, force_jupyter=False, **options)

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        """Yield the segments of a renderable: text and rich's own control codes."""
        for text, style, control in super().render(renderable, options):
            yield Segment(text if control else printable(text), style, control)


def page() -> Console:
    """Standard output for tables, without markup, because lists such as [crop,flip] are not."""
    console = Terminal()
    if not console.is_terminal and "COLUMNS" not in os.environ:
        console.width = WIDE
    return console


def print_text(console: Console, *texts: str, style: str | None = None) -> None:
    """Print texts, each of one or more lines, wrapped between words if the width is known.

    A continued line keeps its indent. A line that begins with `  raybench` is a command to copy and is not wrapped.
    """
    known_width = console.is_terminal or "COLUMNS" in os.environ
    lines: list[str] = []
    for line in (line for text in texts for line in text.splitlines() or [""]):
        indent = " " * (len(line) - len(line.lstrip()))
        parts = [line]
        if known_width and not line.startswith("  raybench"):
            parts = textwrap.wrap(
                line, console.width, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False
            )
        lines += parts or [""]
    if lines:
        console.print("\n".join(lines), style=style, soft_wrap=True)


def print_list(
    console: Console, heads: Sequence[str], rows: Sequence[Sequence[str]], right: Collection[str] = ()
) -> None:
    """Print rows of texts in columns, of which the last is wrapped."""
    columns = [
        Column(head, texts, right=head in right, kind=TEXT if head == heads[-1] else "")
        for head, texts in zip(heads, zip(*rows, strict=True), strict=True)
    ]
    print_columns(console, columns)


def print_columns(console: Console, columns: Sequence[Column]) -> None:
    """Print a table that fits the console."""
    print_lines(console, table_lines(columns, console.width))


def print_lines(console: Console, lines: Iterable[Line]) -> None:
    """Print lines with their styles."""
    for text, style in lines:
        console.print(text, style=style or None, soft_wrap=True, markup=False, highlight=False)
