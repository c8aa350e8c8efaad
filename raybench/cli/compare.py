"""`raybench compare`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import click
from click.core import ParameterSource

from raybench.cli import options as opt
from raybench.cli.terminal import write_file
from raybench.core.options import GridOptions, ReportOptions
from raybench.errors import UsageError

if TYPE_CHECKING:
    from rich.console import Console

    from raybench.analysis.versions import Comparison, Limits

    Files = Mapping[Path | None, Callable[[Comparison], str]]

EPILOG = """\b
Examples:
  raybench compare before after
  raybench compare before after --grid digits --json -
  raybench compare monday.zip friday.zip --max-slowdown 3%
  raybench compare --interleave ../base/grid.yaml grid.yaml
  raybench compare --interleave torch-2.12.yaml torch-2.13.yaml
  raybench compare --interleave base.yaml new.yaml --quality val/loss --json -

\b
Exit status:
  0    keep: no configuration is slower, or of lower quality, than the limits
  4    discard: one is, or has no result in NEW
  5    undecided: more repeats are needed, or nothing comparable was measured
  2    wrong use
with --interleave also 1 and 3 of `raybench grid`, and 130.
"""

STATUSES = {"keep": 0, "discard": 4, "undecided": 5}
"""Exit status by decision."""


@click.command("compare", epilog=EPILOG)
@click.argument("base")
@click.argument("new")
@opt.results
@opt.option(ReportOptions, "grid")
@opt.option(ReportOptions, "axis")
@click.option(
    "--max-slowdown",
    callback=opt.fraction,
    default="5%",
    show_default=True,
    metavar="PERCENT",
    help="The accepted increase of a configuration's time.",
)
@click.option(
    "--max-slowdown-total",
    callback=opt.fraction,
    metavar="PERCENT",
    help="The same of a whole run, with start-up and evaluation.  [default: that of --max-slowdown]",
)
@click.option(
    "--max-quality-loss",
    callback=opt.fraction,
    metavar="PERCENT",
    help="The accepted loss of the metric; of an accuracy, in points.  [default: 1%]",
)
@click.option(
    "--quality",
    "metrics",
    multiple=True,
    metavar="METRIC[=PERCENT]",
    help="Keep NEW only if this metric is shown to lose less than --max-quality-loss, or PERCENT. Repeatable.",
)
@click.option(
    "--anchor",
    metavar="FIRST",
    help="The version at the start of a chain of changes, as BASE: NEW is also compared with it.",
)
@opt.option(ReportOptions, "lower_is_better")
@opt.option(ReportOptions, "higher_is_better")
@click.option("--strict", is_flag=True, help="Slower only if the whole 95% interval is above the limit.")
@opt.JSON
@opt.output_file("--markdown", "markdown", "Write the comparison as a comment for a pull request.")
@click.option(
    "--interleave",
    is_flag=True,
    help="BASE and NEW are grid files: run both in one grid, NAME~compare, in which their runs alternate.",
)
@click.option(
    "--metrics-of-base",
    is_flag=True,
    help="Read the output of all versions of a command by the patterns of BASE, if those of the files differ.",
)
@opt.options(
    GridOptions,
    *("set", "where", "repeats", "until", "rerun", "retry", "keep_going", "tracking", "checks", "address"),
)
def command(
    base: str,
    new: str,
    results: Path,
    grid: str | None,
    axis: tuple[str, ...],
    max_slowdown: float,
    max_slowdown_total: float | None,
    max_quality_loss: float | None,
    metrics: Sequence[str],
    anchor: str | None,
    lower_is_better: tuple[str, ...],
    higher_is_better: tuple[str, ...],
    strict: bool,
    data: Path | None,
    markdown: Path | None,
    interleave: bool,
    metrics_of_base: bool,
    options: GridOptions,
) -> int:
    """Compare one grid in BASE with the same grid in NEW, measured after a change.

    BASE and NEW are results folders, grid folders, zip files of `raybench export`, MLflow stores, or names of grids in
    the results folder. The change may be a different version of PyTorch, of a driver or of your code. Configurations
    are matched by their values on the axes. If the grid has a target, times to it are compared.

    A configuration is slower if its mean time has increased by more than the limit and, by a one-sided test at 5%, has
    increased at all. With a limit of 5%, a true increase of 3% is called slower in up to 23% of cases. Also compared:
    whole runs, every metric of validation data, and the numbers of epochs and examples.

    With --interleave, BASE and NEW are files of the same grid in two folders of code, or with two environments. Their
    runs alternate, so that a change of the machine affects both alike. They are repeated 4 to 10 times (up to 20 if
    noisy) until there is a verdict, unless --repeats or --until says otherwise; the files' own `repeats` do not count.
    Without --interleave, the machine may have changed between the two measurements. The options after --interleave
    apply only with it.
    """
    from raybench.analysis.analyze import Grid
    from raybench.analysis.compare import as_versions, compare
    from raybench.analysis.versions import Limits
    from raybench.reporting.build import one_grid
    from raybench.reporting.comparison import as_json, as_markdown
    from raybench.results.grid_request import request_of_runs

    _check_options(interleave)
    limits = Limits(max_slowdown, max_slowdown_total, _kept(metrics), max_quality_loss, strict)
    directions = ReportOptions(lower_is_better=lower_is_better, higher_is_better=higher_is_better).directions
    files = {data: as_json, markdown: as_markdown}
    names = [base, new, *([anchor] if anchor and anchor != base else [])]
    if interleave:
        return _run_all(names, limits, files, metrics_of_base, replace(options, results=results), directions)
    versions = [one_grid([name], results, grid, axis) for name in names]
    sources = ((one.runs, one.request or request_of_runs(str(one.name), one.runs)) for one in versions)
    runs, request = as_versions(*sources)
    request = replace(request, higher_is_better={**request.higher_is_better, **directions})
    warnings = [text for version in versions for text in version.warnings]
    comparison = compare(Grid(runs, request), limits, is_complete=True, warnings=warnings)
    _show(comparison, files)
    return STATUSES[comparison.decision]


def _kept(metrics: Sequence[str]) -> dict[str, float | None]:
    """Return the metrics of `--quality`, each with its limit."""
    texts = [each.partition("=") for each in metrics]
    context = click.get_current_context()
    option = next(each for each in context.command.params if each.name == "metrics")
    return {name.strip(): opt.fraction(context, option, limit or None) for name, _, limit in texts}


def _check_options(interleave: bool) -> None:
    """Refuse `--grid` with `--interleave`, and without it the options that are listed after it."""
    context = click.get_current_context()
    names = {each.opts[0]: str(each.name) for each in context.command.params}
    for option in ["--grid"] if interleave else [*names][[*names].index("--interleave") + 1 :]:
        if context.get_parameter_source(names[option]) is ParameterSource.COMMANDLINE:
            kind = "with" if interleave else "without"
            raise UsageError(f"{option} has no effect {kind} --interleave; remove {option}")


def _run_all(
    sources: Sequence[str],
    limits: Limits,
    files: Files,
    has_metrics_of_base: bool,
    options: GridOptions,
    directions: Mapping[str, bool],
) -> int:
    """Run all versions in one grid, by the options after `--interleave`, and compare them; return the exit status."""
    from raybench.config.values import BEST, VERDICT
    from raybench.core.cell import ANCHOR, BASE, NEW, VERSION_AXIS
    from raybench.execution.base import make_executor
    from raybench.planning.grid_options import requested_grid
    from raybench.planning.versions import compared, with_more_looks
    from raybench.sources import TWO_SCRIPTS

    for source in sources:
        if not source.endswith((".yaml", ".yml")):
            raise UsageError(f"{source}: --interleave runs two grid files; two scripts: {TWO_SCRIPTS}")
    if options.until == BEST:
        raise UsageError(f"--until {BEST} is for one grid; to compare two versions use {VERDICT} or a percentage")
    for key, is_higher in (("lower_is_better", False), ("higher_is_better", True)):
        names = [name for name, value in directions.items() if value is is_higher]
        options = replace(options, set=(*options.set, *([f"{key}=[{', '.join(names)}]"] if names else ())))
    if options.repeats is None and not any(change.startswith("repeats") for change in options.set):
        options = replace(options, until=options.until or VERDICT)
    first, second, *further = (requested_grid(Path(source), options) for source in sources)
    specs = [first, *further, second]
    if options.until == VERDICT and options.repeats is None:
        specs = [with_more_looks(each) for each in specs]
    spec = compared(specs, (BASE, ANCHOR, NEW) if further else (BASE, NEW), has_metrics_of_base)
    executor = make_executor(options.address)  # measures the load of other programs during the slow imports
    from raybench.analysis.analyze import Grid
    from raybench.analysis.compare import compare
    from raybench.cli.console import Terminal, page, print_text
    from raybench.cli.end_view import show_end
    from raybench.cli.live import Display
    from raybench.planning.plan import request_of
    from raybench.reporting.words.status import status_sentences
    from raybench.results.grid_request import latest_request
    from raybench.results.machines import as_requested
    from raybench.run import run_grid

    quiet = Path("-") in files
    console = Terminal(stderr=True) if quiet else page()
    outcome = run_grid(spec, executor, Display(console if quiet else None), options, limits)
    if not outcome.can_run:
        show_end(outcome, console)
        return outcome.exit_status
    attempts, request = as_requested(outcome.history, latest_request(outcome.history))
    grid = Grid(attempts, request or request_of(outcome.plan))

    def show_so_far() -> None:
        print_text(console, *status_sentences(outcome.report.answer))
        if {cell.axes[VERSION_AXIS] for cell in grid.measured if cell.completed} >= {BASE, NEW}:
            print_text(console, "Stopped before a decision; so far:")
            _show(compare(grid, limits, warnings=outcome.history.warnings), {}, console)

    if outcome.interrupted:  # a version without a run yet is not discarded
        show_end(outcome, console, show_so_far)
        return outcome.exit_status
    comparison = compare(grid, limits, warnings=outcome.history.warnings)
    show_end(outcome, console, lambda: _show(comparison, files))
    status = STATUSES[comparison.decision]
    return status if comparison.fails else outcome.exit_status or status


def _show(comparison: Comparison, files: Files, console: Console | None = None) -> None:
    """Write the files and, if none of them is standard output, print the comparison."""
    from raybench.cli.console import page, print_columns, print_text
    from raybench.reporting.comparison import columns, details, sentences

    for path, text in files.items():
        if path:
            write_file(path, text(comparison))
    if Path("-") in files:
        return
    console = console or page()
    print_text(console, *sentences(comparison))
    console.print()
    if shown := columns(comparison):
        print_columns(console, shown)
        console.print()
    print_text(console, *details(comparison))
