"""The comparison as a table for the terminal."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from io import StringIO
from string import ascii_lowercase
from typing import TYPE_CHECKING, Any

from raybench.analysis.comparison import ACCURACY, Row, Spread
from raybench.analysis.findings import NOTES, Finding, by_code
from raybench.analysis.sentences import digits, times
from raybench.analysis.step_sections import NOTE as SECTIONS_NOTE
from raybench.plan import short

if TYPE_CHECKING:
    from rich.console import Console, ConsoleOptions, RenderableType, RenderResult

NOTHING = "–"
WARMUP_MARK = "*"
WARMUP_NOTE = f"{WARMUP_MARK} no epoch after the warm-up: this is a warm-up epoch."
BOUND_NOTE = (
    "bound by: with the share of what probes of the device reached (for input, of the time); overhead: not by the "
    "device."
)
WORD = 12
"""Letters of the longest word that is not broken where the page is narrow."""

WIDTH = 100
"""Columns of a table that goes to a file."""


Columns = list[tuple[str, str, list[str]]]
"""Head, side (`left` or `right`) and texts, one a row, of each column."""


def columns(rows: Sequence[Row], metric: str = ACCURACY, caption: str = "") -> tuple[Columns, list[str]]:
    """The columns in which something stands, and the notes below them; `render` says what they hold."""
    axes = {name: [row.axes.get(name) for row in rows] for name in dict.fromkeys(n for row in rows for n in row.axes)}
    shown = [name for name, values in axes.items() if any(value != values[0] for value in values)]
    notes = [", ".join(f"{name} {short(values[0])}" for name, values in axes.items() if name not in shown), caption]
    _, marks = doubted(rows)
    every: Columns = [
        *((name, "left", [short(row.axes[name]) if name in row.axes else NOTHING for row in rows]) for name in shown),
        ("status", "left", [f"{row.status}, A/A" if row.is_again else row.status for row in rows]),
        ("s/epoch", "right", [_steady(row) for row in rows]),
        (metric, "right", [_spread(row.metric, 3) for row in rows]),
        ("speed-up", "right", [_speedup(row) for row in rows]),
        ("bound by", "left", [f"{row.bound.by} {row.bound.share:.2f}" if row.bound else NOTHING for row in rows]),
        ("ms a step", "left", [_sections(row) for row in rows]),
        ("price/epoch", "right", [_price(row.epoch_price) for row in rows]),
        ("price/run", "right", [_price(row.total_price) for row in rows]),
        ("doubt", "left", [_marks(row, marks) for row in rows]),
    ]
    if any(row.from_warmup for row in rows):
        notes.append(WARMUP_NOTE)
    if any(row.sections for row in rows):
        notes.append(SECTIONS_NOTE)
    notes += [_same(row) for row in rows if row.is_again]
    if any(row.bound for row in rows):
        notes.append(BOUND_NOTE)
    return [column for column in every if any(cell not in (NOTHING, "") for cell in column[2])], notes


def doubted(rows: Sequence[Row]) -> tuple[dict[str, list[Finding]], dict[str, str]]:
    """The findings of all rows by their codes, and the letter that stands for each code which makes ratios doubtful."""
    found = by_code(finding for row in rows for told in row.findings.values() for finding in told)
    marks = dict(zip((code for code in found if code not in NOTES), ascii_lowercase, strict=False))
    return found, marks


def render(rows: Sequence[Row], caption: str = "", metric: str = ACCURACY) -> RenderableType:
    """A row a cell: axes, status, steady epoch, metric, speed-up, what bounds it, price, and what there is to doubt.

    Axes with one value in the whole grid, and columns in which nothing would stand, are left out; the former are named
    in the caption. Where there are several runs, their least and most stand behind the middle in parentheses, and
    behind a speed-up its 95 % interval. A * marks a time that had to be taken from a warm-up epoch. A letter in the
    last column stands for a finding, which a line below the table tells, with its remedy.
    """
    from rich import box
    from rich.table import Table
    from rich.text import Text

    kept, notes = columns(rows, metric, caption)
    found, marks = doubted(rows)

    def table(wide: bool, whole: bool = True) -> Table:
        """The table; where the page is not wide, words and intervals stand below each other, and long texts wrap.

        Args:
            wide: everything of a cell in a line.
            whole: no word is broken, but for those of the status.
        """
        made = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=(0, 1, 0, 0))
        stacked: list[list[str]] = []
        for head, justify, cells in kept:
            right = justify == "right"
            # Of several columns that may wrap, rich breaks the words of the narrow ones too.
            kept_whole = right or (whole and head != "status" and all(map(_is_short, cells)))
            made.add_column(
                Text(head if wide or not whole else re.sub("([_/])", r"\1\n", head)),
                justify="right" if right else "left",
                no_wrap=kept_whole,
                overflow="fold",
            )
            stacked.append(list(map(_stacked, cells)) if kept_whole and not wide else cells)
        for texts in zip(*stacked, strict=True):
            made.add_row(*map(Text, texts))
        return made

    class Page:
        def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
            any_width = options.update(width=10_000)
            if console.measure(table(wide=True), options=any_width).maximum <= options.max_width:
                yield table(wide=True)
            else:
                least = console.measure(table(wide=False), options=any_width).minimum
                yield table(wide=False, whole=least <= options.max_width)
            # Below the table and not its caption, which would be wrapped to the table's width.
            yield from (Text(note, style="dim") for note in notes if note)
            for code, line in _doubts(rows, found, marks):
                yield Text(line, style="yellow" if code in marks else "dim")

    return Page()


def text(rows: Sequence[Row], caption: str = "", metric: str = ACCURACY, width: int = WIDTH) -> str:
    """The same table as plain text, without colours."""
    from rich.console import Console

    page = StringIO()
    Console(file=page, width=width, color_system=None).print(render(rows, caption, metric))
    return "\n".join(line.rstrip() for line in page.getvalue().strip("\n").splitlines()) + "\n"


def _stacked(cell: str) -> str:
    """A number with its interval below it, and what held a cell up with its share below it."""
    return re.sub(r" \(| (?=[\d.]+$)", "\n", cell).removesuffix(")")


def _is_short(cell: str) -> bool:
    return all(len(word) <= WORD for word in cell.split())


def _spread(spread: Spread | None, digits: int) -> str:
    if spread is None:
        return NOTHING
    if spread.runs == 1:
        return f"{spread.value:.{digits}f}"
    return f"{spread.value:.{digits}f} ({spread.low:.{digits}f}–{spread.high:.{digits}f})"


def _steady(row: Row) -> str:
    if row.steady is None:
        return NOTHING
    mark = WARMUP_MARK if row.from_warmup else ""
    if row.steady.runs == 1:
        return f"{digits(row.steady.value)}{mark}"
    return f"{digits(row.steady.value)}{mark} ({digits(row.steady.low)}–{digits(row.steady.high)})"


def _sections(row: Row) -> str:
    return ", ".join(f"{name} {digits(took)}" for name, took in row.sections.items()) or NOTHING


def _speedup(row: Row) -> str:
    if row.is_baseline:
        return "baseline"
    found = row.speedup
    return NOTHING if found is None else times(found.ratio, found.low, found.high)


def _same(row: Row) -> str:
    """What an A/A check has come to."""
    found = row.speedup
    if found is None:
        return "A/A: the same cell twice; the two have not both completed."
    if found.low is None or found.high is None:
        return f"A/A: the same cell twice: {digits(found.ratio)} ×; one run each shows no interval."
    held = found.low <= 1 <= found.high
    more = "runs here differ by more than their spread says, which chance alone does once in 20"
    says = "contains 1, as it should" if held else f"does not contain 1: {more}"
    return f"A/A: the same cell twice: {_speedup(row)}; the interval {says}."


def _marks(row: Row, marks: Mapping[str, str]) -> str:
    """The letters of what there is to doubt of a cell's runs."""
    codes = {finding.code for told in row.findings.values() for finding in told}
    return " ".join(mark for code, mark in marks.items() if code in codes) or NOTHING


def _doubts(
    rows: Sequence[Row], found: Mapping[str, Sequence[Finding]], marks: Mapping[str, str]
) -> Iterator[tuple[str, str]]:
    """A line for each code: its letter, how many runs it touches, what was seen in the worst of them, the remedy."""
    runs = sum(row.runs for row in rows)
    for code, group in found.items():
        worst = group[0]
        spread = "" if all(finding.says == worst.says for finding in group) else ", at worst"
        touched = f"{len(group)} of {runs} run{'s' if runs != 1 else ''}"
        head = f"{marks.get(code, 'note')}: {worst.name} ({touched}{spread})"
        yield code, f"{head}: {worst.says}. {worst.remedy[:1].upper()}{worst.remedy[1:]}."


def _price(price: Any) -> str:
    return NOTHING if price is None else digits(price)
