"""Lists in the terminal, whose last column is wrapped to its width."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING

from raybench.reporting.layout import TEXT, Column, table_lines

if TYPE_CHECKING:
    from rich.console import Console


def print_list(
    console: Console, heads: Sequence[str], rows: Sequence[Sequence[str]], right: Collection[str] = ()
) -> None:
    """Print rows of texts in columns.

    Args:
        console: where.
        heads: the headings; the last column is wrapped.
        rows: the texts of each row.
        right: headings of columns that are aligned to the right.
    """
    columns = [
        Column(head, texts, right=head in right, kind=TEXT if head == heads[-1] else "")
        for head, texts in zip(heads, zip(*rows, strict=True), strict=True)
    ]
    print_columns(console, columns)


def print_columns(console: Console, columns: Sequence[Column]) -> None:
    """Print a table that fits the console."""
    for text, style in table_lines(columns, console.width):
        console.print(text, style=style or None, soft_wrap=True, markup=False, highlight=False)
