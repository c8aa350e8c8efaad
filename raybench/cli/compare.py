"""`raybench compare`."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from raybench.cli import options as opt
from raybench.cli.report import OutputFile, write_file
from raybench.errors import UsageError

if TYPE_CHECKING:
    from raybench.analysis.compare import Change, ChangedValue, Comparison, Limits, Source

EPILOG = """\b
Examples:
  raybench compare before after
  raybench compare before after --grid digits --json -
  raybench compare monday.zip friday.zip --max-slowdown 3%
  raybench compare --interleave ../base/grid.yaml grid.yaml
  raybench compare --interleave torch-2.12.yaml torch-2.13.yaml

\b
Exit status: 4 if NEW must not pass: a configuration is slower by more than
the limit, loses more quality than the limit, or has no completed run in NEW;
otherwise 0 or, with --interleave, the status of `raybench grid`.
"""

FAILED_STATUS = 4
"""Exit status if the new version must not pass."""

STANDARD_OUTPUT = Path("-")
"""The file of `--json` that is standard output."""

INTERLEAVE_OPTIONS = frozenset(
    {"--set", "--where", "--repeats", "--rerun", "--retry", "--tracking-uri", "--no-tracking", "--no-checks"}
    | {"--address"}
)
"""Options that apply only with `--interleave`."""

SHOWN_VALUES = 3
"""Most values of one side of a difference that are printed."""

SHOWN_DIFFERENCES = 20
"""Most differences that are printed."""


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
    help="The accepted increase of a configuration's time.",
)
@click.option(
    "--max-quality-loss",
    type=click.FloatRange(min=0),
    metavar="VALUE",
    help="The accepted loss of the metric, in its unit; by default 0.01 for an accuracy (one point).",
)
@click.option("--strict", is_flag=True, help="Slower only if the whole 95% interval is above the limit.")
@click.option("--json", "data", type=OutputFile, metavar="FILE", help="Write it as JSON; - writes to the terminal.")
@click.option(
    "--interleave",
    is_flag=True,
    help="BASE and NEW are grid files: run both in one grid, NAME~compare, in which their runs alternate.",
)
@opt.changes
@opt.where
@opt.repeats
@opt.rerun
@opt.retry
@opt.tracking_uri
@opt.no_tracking
@click.option("--no-checks", is_flag=True, help="Skip the checks of weight decay and machine speed.")
@opt.address
def command(
    base: str,
    new: str,
    results: Path,
    grid: str | None,
    max_slowdown: float,
    max_quality_loss: float | None,
    strict: bool,
    data: Path | None,
    interleave: bool,
    **options: Any,
) -> int:
    """Compare one grid in BASE with the same grid in NEW, measured after a change.

    BASE and NEW are results folders, grid folders, zip files of `raybench export`, MLflow stores, or names of grids in
    the results folder. The change may be a different version of PyTorch, of a driver or of your code. Configurations
    are matched by their values on the axes.

    A configuration is slower if its mean time has increased by more than the limit and, by a one-sided test at 5%, has
    increased at all. A true increase of 3% raises an alarm at a limit of 5% in about 15% of cases.

    With --interleave, BASE and NEW are files of the same grid in two folders of code, or with two environments. The
    runs of both alternate, so that a change of the machine affects both alike. Without it, the machine may have changed
    between the two sessions. The options after --interleave apply only then.
    """
    from raybench.analysis.compare import Limits, as_versions, compare

    _check_options(interleave)
    limits = Limits(max_slowdown, max_quality_loss, strict)
    if interleave:
        return _run_both(base, new, results, limits, data, **options)
    comparison = compare(*as_versions(*(_source(each, results, grid) for each in (base, new))), limits)
    _write(comparison, data)
    if data != STANDARD_OUTPUT:
        _show(comparison)
    return FAILED_STATUS if comparison.fails else 0


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


def _source(source: str, results: Path, grid: str | None) -> Source:
    """Return the attempts and the request of one grid in a source.

    Raises:
        UsageError: the source cannot be read, or has several grids.
    """
    from raybench.reporting.build import one_grid
    from raybench.results.grid_request import request_of_runs

    found = one_grid([source], results, grid=grid)
    return found.attempts, found.request or request_of_runs(str(found.name), found.attempts)


def _run_both(
    base: str,
    new: str,
    results: Path,
    limits: Limits,
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
    from raybench.analysis.compare import compare
    from raybench.cli.console import Terminal, page
    from raybench.cli.end_view import can_run, show_ends, show_skipped
    from raybench.cli.live import Display, progress_display
    from raybench.planning.request import request_of
    from raybench.results.machines import as_requested
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
    attempts, request = as_requested(outcome.history, request_of(outcome.plan))
    comparison = compare(attempts, request or request_of(outcome.plan), limits)
    _write(comparison, data)
    if not can_run(outcome):
        show_skipped(outcome, console)
        return outcome.exit_status
    console.print()
    if not quiet:
        _show(comparison)
    show_ends(outcome, console)
    return FAILED_STATUS if comparison.fails and not outcome.interrupted else outcome.exit_status


def _grid_file(source: str) -> Path:
    """The path of a grid file.

    Raises:
        UsageError: it is a source of results.
    """
    from raybench.datasets.paths import user_path

    path = user_path(source)
    if path.is_dir() or "://" in source or path.suffix in (".zip", ".jsonl", ".db"):
        raise UsageError(
            f"{source}: --interleave runs both versions and needs two grid files, such as ../base/grid.yaml and "
            "grid.yaml; to compare results that exist, leave --interleave out"
        )
    return path


def _write(comparison: Comparison, data: Path | None) -> None:
    if data:
        import json
        from dataclasses import asdict

        write_file(data, json.dumps({"fails": comparison.fails} | asdict(comparison), indent=1, default=str) + "\n")


def _show(comparison: Comparison) -> None:
    from raybench.cli.console import page, print_text
    from raybench.reporting.layout import LABEL, NOTHING, Column, table_lines
    from raybench.reporting.words import caution_text, difference_text, number, rate_number, ratio_text

    console, changes = page(), comparison.changes
    for sentence in _sentences(comparison):
        print_text(console, sentence)
    if changes:
        unit = comparison.unit
        times = f"{unit.name}/s" if unit.has_rate else f"s/{unit.label}"

        def speed(seconds: float | None) -> str:
            if not seconds:
                return NOTHING
            return rate_number(unit.amount / seconds) if unit.has_rate else number(seconds)

        columns = [
            Column("configuration", [each.label for each in changes], right=False, kind=LABEL),
            Column(f"base, {times}", [speed(each.base_s) for each in changes], drop=2),
            Column(f"new, {times}", [speed(each.new_s) for each in changes], drop=1),
            Column("speed (95% CI)", [ratio_text(each.speed) for each in changes], right=False),
            Column(comparison.metric, [difference_text(each.quality, comparison.metric) for each in changes]),
            Column("verdict", [str(each.verdict) for each in changes], right=False),
        ]
        console.print()
        shown = [column for column in columns if not column.is_empty]
        for line, style in table_lines(shown, console.width):
            console.print(line, style=style, markup=False, highlight=False, soft_wrap=True)
        console.print()
    for caution in comparison.cautions:
        print_text(console, f"Caution: {caution_text(caution)}")
    if comparison.only_in_new:
        print_text(console, f"Only in new: {', '.join(comparison.only_in_new)}.")
    if comparison.differences:
        print_text(console, "Differences between the two:")
        for difference in comparison.differences[:SHOWN_DIFFERENCES]:
            print_text(console, f"  {difference.name}: {_change(difference)}")


def _sentences(comparison: Comparison) -> Iterator[str]:
    """Yield the answer: what must not pass first, then what is not decided."""
    from raybench.analysis.compare import Verdict
    from raybench.reporting.words import plural

    changes = comparison.changes
    limit = f"{100 * comparison.limits.slowdown:g}%"
    words = {
        Verdict.MISSING: "no completed run in new",
        Verdict.SLOWER: f"slower by more than {limit}",
        Verdict.WORSE: "lower quality than the limit allows",
    }
    if not changes:
        yield "The two have no configuration in common: new does not pass."
        return
    for verdict, text in words.items():
        found = [each for each in changes if each.verdict is verdict]
        if found:
            yield f"{len(found)} of {plural(len(changes), 'configuration')}: {text} ({_names(found)})."
    undecided = [each for each in changes if each.verdict is Verdict.INCONCLUSIVE]
    if not comparison.fails:
        within = "No configuration is" if not undecided else "No configuration is shown to be"
        yield f"{within} slower by more than {limit}" + (f"; {len(undecided)} inconclusive." if undecided else ".")
    for each in undecided:
        yield f"{each.label}: {each.reason}{_remedy(each)}."
    for each in changes:
        if each.verdict is Verdict.MISSING:
            yield f"{each.label}: {each.reason}."
    unsure = [each for each in changes if each.quality_kept is False and each.verdict is not Verdict.WORSE]
    if unsure:
        yield f"That {comparison.metric} is kept is not shown for {_names(unsure)}."
    if comparison.same_runs:
        yield "These are the same runs: base and new name one measurement."


def _remedy(change: Change) -> str:
    """How many repeats would decide an inconclusive change."""
    if change.repeats is None:
        return ""
    minutes = f" ({(change.more_s or 0.0) / 60:.2g} min more)" if change.more_s else ""
    return f"; about {change.repeats} repeats would decide it{minutes}"


def _names(changes: list[Change]) -> str:
    names = [each.label for each in changes[:SHOWN_VALUES]]
    return "; ".join(names) + (f"; and {len(changes) - SHOWN_VALUES} more" if len(changes) > SHOWN_VALUES else "")


def _change(difference: ChangedValue) -> str:
    def text(values: tuple[str, ...]) -> str:
        more = f" and {len(values) - SHOWN_VALUES} more" if len(values) > SHOWN_VALUES else ""
        return (", ".join(values[:SHOWN_VALUES]) or "–") + more

    return f"{text(difference.base)} → {text(difference.new)}"
