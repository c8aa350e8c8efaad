"""Where tables go: the terminal, as wide as it is; or a file or a pipe, which has no width to fold lines for."""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import Any

from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment

from raybench.core.text import printable

WIDE = 200
"""Columns where nobody says how many there are."""


class Terminal(Console):
    """A console on which nothing in a text commands the terminal; colours and the live display are rich's own."""

    def __init__(self, **options: Any) -> None:
        super().__init__(markup=False, highlight=False, **options)

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        """Yield what a renderable comes to, in pieces of text and rich's own commands."""
        for text, style, control in super().render(renderable, options):
            yield Segment(text if control else printable(text), style, control)


def page() -> Console:
    """Standard output for tables: text as it is, since a list such as [crop,flip] is no markup of ours."""
    console = Terminal()
    if not console.is_terminal and "COLUMNS" not in os.environ:
        console.width = WIDE
    return console
