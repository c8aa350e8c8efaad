"""Columns of text that fit a terminal of any width, and sentences that are wrapped between words."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import zip_longest

NOTHING = "–"

GAP = 2  # spaces between two columns

LEAST_LABEL = 16
"""Width to which columns of labels and sentences are wrapped; half of it if no other column can be dropped."""

UNIMPORTANT = 8  # columns from this place in their order on are dropped before labels are wrapped
NO_BREAK = "\xa0"  # a space between words of one line
Line = tuple[str, str]  # a line of text and its style
LABEL = "label"  # kind of the column that a terminal shows instead of those of kind `AXIS`
TEXT = "text"  # kind of a column of sentences, which are wrapped between words
AXIS = "axis"  # kind of a column for an axis, with which a page sorts and filters


@dataclass(frozen=True)
class Column:
    """A column of a table.

    Attributes:
        head: its heading, with the unit.
        texts: a text for each row.
        drop: narrow terminals leave out columns from the highest number on; those with 0 never.
        right: whether it is aligned to the right.
        kind: `LABEL`, `TEXT`, `AXIS` or empty.
    """

    head: str
    texts: Sequence[str]
    drop: int = 0
    right: bool = False
    kind: str = ""

    @property
    def is_empty(self) -> bool:
        """Whether no row has a value."""
        return all(text in ("", NOTHING) for text in self.texts)

    def of_rows(self, numbers: Sequence[int]) -> Column:
        """Return the column of some of the rows."""
        return replace(self, texts=[self.texts[number] for number in numbers])


def wrapped(sentences: Iterable[str], width: int, style: str = "", first: str = "", indent: str = "") -> list[Line]:
    """Wrap sentences between words, each from a new line."""
    wrapper = textwrap.TextWrapper(width, first, indent, break_on_hyphens=False, break_long_words=False)
    return [(line, style) for sentence in sentences for line in wrapper.wrap(sentence)]


def table_lines(columns: Sequence[Column], width: int, below: Mapping[int, str] | None = None) -> Iterator[Line]:
    """Yield the lines of a table that fits the width.

    Columns are dropped in their order, labels and headings are wrapped.
    """
    shown = fitting(columns, width)
    gaps = GAP * (len(shown) - 1)
    sizes = [max(map(len, [column.head, *column.texts])) for column in shown]
    if sum(sizes) + gaps > width:
        sizes = [max(_head_width(column.head), *map(len, column.texts)) for column in shown]
    excess = sum(sizes) + gaps - width
    if excess > 0 and (wraps := [number for number, column in enumerate(shown) if column.kind in (LABEL, TEXT)]):
        sizes[wraps[0]] = min(sizes[wraps[0]], max(LEAST_LABEL // 2, sizes[wraps[0]] - excess))
    yield from ((line, "bold") for line in _row([column.head for column in shown], shown, sizes, bottom=True))
    yield "─" * (sum(sizes) + gaps), "dim"
    for number, texts in enumerate(zip(*(column.texts for column in shown), strict=True)):
        yield from ((line, "") for line in _row(texts, shown, sizes))
        if below and number in below:
            yield from wrapped([below[number]], width, "dim", "  ", "  ")


def _row(texts: Sequence[str], columns: Sequence[Column], sizes: Sequence[int], bottom: bool = False) -> Iterator[str]:
    cells: list[list[str]] = []
    for text, column, size in zip(texts, columns, sizes, strict=True):
        # A label is wrapped between its parts and after "vs.": decay 0 stays together, unless a part is too long.
        parts = re.split("(?<=[,.]) ", text) if column.kind == LABEL else []
        joined = " ".join(part if len(part) > size else part.replace(" ", NO_BREAK) for part in parts)
        cells.append(textwrap.wrap(joined or text, size, break_on_hyphens=False))
    height = max(map(len, cells))
    cells = [[""] * (height - len(lines)) + lines if bottom else lines for lines in cells]
    for line in zip_longest(*cells, fillvalue=""):
        aligned = zip(line, columns, sizes, strict=True)
        texts = [text.rjust(size) if column.right else text.ljust(size) for text, column, size in aligned]
        yield (" " * GAP).join(texts).rstrip().replace(NO_BREAK, " ")


def fitting(columns: Sequence[Column], width: int) -> list[Column]:
    """Return the columns that fit a terminal, dropped in a fixed order; never quality or an interval."""
    shown = [column for column in columns if column.kind != AXIS]

    def needed(column: Column, least: int) -> int:
        longest = max(map(len, column.texts), default=0)
        return max(min(longest, least) if column.kind in (LABEL, TEXT) else longest, _head_width(column.head))

    # A label on one line is worth more than a column that is not important.
    for least, important in ((width, UNIMPORTANT), (LEAST_LABEL, 1)):
        while sum(needed(column, least) + GAP for column in shown) - GAP > width:
            last = max(shown, key=lambda column: column.drop)
            if last.drop < important:
                break
            shown.remove(last)
    return shown


def _head_width(head: str) -> int:
    """Return the smallest width at which a heading has at most two lines."""
    longest = max(map(len, head.split()))
    return next(width for width in range(longest, len(head) + 1) if len(textwrap.wrap(head, width)) <= 2)
