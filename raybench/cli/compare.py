"""`raybench compare`."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from raybench.cli import options as opt
from raybench.cli.report import OutputFile, write_file
from raybench.core.cell import BASE, NEW, VERSION_AXIS
from raybench.errors import UsageError

if TYPE_CHECKING:
    from raybench.analysis.before_after import BeforeAfter, ChangedValue
    from raybench.planning.plan import Plan

EPILOG = """\b
Examples:
  raybench compare before after
  raybench compare before after --grid digits --json -
  raybench compare monday.zip friday.zip --max-slowdown 3%
  raybench compare --interleave ../base/grid.yaml grid.yaml
  raybench compare --interleave torch-2.12.yaml torch-2.13.yaml

\b
Exit status: 4 if a cell is slower by more than the limit; otherwise 0 or,
with --interleave, that of `raybench grid` (1 if a trial failed).
"""

SLOWER_STATUS = 4
"""Exit status if a cell has become slower."""

STANDARD_OUTPUT = Path("-")
"""The file of `--json` that is standard output."""

INTERLEAVE_OPTIONS = frozenset(
    {"--set", "--where", "--repeats", "--rerun", "--retry", "--tracking-uri", "--no-tracking", "--no-checks"}
    | {"--address"}
)
"""Options that apply only with `--interleave`."""

SHOWN_VALUES = 3
"""Most values of one side of a difference that are printed."""


REASONS = {
    "no_times": "no completed run on one side",
    "one_run": "one run on a side gives no interval; set `repeats: 3` or more",
    "wide": "the interval includes the limit; more `repeats` make it narrower",
}
"""Reasons for inconclusive cells (`raybench.analysis.before_after.Reason`), with the remedy."""


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
@click.option(
    "--interleave",
    is_flag=True,
    help="BASE and NEW are grid files: run both in one grid, NAME~compare, in which their trials alternate.",
)
@opt.changes
@opt.where
@opt.repeats
@opt.rerun
@opt.retry
@opt.tracking_uri
@opt.no_tracking
@click.option("--no-checks", is_flag=True, help="Skip the checks of weight decay and peak speed.")
@opt.address
def command(
    base: str,
    new: str,
    results: Path,
    grid: str | None,
    max_slowdown: float,
    data: Path | None,
    interleave: bool,
    **options: Any,
) -> int:
    """Compare the times of one grid in BASE with those in NEW, measured after a change.

    BASE and NEW are results folders, grid folders, journals, bundles of `raybench export`, MLflow stores, or names of
    grids in the results folder. The change may be another version of PyTorch, of a driver or of your code. Cells are
    matched by what the grid file asks for.

    A cell is slower if the whole 95% interval of its ratio of times is above the limit. The two were measured at
    different times, so a change of the machine in between counts as a change of the time.

    With --interleave, BASE and NEW are files of the same grid in two folders of code, or with two environments. The
    trials of both run now, alternating, so that a change of the machine affects both alike and the interval alone
    decides. The options after --interleave apply only then.
    """
    _check_options(interleave)
    if interleave:
        return _run_both(base, new, results, max_slowdown, data, **options)
    comparison = _read_both(base, new, results, grid, max_slowdown)
    _write(comparison, data)
    if data != STANDARD_OUTPUT:
        _show(comparison)
    return SLOWER_STATUS if comparison.slower else 0


def _check_options(interleave: bool) -> None:
    """Refuse options that only apply with `--interleave`, or only without it."""
    context = click.get_current_context()
    given = [
        each.opts[0]
        for each in context.command.params
        if each.name and context.get_parameter_source(each.name) is ParameterSource.COMMANDLINE
    ]
    if interleave and "--grid" in given:
        raise UsageError("--grid chooses from results, and --interleave runs grid files; leave one of them out")
    only_then = [name for name in given if name in INTERLEAVE_OPTIONS]
    if only_then and not interleave:
        raise UsageError(f"{only_then[0]} is for trials, and without --interleave none run; add --interleave")


def _read_both(base: str, new: str, results: Path, grid: str | None, max_slowdown: float) -> BeforeAfter:
    from raybench.analysis.before_after import before_after
    from raybench.reporting.build import session_of

    return before_after(session_of(base, results, grid), session_of(new, results, grid), max_slowdown)


def _run_both(
    base: str,
    new: str,
    results: Path,
    max_slowdown: float,
    data: Path | None,
    *,
    changes: tuple[str, ...],
    where: tuple[str, ...],
    repeats: int | None,
    rerun: bool,
    retry: tuple[str, ...],
    tracking_uri: str | None,
    no_tracking: bool,
    no_checks: bool,
    address: str | None,
) -> int:
    """Run both versions in one grid and compare them; return the exit status."""
    from raybench.execution.executors import make_executor
    from raybench.planning.grid_options import requested_grid
    from raybench.planning.versions import compared

    if no_tracking and tracking_uri:
        raise UsageError("--no-tracking and --tracking-uri exclude each other; use one of them")
    requested = [
        requested_grid(_grid_file(source), changes=changes, where=where, repeats=repeats) for source in (base, new)
    ]
    spec, cells = compared(requested[0][0], requested[1][0]), requested[1][1]
    executor = make_executor(address)  # measures the load of other programs during the slow imports
    from raybench.analysis.before_after import interleaved
    from raybench.cli.console import Terminal, page
    from raybench.cli.end_view import can_run, show_ends, show_skipped
    from raybench.cli.live import Display
    from raybench.cli.notebook import progress_display
    from raybench.run import DEFAULT_STORE, Options, run_grid

    options = Options(
        results,
        tracking=None if no_tracking else tracking_uri or DEFAULT_STORE,
        where=cells,
        retry=frozenset(retry),
        rerun=rerun,
        checks=not no_checks,
    )
    quiet = data == STANDARD_OUTPUT
    console = Terminal(stderr=True) if quiet else page()
    display = Display(console) if quiet else progress_display(ray=True, mlflow=not no_tracking)
    outcome = run_grid(spec, executor, display, options)
    comparison = interleaved(outcome.report.results, max_slowdown, _files(outcome.plan))
    _write(comparison, data)
    if not can_run(outcome):
        show_skipped(outcome, console)
    else:
        console.print()
        if not quiet:
            _show(comparison)
        show_ends(outcome, console)
    return SLOWER_STATUS if comparison.slower and not outcome.interrupted else outcome.exit_status


def _files(plan: Plan) -> tuple[dict[str, str], dict[str, str]]:
    """The digests of the user's files in the base and in the new version, by name."""
    base, new = ({cell.axes[VERSION_AXIS]: cell.workload for cell in plan.cells}[name] for name in (BASE, NEW))
    return {**base.files, **base.elsewhere}, {**new.files, **new.elsewhere}


def _write(comparison: BeforeAfter, data: Path | None) -> None:
    if data:
        from raybench.reporting.build import text

        write_file(data, text(asdict(comparison)))


def _grid_file(source: str) -> Path:
    """The path of a grid file.

    Raises:
        UsageError: it is a source of results.
    """
    from raybench.datasets.paths import user_path
    from raybench.results.bundle import is_bundle

    path = user_path(source)
    if path.is_dir() or is_bundle(path) or "://" in source or path.suffix in (".jsonl", ".db"):
        raise UsageError(
            f"{source}: --interleave runs both versions and needs two grid files, such as ../base/grid.yaml and "
            "grid.yaml; to compare results that exist, leave --interleave out"
        )
    return path


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
        print_text(console, f"Inconclusive in {plural(count, 'cell')}: {REASONS[reason]}.")
    if cells and not comparison.interleaved:
        print_text(
            console,
            "Caution: the two were measured at different times, and the machine may have changed in between; "
            "`raybench compare --interleave` excludes that.",
        )
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


def _change(difference: ChangedValue) -> str:
    def text(values: tuple[str, ...]) -> str:
        more = f" and {len(values) - SHOWN_VALUES} more" if len(values) > SHOWN_VALUES else ""
        return (", ".join(values[:SHOWN_VALUES]) or "–") + more

    return f"{text(difference.base)} → {text(difference.new)}"
