"""`raybench plan`."""

from __future__ import annotations

import json
import logging
from contextlib import closing
from pathlib import Path

import click

from raybench.cli import options as opt
from raybench.cli.terminal import say
from raybench.core.options import PlanOptions

log = logging.getLogger("raybench")

EPILOG = """\b
Examples:
  raybench plan grids/quickstart.yaml
  raybench plan grids/cifar_tpu_vs_gpu.yaml --set repeats=5
  raybench plan grids/quickstart.yaml --json - | jq .seconds
  raybench plan --schema > grid.schema.json
"""


def _print_schema(context: click.Context, parameter: click.Parameter, given: bool) -> None:
    if given and not context.resilient_parsing:
        from raybench.config import GridSpec

        say(json.dumps(GridSpec.model_json_schema(), indent=2))
        context.exit()


@click.command("plan", epilog=EPILOG)
@opt.GRID_FILE
@opt.options(PlanOptions)
@click.option(
    "--schema",
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=_print_schema,
    help="Print the JSON Schema of grid files, with which editors complete and check them, and exit.",
)
@opt.JSON
def command(source: Path, options: PlanOptions, data: Path | None) -> int:
    """Show the configurations of the grid in FILE on this machine.

    Each is done, to run, done on a different machine (if its results were imported) or skipped, with the reason. Times
    and costs are estimated from earlier trials of similar configurations. Nothing is started or downloaded.
    """
    from raybench import datasets
    from raybench.analysis.analyze import Grid
    from raybench.analysis.noise import saved_noise
    from raybench.analysis.work import clock_text
    from raybench.cli.cell_table import (
        as_data,
        budget_line,
        cell_columns,
        headline,
        price_lines,
        price_text,
        states,
        statuses,
    )
    from raybench.cli.console import page, print_columns, print_text
    from raybench.cli.noise import shown_text
    from raybench.core.identity import NOISE
    from raybench.core.text import plural
    from raybench.execution.base import make_executor
    from raybench.planning.estimate import Estimator
    from raybench.planning.grid_options import requested_grid
    from raybench.planning.plan import make_plan, notes, plan_warnings, request_of, skip_lines
    from raybench.planning.resume import done_on_other_machines, missing_work
    from raybench.reporting.words.numbers import seconds_text
    from raybench.reporting.words.status import certainty_sentences
    from raybench.results.folder import grid_folder
    from raybench.results.grid_request import latest_request
    from raybench.results.history import GridHistory
    from raybench.results.machines import as_requested
    from raybench.session import decided_work

    spec = requested_grid(source, options)
    with closing(make_executor(options.address, options.inline)) as executor:
        nodes = executor.nodes(spec.environments)
    root = datasets.data_root()
    plan = make_plan(spec, nodes, root)
    history = GridHistory.read(grid_folder(options.folder, spec.name))
    for warning in history.warnings:
        log.warning("%s", warning)
    attempts = history.attempts.values()
    progress, todo, later = decided_work(missing_work(plan, history), history, request_of(plan))
    undecided = {cell for each in progress if not each.is_settled for cell in each.cells}
    later = [work for work in later if work.trial.cell.cell_id in undecided]
    others = done_on_other_machines(plan, attempts)
    estimator = Estimator(attempts)
    console = page()
    counts = statuses(plan, attempts, todo)
    of_cells = states(plan, counts, others, todo, later)
    if opt.is_written(data, lambda: as_data(plan, of_cells, todo, later, estimator)):
        return 0
    print_text(console, headline(plan, counts, todo, estimator, others))
    print_columns(console, cell_columns(plan, plan.cells, of_cells, estimator))
    if later and spec.rule:
        seconds = estimator.total_seconds(work.trial.cell.content for work in later)
        parts = [plural(len(later), "more trial"), f"about {seconds_text(seconds)}" if seconds else ""]
        parts.append(price_text(plan, later, estimator))
        known = "" if attempts else f"; how many is known after repeat {spec.rule.at_least}"
        end = "the best is known" if spec.rule.is_race else "each ratio is certain"
        print_text(console, f"Up to {', '.join(filter(None, parts))}, until {end}{known}.")
        for each in progress:
            if each.tried >= spec.rule.at_least and not each.is_settled:
                print_text(console, f"{each.in_words()}.")
    if attempts and not todo and not spec.rule:
        runs, request = as_requested(history, latest_request(history))
        print_text(console, *certainty_sentences(Grid(runs, request or request_of(plan)).answer()))
    noise_history = GridHistory.read(grid_folder(options.folder, f"{spec.name}{NOISE}"))
    if noise_history.attempts and (floor := saved_noise(noise_history)):
        least = spec.least_repeats
        print_text(console, f"By `raybench noise`, {plural(least, 'repeat')} would show {shown_text(floor, least)}.")
    if clock := clock_text(attempts):
        print_text(console, clock)
    print_text(
        console, *notes(plan), *skip_lines(plan, others), *budget_line(plan), *price_lines(plan, todo, estimator)
    )
    print_text(console, *(f"warning: {text}" for text in plan_warnings(plan)))
    name = plan.workload.dataset
    if todo and name and datasets.get(name).status(root).state != "ready":
        print_text(
            console, f"Data set {name} is not in {root} yet; `raybench grid` downloads it before the first trial."
        )
    return 0
