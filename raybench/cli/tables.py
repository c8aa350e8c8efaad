"""Tables that fit the width of the terminal: no word or number is broken."""

from __future__ import annotations

import textwrap
from collections.abc import Collection, Iterable, Sequence
from typing import TYPE_CHECKING

from rich.text import Text

from raybench.reporting.comparison_table import DETAIL, EXTRA, GAP, TableColumn

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table


def print_list(
    console: Console, heads: Sequence[str], rows: Sequence[Sequence[str]], right: Collection[str] = (), below: int = 1
) -> None:
    """Print a table without lines; if it is too wide, with the last columns on lines of their own below each row.

    Args:
        heads: the headings.
        rows: the texts of each row.
        right: headings of columns that are aligned to the right.
        below: number of last columns that may be put below.
    """
    widths = [max(map(len, texts)) for texts in zip(heads, *rows, strict=True)]
    fits = sum(widths) + GAP * (len(widths) - 1) <= console.width
    count = len(heads) if fits else len(heads) - below

    def line(texts: Sequence[str]) -> str:
        cells = zip(texts[:count], widths, heads, strict=False)
        return (
            (" " * GAP)
            .join(text.rjust(width) if head in right else text.ljust(width) for text, width, head in cells)
            .rstrip()
        )

    console.print(Text(line(heads), style="bold"), soft_wrap=True)
    for row in rows:
        console.print(Text(line(row)), soft_wrap=True)
        for text in filter(None, row[count:]):
            for part in textwrap.wrap(text, console.width - GAP, break_long_words=False, break_on_hyphens=False):
                console.print(Text(" " * GAP + part), soft_wrap=True)


def fitted_table(columns: Sequence[TableColumn], width: int) -> Table:
    """Return a table with the columns that fit into a width.

    Headings are wrapped between words. The least important columns are left out first; if that does not suffice, cells
    are wrapped between words, and then the last columns are left out.
    """
    from rich import box
    from rich.table import Table

    shown = list(columns)
    for importance in (DETAIL, EXTRA):
        for column in [column for column in shown if column.importance == importance][::-1]:
            if _total(map(_unwrapped, shown)) > width:
                shown.remove(column)
    while _total(map(_wrapped, shown)) > width and len(shown) > 1:
        shown.pop()
    needed = [_unwrapped(column) for column in shown]
    if _total(needed) > width:
        needed = [_wrapped(column) for column in shown]
    spare = width - _total(needed)
    table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=(0, GAP - 1, 0, 0))
    for column, least in zip(shown, needed, strict=True):
        more = min(max(spare, 0), column.width - least)
        spare -= more
        table.add_column(Text(column.head), justify="right" if column.right else "left", width=least + more)
    for texts in zip(*(column.cells for column in shown), strict=True):
        table.add_row(*map(Text, texts))
    return table


def _total(widths: Iterable[int]) -> int:
    sizes = list(widths)
    return sum(sizes) + GAP * (len(sizes) - 1)


def _unwrapped(column: TableColumn) -> int:
    """The width of a column whose heading alone is wrapped."""
    return max(map(len, [*column.head.split(), *column.cells]))


def _wrapped(column: TableColumn) -> int:
    """The width of a column whose cells are wrapped too."""
    return max(len(word) for text in (column.head, *column.cells) for word in text.split() or [""])
