"""The comparison as a table for the terminal."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from io import StringIO
from typing import TYPE_CHECKING, Any

from raybench.analysis.caveats import FindingFact, finding_facts
from raybench.analysis.comparison import ACCURACY, MeanMinMax, Row
from raybench.core.settings import short_name
from raybench.core.text import printable
from raybench.planning.plan import format_value
from raybench.reporting.sentences import digits, render_phrase, times

if TYPE_CHECKING:
    from rich.console import Console, ConsoleOptions, RenderableType, RenderResult

NOTHING = "–"
WARMUP_MARK = "*"
WORD = 12
"""Length of the longest unbroken word on a narrow terminal."""

WIDTH = 100
"""Number of columns of a table that is written to a file."""


Columns = list[tuple[str, str, list[str]]]
"""Head, alignment (`left` or `right`) and one text per row of columns."""


def columns(rows: Sequence[Row], metric: str = ACCURACY, caption: str = "") -> tuple[Columns, list[str]]:
    """Return the non-empty columns, and the notes below them (see `render`).

    Cells that could not run here are left out if other cells ran: a note counts them.
    """
    skips = Counter(render_phrase("run_counts", row.counts) for row in rows if row.counts.none_ran)
    all_skipped = all(row.counts.none_ran for row in rows)
    rows = [row for row in rows if all_skipped or not row.counts.none_ran]
    axes = {name: [row.axes.get(name) for row in rows] for name in dict.fromkeys(n for row in rows for n in row.axes)}
    shown_axes = [name for name, values in axes.items() if any(value != values[0] for value in values)]
    notes = [
        ", ".join(
            f"{short_name(name)} {format_value(values[0])}" for name, values in axes.items() if name not in shown_axes
        ),
        caption,
    ]
    findings = finding_facts(rows)
    statuses = ["skipped" if row.counts.none_ran else render_phrase("run_counts", row.counts) for row in rows]
    notes += [f"{count} cell{'s' if count > 1 else ''} {status}" for status, count in skips.items()]
    all_columns: Columns = [
        *(
            (short_name(name), "left", [format_value(row.axes[name]) if name in row.axes else NOTHING for row in rows])
            for name in shown_axes
        ),
        (
            "status",
            "left",
            [f"{status}, A/A" if row.is_aa_test else status for row, status in zip(rows, statuses, strict=True)],
        ),
        ("s/epoch", "right", [_steady(row) for row in rows]),
        (metric, "right", [_spread(row.metric, 3) for row in rows]),
        ("speed-up", "right", [_speedup(row) for row in rows]),
        (
            "bottleneck",
            "left",
            [
                f"{', '.join(row.bottleneck.causes)} {row.bottleneck.share:.2f}" if row.bottleneck else NOTHING
                for row in rows
            ],
        ),
        ("ms/step", "left", [_step_profile(row) for row in rows]),
        ("price/epoch", "right", [_price(row.epoch_price) for row in rows]),
        ("price/run", "right", [_price(row.total_price) for row in rows]),
        ("caveats", "left", [_marks(row, findings) for row in rows]),
    ]
    # Notes are separated by empty lines.
    note_texts = render_phrase("comparison_notes", rows, of="tables.html.j2").strip().split("\n\n")
    notes += [" ".join(note.split()) for note in note_texts]
    return [column for column in all_columns if any(cell not in (NOTHING, "") for cell in column[2])], notes


def render(rows: Sequence[Row], caption: str = "", metric: str = ACCURACY) -> RenderableType:
    """Render one row per cell, with its results and caveats.

    The columns are axes, status, steady epoch, metric, speed-up, bottleneck, price and caveats. Axes with one value in
    the whole grid, and empty columns, are left out; the former are named in the caption. With several runs, minimum and
    maximum follow the mean in parentheses, and a speed-up is followed by its 95% interval. A * marks a time that had to
    be taken from a warm-up epoch. A letter in the last column refers to a finding, which a line below the table
    describes with its remedy.
    """
    from rich import box
    from rich.table import Table
    from rich.text import Text

    shown_columns, notes = columns(rows, metric, caption)
    runs = sum(row.runs for row in rows)
    findings = [render_phrase("finding", fact, runs) for fact in finding_facts(rows) if fact.mark]

    def table(wide: bool, whole: bool = True) -> Table:
        """Return the table.

        If narrow, intervals have their own lines and long texts wrap.

        Args:
            wide: whether each cell is on one line.
            whole: whether to keep words whole, except in the status.
        """
        rich_table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=(0, 1, 0, 0))
        column_texts: list[list[str]] = []
        for head, justify, cells in shown_columns:
            right = justify == "right"
            # If several columns may wrap, rich also breaks the words of narrow ones.
            no_wrap = right or (whole and head != "status" and all(map(_is_short, cells)))
            rich_table.add_column(
                Text(head if wide or not whole else re.sub("([_/])", r"\1\n", head)),
                justify="right" if right else "left",
                no_wrap=no_wrap,
                overflow="fold",
            )
            column_texts.append(list(map(_stacked, cells)) if no_wrap and not wide else cells)
        for texts in zip(*column_texts, strict=True):
            rich_table.add_row(*map(Text, texts))
        return rich_table

    class Page:
        def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
            any_width = options.update(width=10_000)
            if console.measure(table(wide=True), options=any_width).maximum <= options.max_width:
                yield table(wide=True)
            else:
                min_width = console.measure(table(wide=False), options=any_width).minimum
                yield table(wide=False, whole=min_width <= options.max_width)
            # The notes are no caption, which would be wrapped to the table's width.
            yield from (Text(note, style="dim") for note in notes if note)
            yield from (Text(line, style="yellow") for line in findings)

    return Page()


def text(rows: Sequence[Row], caption: str = "", metric: str = ACCURACY, width: int = WIDTH) -> str:
    """Return the same table as plain text, without colours."""
    from rich.console import Console

    page = StringIO()
    Console(file=page, width=width, color_system=None, force_jupyter=False).print(render(rows, caption, metric))
    lines = printable(page.getvalue()).strip("\n").split("\n")
    return "\n".join(line.rstrip() for line in lines) + "\n"


def _stacked(cell: str) -> str:
    """Put a number's interval, or a bottleneck's share, on a second line."""
    return re.sub(r" \(| (?=[\d.]+$)", "\n", cell).removesuffix(")")


def _is_short(cell: str) -> bool:
    return all(len(word) <= WORD for word in cell.split())


def _spread(spread: MeanMinMax | None, decimals: int) -> str:
    if spread is None:
        return NOTHING
    if spread.runs == 1:
        return f"{spread.value:.{decimals}f}"
    return f"{spread.value:.{decimals}f} ({spread.low:.{decimals}f}–{spread.high:.{decimals}f})"


def _steady(row: Row) -> str:
    if row.steady is None:
        return NOTHING
    mark = WARMUP_MARK if row.from_warmup else ""
    if row.steady.runs == 1:
        return f"{digits(row.steady.value)}{mark}"
    return f"{digits(row.steady.value)}{mark} ({digits(row.steady.low)}–{digits(row.steady.high)})"


def _step_profile(row: Row) -> str:
    return ", ".join(f"{name} {digits(ms)}" for name, ms in row.step_profile.items()) or NOTHING


def _speedup(row: Row) -> str:
    if row.is_baseline:
        return "baseline"
    speedup = row.speedup
    return NOTHING if speedup is None else times(speedup.ratio, speedup.low, speedup.high)


def _marks(row: Row, findings: Sequence[FindingFact]) -> str:
    """Return the letters of a cell's findings that could reverse a verdict."""
    return " ".join(fact.mark for fact in findings if fact.mark and fact.code in row.caveats) or NOTHING


def _price(price: Any) -> str:
    return NOTHING if price is None else digits(price)
