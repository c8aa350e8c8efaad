"""`raybench plan`."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from raybench.cli import options as opt

if TYPE_CHECKING:
    from raybench.analysis.estimate import Estimator
    from raybench.plan import Cell, Plan

SHOWN = 40
"""Cells shown where nobody asks for all of them."""


@click.command("plan", epilog="Example: raybench plan grids/cifar_tpu_vs_gpu.yaml --set repeats=5")
@opt.grid_file
@opt.changes
@opt.where
@opt.repeats
@opt.results
@opt.address
@click.option("--all", "everything", is_flag=True, help=f"Show every cell, not only the first {SHOWN}.")
@click.option("--order", is_flag=True, help="Show the trials in the order in which they will run.")
def command(
    file: Path,
    changes: tuple[str, ...],
    where: tuple[str, ...],
    repeats: int | None,
    results: Path,
    address: str | None,
    everything: bool,
    order: bool,
) -> int:
    """Show what the grid in FILE comes to here: cells, what is done, what cannot run and why, how long and how much.

    Nothing is started and nothing is downloaded. Times come from earlier trials of like cells, where there are any.
    """
    from raybench import datasets
    from raybench.analysis.estimate import Estimator
    from raybench.analysis.results import latest
    from raybench.execution.lazy import LazyRay
    from raybench.plan import make_plan
    from raybench.run import JOURNAL, Options, grid_folder, load_attempts, missing
    from raybench.spec import load_grid

    spec = load_grid(file, opt.all_changes(changes, repeats))
    executor = LazyRay(address)
    try:
        nodes = executor.nodes()
    finally:
        executor.close()
    plan = make_plan(spec, nodes, datasets.data_root(), opt.pairs(where))
    known = load_attempts(grid_folder(results, spec.name) / JOURNAL)
    done = latest(known.values())
    todo = missing(plan, done, Options(results))
    estimator = Estimator(known.values())
    if order:
        for number, work in enumerate(todo if everything else todo[:SHOWN], 1):
            click.echo(f"{number:>6}  {work.trial.trial_id}  {plan.label(work.trial)}")
    else:
        _show_cells(plan, done, estimator, everything)
    _show_totals(plan, todo, estimator)
    return 0


def _show_cells(plan: Plan, done: Any, estimator: Estimator, everything: bool) -> None:
    from rich.console import Console
    from rich.table import Table

    from raybench.cli.display import duration
    from raybench.plan import short

    cells = plan.cells if everything else plan.cells[:SHOWN]
    ends: dict[str, Counter[str]] = {}
    for trial in plan.trials:
        attempt = done.get(trial.trial_id)
        ends.setdefault(trial.cell.cell_id, Counter())[(attempt.status or "unfinished") if attempt else "to run"] += 1
    table = Table(box=None, pad_edge=False)
    table.add_column("cell", no_wrap=True)
    for axis in cells[0].axes:
        table.add_column(axis)
    for head in ("takes", "trials", "one takes"):
        table.add_column(head)
    for cell in cells:
        counted = ", ".join(f"{count} {status}" for status, count in sorted(ends[cell.cell_id].items()))
        state = f"[yellow]skipped: {cell.skip}[/]" if cell.skip else counted
        seconds = estimator.seconds(cell.content)
        takes = "–" if cell.skip else _takes(cell)
        table.add_row(
            cell.cell_id,
            *(short(value) for value in cell.axes.values()),
            takes,
            state,
            duration(seconds) if seconds else "–",
        )
    Console().print(table)
    if len(cells) < len(plan.cells):
        click.echo(f"… and {len(plan.cells) - len(cells):,} more cells: --all shows them")


def _takes(cell: Cell) -> str:
    assert cell.fit is not None
    accelerators = f"{cell.fit.accelerators} × {cell.fit.hardware.model}, " if cell.fit.accelerators else ""
    return f"{accelerators}{cell.fit.cpus} core{'s' if cell.fit.cpus != 1 else ''}"


def _show_totals(plan: Plan, todo: Any, estimator: Estimator) -> None:
    from raybench.cli.display import duration

    skipped = sum(bool(trial.cell.skip) for trial in plan.trials)
    done = len(plan.trials) - skipped - len(todo)
    click.echo(
        f"{plan.spec.name}: {len(plan.cells):,} cells × {plan.spec.repeats} repeats = {len(plan.trials):,} trials: "
        f"{done:,} done, {len(todo):,} to run, {skipped:,} skipped (no machine here can run them)"
    )
    each = [(work.trial.cell, estimator.seconds(work.trial.cell.content)) for work in todo]
    known = [(cell, seconds) for cell, seconds in each if seconds is not None]
    if not known:
        if todo:
            click.echo("How long it will take is not known: nothing like it has been run yet.")
        return
    seconds = sum(s for _, s in known)
    of = "" if len(known) == len(todo) else f" for the {len(known):,} of them like earlier ones"
    click.echo(f"About {duration(seconds)}{of}, one after another on each device.")
    priced = [(cell.price_per_hour, s) for cell, s in known if cell.price_per_hour]
    if priced:
        click.echo(f"About {sum(price * s / 3600 for price, s in priced):.2f} in the price's currency.")
