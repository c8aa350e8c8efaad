"""`raybench plan`."""

from __future__ import annotations

import logging
from collections.abc import Collection
from contextlib import closing
from pathlib import Path

import click

from raybench.cli import options as opt
from raybench.cli.terminal import say
from raybench.core.collector import collector_paused

log = logging.getLogger("raybench")

SHOWN = 40
"""Number of cells shown unless the user requests all."""

EPILOG = """\b
Examples:
  raybench plan grids/quickstart.yaml
  raybench plan grids/cifar_tpu_vs_gpu.yaml --set repeats=5
"""


@click.command("plan", epilog=EPILOG)
@opt.grid_file
@opt.changes
@opt.where
@opt.repeats
@opt.smoke
@opt.synthetic_data
@opt.results
@opt.address
@click.option("--all", "everything", is_flag=True, help=f"Show every cell, not only the first {SHOWN}.")
@click.option("--inline", is_flag=True, help="Plan for `grid --inline`.")
@click.option("--order", is_flag=True, help="Show the trials to run, in their order.")
@collector_paused()
def command(
    file: Path,
    changes: tuple[str, ...],
    where: tuple[str, ...],
    repeats: int | None,
    smoke: bool,
    synthetic_data: bool,
    results: Path,
    address: str | None,
    everything: bool,
    order: bool,
    inline: bool,
) -> int:
    """Show the cells of the grid in FILE on this machine.

    Each is done, to run, done on another machine (if its results were imported) or skipped, with the reason; times and
    costs are estimated from earlier trials of similar cells. Nothing is started or downloaded.
    """
    from raybench import datasets
    from raybench.analysis.smoke import smoke_cuts
    from raybench.cli.cell_table import cell_table, headline, price_line, states, statuses
    from raybench.cli.console import page, print_text
    from raybench.execution.executors import make_executor
    from raybench.planning.estimate import Estimator
    from raybench.planning.grid_options import read_grid, selection
    from raybench.planning.plan import make_plan, notes, plan_warnings, skip_lines
    from raybench.planning.resume import complete_cells, done_on_other_machines, missing_work
    from raybench.reporting.sentences import plain
    from raybench.results.history import GridHistory
    from raybench.results.journal import JOURNAL, damage, grid_folder

    spec = read_grid(file, changes, repeats, synthetic_data, smoke, inline=inline)
    with closing(make_executor(address, inline)) as executor:
        nodes = executor.nodes(spec.environments)
    root = datasets.data_root()
    plan = make_plan(spec, nodes, root, selection(where, spec), executor.isolation)
    history = GridHistory.read(grid_folder(results, spec.name) / JOURNAL)
    if history.damaged_lines:
        log.warning("%s", damage(history.path, history.damaged_lines))
    attempts = history.attempts.values()
    todo = missing_work(plan, attempts)
    others = done_on_other_machines(plan, attempts)
    complete = complete_cells(plan, others)
    estimator = Estimator(attempts)
    console = page()
    counts = statuses(plan, attempts, todo)
    print_text(console, headline(plan, counts, todo, estimator, others))
    reasons: Collection[str] = ()
    if order:
        shown = todo if everything else todo[:SHOWN]
        for number, work in enumerate(shown, 1):
            say(f"{number:>6}  {work.trial.trial_id}  {plan.label(work.trial)}")
        hidden = len(todo) - len(shown)
    else:
        cells = plan.cells if everything else plan.cells[:SHOWN]
        table = cell_table(plan, cells, states(cells, counts, others), estimator, console.width)
        console.print(table.table)
        if table.omitted:
            print_text(console, f"Not shown at this width: {', '.join(table.omitted)}.")
        hidden = len(plan.cells) - len(cells)
        reasons = () if hidden else table.reasons  # hidden cells may have the same reason
    if hidden:
        say(f"… and {hidden:,} more (--all)")
    cuts = smoke_cuts(group.content for group in plan.groups)
    for line in (
        *([plain(cuts)] if cuts else []),
        *notes(plan),
        *skip_lines(plan, reasons, complete),
        *price_line(todo, estimator),
    ):
        print_text(console, line)
    for line in plan_warnings(plan):
        print_text(console, f"warning: {line}")
    name = plan.workload.dataset
    if todo and name and datasets.get(name).status(root).state != "ready":
        print_text(
            console, f"Data set {name} is not in {root} yet; `raybench grid` downloads it before the first trial."
        )
    return 0
