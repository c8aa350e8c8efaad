"""Where tables go: the terminal, as wide as it is; or a file or a pipe, which has no width to fold lines for."""

from __future__ import annotations

import os

from rich.console import Console

WIDE = 200
"""Columns where nobody says how many there are."""


def page() -> Console:
    """Standard output for tables: text as it is, since a list such as [crop,flip] is no markup of ours."""
    console = Console(markup=False, highlight=False)
    if not console.is_terminal and "COLUMNS" not in os.environ:
        console.width = WIDE
    return console
