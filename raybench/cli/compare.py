"""`raybench compare`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from raybench.cli import options as opt
from raybench.cli.report import OutputFile, write_file

if TYPE_CHECKING:
    from raybench.analysis.before_after import BeforeAfter, CellChange, ChangedValue, Reason

EPILOG = """\b
Examples:
  raybench compare before after
  raybench compare before after --grid digits --json -
  raybench compare torch-2.12.zip torch-2.13.zip --max-slowdown 3%

\b
Exit status: 4 if a cell is slower by more than the limit, otherwise 0.
"""

SLOWER_STATUS = 4
"""Exit status if a cell has become slower."""

SHOWN_VALUES = 3
"""Most values of one side of a difference that are printed."""


class Percentage(click.ParamType):  # type: ignore[type-arg]
    """A percentage: `5%`, `5` and `0.5%` are 0.05, 0.05 and 0.005."""

    name = "percentage"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """Convert a text to a fraction."""
        try:
            number = float(str(value).removesuffix("%"))
        except ValueError:
            number = -1.0
        if not 0 <= number < 1000:
            self.fail(f"{value!r} is not a percentage; write, for example, 5%", param, ctx)
        return number / 100


@click.command("compare", epilog=EPILOG)
@click.argument("base")
@click.argument("new")
@opt.results
@click.option("--grid", metavar="NAME", help="The grid to compare, if a source has several.")
@click.option(
    "--max-slowdown",
    type=Percentage(),
    default="5%",
    show_default=True,
    metavar="PERCENT",
    help="The accepted increase of a cell's time.",
)
@click.option("--json", "data", type=OutputFile, metavar="FILE", help="Write it as JSON; - writes to the terminal.")
def command(base: str, new: str, results: Path, grid: str | None, max_slowdown: float, data: Path | None) -> int:
    """Compare the times of one grid in BASE with those in NEW, measured after a change.

    BASE and NEW are results folders, grid folders, journals, bundles of `raybench export`, MLflow stores, or names of
    grids in the results folder. The change may be another version of PyTorch, of a driver or of your code. Cells are
    matched by what the grid file asks for.

    A cell is slower if the whole 95% interval of its ratio of times is above the limit, and the ratio is above the
    change of the machine's own speed between the two sessions, which canaries measure. As the sessions are not
    interleaved, a smaller difference is inconclusive.
    """
    from raybench.analysis.before_after import before_after
    from raybench.reporting import build

    comparison = before_after(build.session_of(base, results, grid), build.session_of(new, results, grid), max_slowdown)
    if data:
        write_file(data, build.text(asdict(comparison)))
    if data != Path("-"):
        _show(comparison)
    return SLOWER_STATUS if comparison.slower else 0


def _show(comparison: BeforeAfter) -> None:
    from raybench.cli.cell_table import plural
    from raybench.cli.console import page, print_text
    from raybench.cli.tables import fitted_table
    from raybench.reporting.comparison_table import DETAIL, KEY, NOTHING, TableColumn
    from raybench.reporting.sentences import digits, times

    console, cells = page(), comparison.cells
    print_text(console, _headline(comparison))
    if cells:
        columns = [
            TableColumn("cell", [cell.label for cell in cells], KEY, right=False),
            TableColumn("base, s/epoch", [digits(cell.base_s) if cell.base_s else NOTHING for cell in cells], DETAIL),
            TableColumn("new, s/epoch", [digits(cell.new_s) if cell.new_s else NOTHING for cell in cells], DETAIL),
            TableColumn(
                "time, new ÷ base (95% CI)",
                [times(cell.ratio.ratio, cell.ratio.low, cell.ratio.high) if cell.ratio else NOTHING for cell in cells],
                KEY,
                right=False,
            ),
            TableColumn("verdict", [str(cell.verdict) for cell in cells], KEY, right=False),
        ]
        console.print()
        console.print(fitted_table(columns, console.width))
    for reason in dict.fromkeys(cell.reason for cell in cells if cell.reason):
        count = sum(cell.reason is reason for cell in cells)
        print_text(console, f"Inconclusive in {plural(count, 'cell')}: {_reason(reason, cells)}.")
    for name, labels in (("base", comparison.only_in_base), ("new", comparison.only_in_new)):
        if labels:
            print_text(console, f"Only in {name}: {', '.join(labels)}.")
    if comparison.differences:
        print_text(console, "Differences between the two:")
        for difference in comparison.differences:
            print_text(console, f"  {difference.name}: {_change(difference)}")


def _headline(comparison: BeforeAfter) -> str:
    """The answer in one sentence."""
    from raybench.analysis.before_after import ChangeVerdict
    from raybench.cli.cell_table import plural

    limit = f"{100 * comparison.max_slowdown:g}%"
    if not comparison.cells:
        return "The two have no cell in common."
    if comparison.slower:
        return f"{len(comparison.slower)} of {plural(len(comparison.cells), 'cell')} slower by more than {limit}."
    within = sum(cell.verdict is ChangeVerdict.WITHIN for cell in comparison.cells)
    if within == len(comparison.cells):
        return f"No cell is slower by more than {limit}."
    return f"No cell is shown to be slower by more than {limit}; {len(comparison.cells) - within} inconclusive."


def _reason(reason: Reason, cells: Sequence[CellChange]) -> str:
    """The sentence on a reason for inconclusive cells, with its remedy."""
    from raybench.analysis.before_after import Reason

    largest = max(cell.machine_ratio or 1.0 for cell in cells)
    return {
        Reason.NO_TIMES: "no completed run on one side",
        Reason.ONE_RUN: "one run on a side gives no interval; set `repeats: 3` or more",
        Reason.WIDE: "the interval includes the limit; more `repeats` make it narrower",
        Reason.MACHINE: f"the machine may have changed as much (canaries allow for {largest:.3g}x)",
        Reason.NO_CANARY: "no canary shows that the machine was equally fast; run both without `--no-checks`",
    }[reason]


def _change(difference: ChangedValue) -> str:
    def text(values: tuple[str, ...]) -> str:
        more = f" and {len(values) - SHOWN_VALUES} more" if len(values) > SHOWN_VALUES else ""
        return (", ".join(values[:SHOWN_VALUES]) or "–") + more

    return f"{text(difference.base)} → {text(difference.new)}"
