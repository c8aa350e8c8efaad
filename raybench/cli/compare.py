"""`raybench compare`."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from raybench.cli import options as opt
from raybench.cli.report import OutputFile, write_file
from raybench.errors import UsageError

if TYPE_CHECKING:
    from raybench.analysis.compare import Comparison, Limits, Source
    from raybench.reporting.layout import Column

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
  4    discard: one is, or has no completed run in NEW
  5    undecided: more repeats are needed
  2    wrong use; nothing was started
with --interleave also 1 and 3 of `raybench grid`, and 130.
"""

STATUSES = {"keep": 0, "discard": 4, "undecided": 5}
"""Exit status by decision."""

STANDARD_OUTPUT = Path("-")
"""The file of `--json` that is standard output."""

BUSY = ("busy_host", "steal")
"""Cautions that more repeats do not help against."""

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
    type=Percentage(),
    metavar="PERCENT",
    help="The accepted loss of the metric; of an accuracy, in points.  [default: 1%]",
)
@click.option(
    "--quality",
    "metric",
    default="",
    metavar="METRIC",
    help="Keep NEW only if this metric is shown to lose less than --max-quality-loss.",
)
@click.option("--strict", is_flag=True, help="Slower only if the whole 95% interval is above the limit.")
@click.option("--json", "data", type=OutputFile, metavar="FILE", help="Write it as JSON; - writes to the terminal.")
@click.option("--markdown", type=OutputFile, metavar="FILE", help="Write it as a comment for a pull request.")
@click.option(
    "--interleave",
    is_flag=True,
    help="BASE and NEW are grid files: run both in one grid, NAME~compare, in which their runs alternate.",
)
@opt.changes
@opt.where
@opt.repeats
@opt.until
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
    metric: str,
    strict: bool,
    data: Path | None,
    markdown: Path | None,
    interleave: bool,
    **options: Any,
) -> int:
    """Compare one grid in BASE with the same grid in NEW, measured after a change.

    BASE and NEW are results folders, grid folders, zip files of `raybench export`, MLflow stores, or names of grids in
    the results folder. The change may be a different version of PyTorch, of a driver or of your code. Configurations
    are matched by their values on the axes.

    A configuration is slower if its mean time has increased by more than the limit and, by a one-sided test at 5%, has
    increased at all. With 7 repeats and a limit of 5%, a true increase of 3% is called slower in about 15% of cases.

    With --interleave, BASE and NEW are files of the same grid in two folders of code, or with two environments. Their
    runs alternate, so that a change of the machine affects both alike. They are repeated 4 to 10 times until there is a
    verdict, unless --repeats or --until says otherwise; the files' own `repeats` do not count. Without --interleave,
    the machine may have changed between the two sessions. The options after --interleave apply only with it.
    """
    from raybench.analysis.compare import Limits, as_versions, compare

    _check_options(interleave)
    limits = Limits(max_slowdown, metric, max_quality_loss, strict)
    files = {data: _as_json, markdown: _as_markdown}
    quiet = STANDARD_OUTPUT in files
    if interleave:
        return _run_both(base, new, results, limits, files, quiet, **options)
    comparison = compare(*as_versions(*(_source(each, results, grid) for each in (base, new))), limits)
    _write(comparison, files)
    if not quiet:
        _show(comparison)
    return STATUSES[comparison.decision]


def _check_options(interleave: bool) -> None:
    """Refuse options that only apply with `--interleave`, which are those after it, or only without it."""
    context = click.get_current_context()
    given = [
        each.opts[0]
        for each in context.command.params
        if each.name and context.get_parameter_source(each.name) is ParameterSource.COMMANDLINE
    ]
    if interleave and "--grid" in given:
        raise UsageError("--grid chooses from results, and --interleave runs grid files; leave one of them out")
    names = [each.opts[0] for each in context.command.params]
    only_then = [name for name in given if name in names[names.index("--interleave") + 1 :]]
    if only_then and not interleave:
        raise UsageError(f"{only_then[0]} is for trials, and without --interleave none run; add --interleave")


def _source(source: str, results: Path, grid: str | None) -> Source:
    """Return the attempts and the request of one grid in a source."""
    from raybench.reporting.build import one_grid
    from raybench.results.grid_request import request_of_runs

    found = one_grid([source], results, grid=grid)
    return found.attempts, found.request or request_of_runs(str(found.name), found.attempts)


def _run_both(
    base: str,
    new: str,
    results: Path,
    limits: Limits,
    files: Files,
    quiet: bool,
    **given: Any,
) -> int:
    """Run both versions in one grid, by the options after `--interleave`, and compare them; return the exit status."""
    from raybench.execution.base import make_executor
    from raybench.planning.grid_options import requested_grid
    from raybench.planning.versions import compared
    from raybench.sources import TWO_SCRIPTS

    for source in (base, new):
        if not source.endswith((".yaml", ".yml")):
            raise UsageError(f"{source}: --interleave runs two grid files; two scripts: {TWO_SCRIPTS}")
    changes = {name: given[name] for name in ("changes", "where", "repeats", "until")}
    if given["repeats"] is None and not any(each.startswith("repeats") for each in given["changes"]):
        changes["until"] = given["until"] or "verdict"
    (first, _), (second, cells) = (requested_grid(Path(source), **changes) for source in (base, new))
    spec = compared((first, second))
    executor = make_executor(given["address"])  # measures the load of other programs during the slow imports
    from raybench.analysis.compare import compare, is_decided
    from raybench.cli.console import Terminal, page
    from raybench.cli.end_view import can_run, show_ends, show_skipped
    from raybench.cli.execution import tracking_of
    from raybench.cli.live import Display
    from raybench.planning.request import request_of
    from raybench.results.grid_request import latest_request
    from raybench.results.machines import as_requested
    from raybench.run import Options, run_grid

    options = Options(
        results,
        tracking=tracking_of(given["tracking_uri"], given["no_tracking"]),
        where=cells,
        retry=frozenset(given["retry"]),
        rerun=given["rerun"],
        checks=not given["no_checks"],
        is_certain=is_decided(limits) if spec.rule and spec.rule.until is None else None,
    )
    console = Terminal(stderr=True) if quiet else page()
    display = Display(console if quiet else None)
    outcome = run_grid(spec, executor, display, options)
    attempts, request = as_requested(outcome.history, latest_request(outcome.history))
    comparison = compare(attempts, request or request_of(outcome.plan), limits)
    _write(comparison, files)
    if not can_run(outcome):
        show_skipped(outcome, console)
        return outcome.exit_status
    console.print()
    if not quiet:
        _show(comparison)
    show_ends(outcome, console)
    status = STATUSES[comparison.decision]
    return status if comparison.fails and not outcome.interrupted else outcome.exit_status or status


def _write(comparison: Comparison, files: Files) -> None:
    for path, text in files.items():
        if path:
            write_file(path, text(comparison))


def _as_json(comparison: Comparison) -> str:
    from raybench.reporting.report import json_text

    return json_text(comparison.to_json())


def _as_markdown(comparison: Comparison) -> str:
    """A comment for a pull request: the answer and the table, the rest folded."""
    first, *rest = _sentences(comparison)
    lines = [f"### raybench: {first}", "", *(f"{each}  " for each in rest), ""]
    columns = _columns(comparison)
    rows = [[each.head for each in columns], ["--:" if each.right else "---" for each in columns]]
    rows += [list(row) for row in zip(*(each.texts for each in columns), strict=True)]
    lines += [f"| {' | '.join(text.replace('|', chr(92) + '|') for text in row)} |" for row in rows if columns]
    details = list(_details(comparison))
    if details:
        lines += ["", "<details><summary>Cautions and differences</summary>", ""]
        lines += [*(f"{'  ' * each.startswith('  ')}- {each.strip()}" for each in details), "", "</details>"]
    return "\n".join(lines) + "\n"


def _columns(comparison: Comparison) -> list[Column]:
    from raybench.reporting.layout import LABEL, NOTHING, Column
    from raybench.reporting.words import difference_text, number, ratio_text

    changes, times = comparison.changes, f"s/{comparison.unit.label}"
    columns = [
        Column("configuration", [each.label for each in changes], right=False, kind=LABEL),
        Column(f"base, {times}", [number(each.base_s) if each.base_s else NOTHING for each in changes], drop=2),
        Column(f"new, {times}", [number(each.new_s) if each.new_s else NOTHING for each in changes], drop=1),
        Column("speed (95% CI)", [ratio_text(each.speed) for each in changes], right=False),
        Column(comparison.metric, [difference_text(each.quality, comparison.metric) for each in changes]),
        Column("verdict", [str(each.verdict) for each in changes], right=False),
    ]
    return [column for column in columns if changes and not column.is_empty]


def _details(comparison: Comparison) -> Iterator[str]:
    """Yield the cautions, and what differs between the versions."""
    from raybench.core.text import names_text
    from raybench.reporting.layout import NOTHING
    from raybench.reporting.words import caution_text

    for caution in comparison.cautions:
        yield f"Caution: {caution_text(caution)}"
    if comparison.only_in_new:
        yield f"Only in new: {', '.join(comparison.only_in_new)}."
    if comparison.differences:
        yield "Differences between the two:"
    for difference in comparison.differences[:SHOWN_DIFFERENCES]:
        sides = [names_text(values, separator=", ") or NOTHING for values in (difference.base, difference.new)]
        yield f"  {difference.name}: {' → '.join(sides)}"


def _show(comparison: Comparison) -> None:
    from raybench.cli.console import page, print_columns, print_text

    console = page()
    for sentence in _sentences(comparison):
        print_text(console, sentence)
    console.print()
    if columns := _columns(comparison):
        print_columns(console, columns)
        console.print()
    for line in _details(comparison):
        print_text(console, line)


def _sentences(comparison: Comparison) -> Iterator[str]:
    """Yield the decision, then its reasons: what must not pass first, then what is not decided."""
    from raybench.analysis.compare import Decision, Verdict
    from raybench.core.text import names_text, plural
    from raybench.reporting.words import seconds_text

    changes, decision = comparison.changes, comparison.decision.capitalize()
    limit = f"{100 * comparison.limits.slowdown:g}%"
    words = {
        Verdict.MISSING: Verdict.MISSING.value,
        Verdict.SLOWER: f"slower by a one-sided test, and by more than {limit} in these runs",
        Verdict.WORSE: "lower quality than the limit allows",
    }
    of_verdict = {verdict: [each for each in changes if each.verdict is verdict] for verdict in Verdict}
    if not changes:
        yield f"{decision}: the two have no configuration in common."
        return
    if comparison.same_runs:
        yield f"{decision}: these are the same runs; base and new name one measurement."
        return
    for verdict, text in words.items():
        if names := [each.label for each in of_verdict[verdict]]:
            yield f"{decision}: {len(names)} of {plural(len(changes), 'configuration')}: {text} ({names_text(names)})."
    undecided = of_verdict[Verdict.INCONCLUSIVE]
    if comparison.decision is Decision.KEEP:
        kept = f", and {comparison.metric} is kept" if comparison.limits.needs_quality else ""
        yield f"{decision}: no configuration is slower by more than {limit}{kept}."
    elif comparison.decision is Decision.UNDECIDED:
        more = comparison.more_repeats
        busy = any(each.code in BUSY for each in comparison.cautions)
        hint = f"about {plural(more, 'more repeat')} would decide it" if more else "more repeats may not decide it"
        hint = "other programs kept the machine busy; stop them and compare again" if busy else hint
        yield f"{decision}: {len(undecided)} of {plural(len(changes), 'configuration')}; {hint}."
    for each in [*undecided, *of_verdict[Verdict.MISSING]]:
        time = f"; {plural(each.more_repeats, 'more repeat')}" if each.more_repeats else ""
        time += f", {seconds_text(each.more_s)}" if each.more_s else ""
        yield f"{each.label}: {each.reason}{time}."
    unsure = [each.label for each in of_verdict[Verdict.WITHIN] if each.quality_kept is False]
    if unsure:
        yield f"{comparison.metric} is not shown to stay within its limit for {names_text(unsure)}."
