"""Consoles for tables: the terminal with its width; or a file or a pipe, whose lines are not folded."""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import Any

from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment

from raybench.core.text import printable

WIDE = 200
"""Columns if the width is not known."""


class Terminal(Console):
    """A console that strips control codes from text; colours and the live display are rich's own."""

    def __init__(self, **options: Any) -> None:
        super().__init__(markup=False, highlight=False, **options)

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        """Yield the segments of a renderable: text and rich's own control codes."""
        for text, style, control in super().render(renderable, options):
            yield Segment(text if control else printable(text), style, control)


def page() -> Console:
    """Standard output for tables.

    Text is not parsed as markup, because lists such as [crop,flip] are not.
    """
    console = Terminal()
    if not console.is_terminal and "COLUMNS" not in os.environ:
        console.width = WIDE
    return console
