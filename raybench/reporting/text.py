"""The report as text: status, answer, effects, configurations, trust; for any width from 60 columns."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import zip_longest
from typing import TYPE_CHECKING

from raybench.core.text import printable
from raybench.reporting import words
from raybench.reporting.columns import LABEL, Column, configuration_columns, effect_columns, fitting, rows

if TYPE_CHECKING:
    from rich.console import Console

    from raybench.analysis.answer import Answer

MAX_ROWS, WORST_ROWS = 12, 3
"""Maximum number of configurations without `full`; how many of them are the worst."""

MAX_FAILURES = 5
"""Maximum number of reasons for missing results without `full`."""

GAP = 2
"""Spaces between two columns."""

NO_BREAK = "\xa0"
"""A space between words of one line."""

Line = tuple[str, str]
"""A line of text and its style."""


def report_text(answer: Answer, width: int, full: bool = False) -> str:
    """Return the report as plain text of this width."""
    return "".join(f"{text}\n" for text, _ in report_lines(answer, width, full))


def print_report(answer: Answer, console: Console, full: bool = False) -> None:
    """Print the report; `full` adds all configurations, all failures and the notes."""
    for text, style in report_lines(answer, console.width, full):
        console.print(text, style=style or None, soft_wrap=True, markup=False, highlight=False)


def report_lines(answer: Answer, width: int, full: bool = False) -> Iterator[Line]:
    """Yield the lines of the report, none longer than the width unless a single word is."""
    for number, block in enumerate(filter(None, _blocks(answer, width, full))):
        if number:
            yield "", ""
        for text, style in block:
            yield printable(text), style


def _blocks(answer: Answer, width: int, full: bool) -> Iterator[list[Line]]:
    """Yield the parts of the report, which empty lines separate."""
    yield _wrapped(words.status_sentences(answer), width, "yellow")
    yield _wrapped(map(str, words.best_texts(answer)), width, "bold")
    if answer.effects:
        details = {number: detail for number, each in enumerate(answer.effects) if (detail := words.effect_detail(each))}
        yield list(_table(effect_columns(answer), width, details))
    if len(answer.configurations) > 1:
        yield list(_configurations(answer, width, full))
    failures = words.failure_sentences(answer)
    if not full and len(failures) > MAX_FAILURES:
        more = len(failures) - MAX_FAILURES
        failures = [*failures[:MAX_FAILURES], f"{words.plural(more, 'more reason')} for missing results: --full"]
    yield _wrapped(failures, width)
    yield list(_trust(answer, width, full))


def _wrapped(sentences: Iterable[str], width: int, style: str = "", first: str = "", indent: str = "") -> list[Line]:
    """Wrap sentences between words, each from a new line."""
    return [
        (line, style)
        for sentence in sentences
        for line in textwrap.wrap(
            sentence, width, initial_indent=first, subsequent_indent=indent, break_on_hyphens=False
        )
    ]


def _configurations(answer: Answer, width: int, full: bool) -> Iterator[Line]:
    """Yield the table of configurations: all, or the best and the worst of many."""
    all_rows = rows(answer)
    columns = configuration_columns(answer, all_rows)
    left_out = 0 if full else max(0, len(all_rows) - MAX_ROWS)
    best = MAX_ROWS - WORST_ROWS
    if left_out:
        kept = [*range(best), *range(len(all_rows) - WORST_ROWS, len(all_rows))]
        columns = [column.of_rows(kept) for column in columns]
    yield from _table(columns, width, {best - 1: f"… {left_out:,} more: --full"} if left_out else {})
    yield from _wrapped([words.table_caption(answer)], width, "dim")


def _trust(answer: Answer, width: int, full: bool) -> Iterator[Line]:
    cautions, notes = answer.trust.cautions, answer.trust.notes
    yield from _wrapped([words.trust_sentence(answer)], width, "yellow" if cautions else "green")
    for each in cautions:
        mark = f"{each.mark}: " if each.mark else ""
        yield from _wrapped([f"{mark}{words.caution_text(each)}"], width, "yellow", "  ", "  ")
    if full:
        yield from _wrapped([f"Note: {words.caution_text(each)}" for each in notes], width, "dim")
    elif notes:
        yield from _wrapped([f"{words.plural(len(notes), 'note')}: --full"], width, "dim")


def _table(columns: Sequence[Column], width: int, below: Mapping[int, str]) -> Iterator[Line]:
    """Yield the lines of a table that fits the width.

    Columns are dropped in their order, labels and headings are wrapped.

    Args:
        columns: the columns.
        width: of the terminal.
        below: texts below rows, by number.
    """
    shown = fitting(columns, width, GAP)
    gaps = GAP * (len(shown) - 1)
    sizes = [max(map(len, [column.head, *column.texts])) for column in shown]
    if sum(sizes) + gaps > width:
        sizes = [max(map(len, [*column.head.split(), *column.texts])) for column in shown]
    excess = sum(sizes) + gaps - width
    sizes = [size - max(0, excess) if column.kind == LABEL else size for column, size in zip(shown, sizes, strict=True)]
    yield from ((line, "bold") for line in _row([column.head for column in shown], shown, sizes, bottom=True))
    yield "─" * (sum(sizes) + gaps), "dim"
    for number, texts in enumerate(zip(*(column.texts for column in shown), strict=True)):
        yield from ((line, "") for line in _row(texts, shown, sizes))
        if number in below:
            yield from _wrapped([below[number]], width, "dim", "  ", "  ")


def _row(texts: Sequence[str], columns: Sequence[Column], sizes: Sequence[int], bottom: bool = False) -> Iterator[str]:
    """Yield the lines of a row, whose texts are wrapped to the sizes of their columns."""
    # A label is wrapped between its parts: decay 0 stays together.
    texts = [re.sub("(?<!,) ", NO_BREAK, text) if column.kind == LABEL else text for text, column in zip(texts, columns, strict=True)]
    cells = [textwrap.wrap(text, size, break_on_hyphens=False) for text, size in zip(texts, sizes, strict=True)]
    height = max(map(len, cells))
    cells = [[""] * (height - len(lines)) + lines if bottom else lines for lines in cells]
    for parts in zip_longest(*cells, fillvalue=""):
        aligned = zip(parts, columns, sizes, strict=True)
        texts = [text.rjust(size) if column.right else text.ljust(size) for text, column, size in aligned]
        yield (" " * GAP).join(texts).rstrip().replace(NO_BREAK, " ")
