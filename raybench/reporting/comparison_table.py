"""The comparison as tables for the terminal: all cells, or one row per device."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from io import StringIO
from typing import TYPE_CHECKING, Any

from raybench.analysis.comparison import ACCURACY, MeanMinMax, Row
from raybench.analysis.grid_results import PLACE, GridResults
from raybench.analysis.ranking import RankedDevice
from raybench.analysis.remarks import FindingFact, finding_facts
from raybench.core.settings import label
from raybench.core.text import format_value, printable
from raybench.reporting.sentences import digits, render_phrase, times

if TYPE_CHECKING:
    from rich.table import Table

NOTHING = "–"
WARMUP_MARK = "*"

CAUTIONS = "cautions"
"""Heading of the column with the letters of findings."""

GAP = 2
"""Number of spaces between columns."""

WIDE = 100
"""Width from which on columns are shown that explain the others: minimum and maximum, utilization, cautions."""

MOST_ROWS, BEST, LAST = 60, 40, 10
"""Maximum number of rows of a table of cells as text; of a longer one, the numbers of the best and the last ones."""

KEY, USEFUL, EXTRA, DETAIL = 3, 2, 1, 0
"""Importance of a column: if a table does not fit, the least important columns are left out first, never the key."""


@dataclass(frozen=True)
class TableColumn:
    """A column of a table.

    Attributes:
        head: its heading.
        cells: one text per row.
        importance: `KEY`, `USEFUL`, `EXTRA` or `DETAIL`.
        right: whether it is aligned to the right.
    """

    head: str
    cells: Sequence[str]
    importance: int = USEFUL
    right: bool = True

    @property
    def width(self) -> int:
        """Number of characters of the longest cell."""
        return max(map(len, (self.head, *self.cells)))


def cell_columns(rows: Sequence[Row], metric: str = ACCURACY) -> list[TableColumn]:
    """Return the non-empty columns of the table of all cells.

    An interval is in parentheses behind its ratio; minimum and maximum over runs have columns of their own. A * marks a
    time that had to be taken from a warm-up epoch. A letter in the last column refers to a finding (`notes`).
    """
    rows = shown_rows(rows)
    findings = finding_facts(rows)
    percent = metric.startswith(ACCURACY) and all(0 <= row.metric.value <= 1 for row in rows if row.metric)
    return _non_empty(
        [
            *_axes(rows),
            TableColumn("runs", [_runs(row) for row in rows], right=False),
            TableColumn("s/epoch", [_steady(row) for row in rows], KEY),
            *_extremes([row.steady for row in rows], digits),
            TableColumn("speed-up (95% CI)", [_speedup(row) for row in rows], KEY, right=False),
            TableColumn(metric.replace(ACCURACY, "accuracy"), [_metric(row, percent) for row in rows]),
            *_extremes([row.metric for row in rows], lambda value: _quality(value, percent)),
            *_bottleneck(rows),
            TableColumn("price/run", [_price(row.total_price) for row in rows], EXTRA),
            TableColumn("price/epoch", [_price(row.epoch_price) for row in rows], DETAIL),
            TableColumn("J/epoch", [_energy(row) for row in rows], EXTRA),
            TableColumn("less energy (95% CI)", [_energy_ratio(row) for row in rows], DETAIL, right=False),
            TableColumn("host J/epoch", [_host_energy(row) for row in rows], DETAIL),
            TableColumn("J/example", [_example_energy(row) for row in rows], DETAIL),
            TableColumn("J to target (95% CI)", [_target_energy(row) for row in rows], DETAIL, right=False),
            TableColumn("energy price/epoch", [_price(row.energy and row.energy.price) for row in rows], EXTRA),
            TableColumn("gCO2/epoch", [_price(row.energy and row.energy.gco2) for row in rows], EXTRA),
            TableColumn(CAUTIONS, [_marks(row, findings) for row in rows], DETAIL, right=False),
        ]
    )


def ranking_columns(results: GridResults, ranking: Sequence[RankedDevice]) -> list[TableColumn]:
    """Return the non-empty columns of the table of devices, each at its best settings."""
    rows = [results.rows[each.number] for each in ranking]
    target = results.target
    percent = results.metric == ACCURACY
    goal = render_phrase("goal", target, True) if target else ""
    axes = [axis for axis in results.axes if axis not in PLACE]
    head = f"to {goal}" if len(goal) <= len("100.0%") else "to target, s"
    unit = "" if head.endswith("s") else " s"
    return _non_empty(
        [
            TableColumn("rank", [str(place) for place in range(1, len(rows) + 1)], EXTRA),
            TableColumn("device", [each.device for each in ranking], KEY, right=False),
            *(_axis(axis, rows) for axis in axes),
            TableColumn("runs", [_runs(row) for row in rows], right=False),
            TableColumn("s/epoch", [_steady(row) for row in rows], KEY),
            *(
                [TableColumn(head, [_seconds(each, unit) for each in ranking], KEY), _cost(ranking)]
                if target
                else [_cost(ranking)]
            ),
            TableColumn("energy, J", [NOTHING if each.energy is None else digits(each.energy) for each in ranking]),
            TableColumn(
                "speed-up (95% CI)",
                [
                    "baseline"
                    if each.is_baseline
                    else NOTHING
                    if each.speedup is None
                    else times(each.speedup.ratio, each.speedup.low, each.speedup.high)
                    for each in ranking
                ],
                KEY,
                right=False,
            ),
            TableColumn(results.metric_label.replace(ACCURACY, "accuracy"), [_metric(row, percent) for row in rows]),
            *_bottleneck(rows),
        ]
    )


def shown_rows(rows: Sequence[Row]) -> list[Row]:
    """Return the rows without cells that could not run here, if others ran."""
    ran = [row for row in rows if not row.counts.none_ran]
    return ran or list(rows)


def skip_notes(rows: Sequence[Row]) -> list[str]:
    """Return one line for each reason why cells could not run."""
    skips = Counter(row.counts.skip for row in rows if row.counts.none_ran)
    return [f"{count} cell{'s' if count > 1 else ''} skipped: {reason}" for reason, count in skips.items()]


def notes(rows: Sequence[Row], caption: str = "", heads: Collection[str] | None = None) -> list[str]:
    """Return the legend of the table of all cells: constant axes, columns, marks and findings.

    Args:
        rows: the cells.
        caption: the explanation of the main columns.
        heads: headings of the shown columns; by default all.
    """
    rows = shown_rows(rows)
    constant = [
        f"{label(axis)} {format_value(values[0])}"
        for axis, values in _axis_values(rows).items()
        if _is_constant(values)
    ]
    # Notes in the template are separated by empty lines.
    texts = render_phrase("comparison_notes", rows, heads, of="tables.html.j2").strip().split("\n\n")
    runs = sum(row.runs for row in rows)
    findings = [render_phrase("finding", fact, runs) for fact in finding_facts(rows) if fact.mark]
    lines = [f"All cells: {', '.join(constant)}" if constant else "", caption, *texts, *findings]
    return [" ".join(line.split()) for line in lines if line.strip()]


def excerpt(columns: Sequence[TableColumn], rows: Sequence[Row], best_first: Sequence[int]) -> list[TableColumn]:
    """Return the columns of a table of cells with the best and the last rows of a long one, and "…" between them.

    Args:
        columns: `cell_columns` of the rows.
        rows: the cells.
        best_first: their indices.
    """
    shown = {id(row): place for place, row in enumerate(shown_rows(rows))}
    if len(shown) <= MOST_ROWS:
        return list(columns)
    places = [shown[id(rows[number])] for number in best_first if id(rows[number]) in shown]
    chosen = [*places[:BEST], None, *places[-LAST:]]
    return [
        replace(column, cells=["…" if place is None else column.cells[place] for place in chosen]) for column in columns
    ]


def fitting(columns: Sequence[TableColumn], width: int) -> list[TableColumn]:
    """Return the columns that fit into a width, without the least important ones."""
    shown = [column for column in columns if column.importance > DETAIL or width >= WIDE]
    for importance in (DETAIL, EXTRA, USEFUL):
        for column in [column for column in shown if column.importance == importance][::-1]:
            if sum(each.width for each in shown) + GAP * (len(shown) - 1) > width:
                shown.remove(column)
    return shown


def render(columns: Sequence[TableColumn], width: int) -> Table:
    """Render the columns that fit into a width.

    Text wraps between words, and a number's interval to a second line, if the key columns alone do not fit.
    """
    from rich import box
    from rich.table import Table
    from rich.text import Text

    table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=(0, GAP - 1, 0, 0))
    shown = fitting(columns, width)
    for column in shown:
        table.add_column(Text(column.head), justify="right" if column.right else "left", overflow="fold")
    for texts in zip(*(column.cells for column in shown), strict=True):
        table.add_row(*map(Text, texts))
    return table


def text(
    rows: Sequence[Row],
    caption: str = "",
    metric: str = ACCURACY,
    width: int = 2 * WIDE,
    best_first: Sequence[int] | None = None,
) -> str:
    """Return the table of cells with its notes as plain text, without colours.

    Args:
        rows: the cells.
        caption: the explanation of the main columns.
        metric: the metric's display name.
        width: of the text.
        best_first: the indices of the cells, for an excerpt of a long table; by default all cells are shown.
    """
    from rich.console import Console

    page = StringIO()
    console = Console(file=page, width=width, color_system=None, force_jupyter=False)
    columns = cell_columns(rows, metric)
    if columns:
        console.print(render(columns if best_first is None else excerpt(columns, rows, best_first), width))
    heads = [column.head for column in fitting(columns, width)]
    for note in (*skip_notes(rows), *notes(rows, caption, heads)):
        console.print(note, markup=False)
    lines = printable(page.getvalue()).strip("\n").split("\n")
    return "\n".join(line.rstrip() for line in lines) + "\n"


def _non_empty(columns: Sequence[TableColumn]) -> list[TableColumn]:
    return [column for column in columns if any(cell not in (NOTHING, "") for cell in column.cells)]


def _axis_values(rows: Sequence[Row]) -> dict[str, list[Any]]:
    names = dict.fromkeys(name for row in rows for name in row.axes)
    return {name: [row.axes.get(name) for row in rows] for name in names}


def _is_constant(values: Sequence[Any]) -> bool:
    return all(value == values[0] for value in values)


def _axes(rows: Sequence[Row]) -> list[TableColumn]:
    """Return a column for each axis with several values; if there is none, the first axis."""
    values = _axis_values(rows)
    varied = [axis for axis in values if not _is_constant(values[axis])]
    return [_axis(axis, rows) for axis in varied or list(values)[:1]]


def _axis(axis: str, rows: Sequence[Row]) -> TableColumn:
    cells = [format_value(row.axes[axis]) if axis in row.axes else NOTHING for row in rows]
    right = all(isinstance(row.axes.get(axis, 0), int) for row in rows)
    return TableColumn(label(axis), cells, KEY, right)


def _extremes(values: Sequence[MeanMinMax | None], show: Any) -> list[TableColumn]:
    """Return columns of the minimum and the maximum over runs."""
    ends = [(show(each.low), show(each.high)) if each and each.runs > 1 else (NOTHING, NOTHING) for each in values]
    return [TableColumn(head, [each[place] for each in ends], DETAIL) for place, head in enumerate(("min", "max"))]


def _bottleneck(rows: Sequence[Row]) -> list[TableColumn]:
    causes = [", ".join(row.bottleneck.causes) if row.bottleneck else NOTHING for row in rows]
    shares = [f"{100 * row.bottleneck.share:.0f}%" if row.bottleneck else NOTHING for row in rows]
    return [TableColumn("limited by", causes, EXTRA, right=False), TableColumn("utilization", shares, DETAIL)]


def _cost(ranking: Sequence[RankedDevice]) -> TableColumn:
    return TableColumn("cost", [_price(each.price) for each in ranking])


def _energy(row: Row) -> str:
    return NOTHING if row.energy is None else digits(row.energy.epoch)


def _energy_ratio(row: Row) -> str:
    ratio = row.energy_ratio
    return NOTHING if ratio is None else times(ratio.ratio, ratio.low, ratio.high)


def _host_energy(row: Row) -> str:
    return NOTHING if row.energy is None or row.energy.host_epoch is None else digits(row.energy.host_epoch)


def _example_energy(row: Row) -> str:
    return NOTHING if row.energy is None or row.energy.example is None else digits(row.energy.example)


def _target_energy(row: Row) -> str:
    target = row.energy.target if row.energy else None
    if target is None or target.seconds is None:
        return NOTHING
    interval = "" if target.low is None or target.high is None else f" ({digits(target.low)}–{digits(target.high)})"
    return f"{digits(target.seconds)}{interval}"


def _seconds(each: RankedDevice, unit: str) -> str:
    seconds = each.target.seconds if each.target else None
    return NOTHING if seconds is None else f"{digits(seconds)}{unit}"


def _runs(row: Row) -> str:
    """Return the number of completed runs, and how the others ended: "2/3 oom"."""
    counts = row.counts
    if counts.none_ran:
        return "skipped"
    troubles = render_phrase("run_troubles", counts).replace(", 1 ", ", ")
    marks = [f"{counts.completed}/{counts.planned}", troubles.removeprefix("1 "), "A/A" if row.is_aa_test else ""]
    return " ".join(mark for mark in marks if mark)


def _quality(value: float, percent: bool) -> str:
    return f"{100 * value:.1f}%" if percent else f"{value:.3f}"


def _metric(row: Row, percent: bool) -> str:
    return NOTHING if row.metric is None else _quality(row.metric.value, percent)


def _steady(row: Row) -> str:
    return NOTHING if row.steady is None else digits(row.steady.value) + (WARMUP_MARK if row.from_warmup else "")


def _speedup(row: Row) -> str:
    if row.is_baseline:
        return "baseline"
    speedup = row.speedup
    return NOTHING if speedup is None else times(speedup.ratio, speedup.low, speedup.high)


def _marks(row: Row, findings: Sequence[FindingFact]) -> str:
    """Return the letters of a cell's findings that could reverse a verdict."""
    return " ".join(fact.mark for fact in findings if fact.mark and fact.code in row.cautions) or NOTHING


def _price(price: Any) -> str:
    return NOTHING if price is None else digits(price)
