"""`raybench plan`."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

import click

from raybench.cli import options as opt
from raybench.cli.terminal import say
from raybench.core.job import DEVICES, GROUPED, SPMD
from raybench.core.settings import short_name

if TYPE_CHECKING:
    from raybench.planning.estimate import Estimator
    from raybench.planning.plan import Plan, WorkItem
    from raybench.planning.resolve import ResolvedCell
    from raybench.results.attempt import Attempt

log = logging.getLogger("raybench")

SHOWN = 40
"""Number of cells shown unless the user requests all."""

HOW = {GROUPED: "grouped on one device", DEVICES: "on devices of their own", SPMD: "by SPMD"}


@click.command("plan", epilog="Example: raybench plan grids/cifar_tpu_vs_gpu.yaml --set repeats=5")
@opt.grid_file
@opt.changes
@opt.where
@opt.repeats
@opt.smoke
@opt.synthetic_data
@opt.results
@opt.address
@click.option("--all", "everything", is_flag=True, help=f"Show every cell, not only the first {SHOWN}.")
@click.option("--inline", is_flag=True, help="What `grid --inline` would do.")
@click.option("--order", is_flag=True, help="Show the trials in the order in which they will run.")
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
    """Show what the grid in FILE comes to here: cells, what is done, what cannot run and why, how long and how much.

    Nothing is started and nothing is downloaded, but that Ray makes a device's `runtime_env` to see what it holds.
    Times come from earlier trials of like cells, where there are any.
    """
    from raybench import datasets
    from raybench.analysis.smoke import smoke_cuts
    from raybench.config import load_grid
    from raybench.planning.estimate import Estimator
    from raybench.planning.plan import make_plan, notes, plan_warnings, skip_lines
    from raybench.planning.resume import missing_work
    from raybench.reporting.sentences import plain
    from raybench.results.attempt import latest
    from raybench.results.history import GridHistory
    from raybench.results.journal import JOURNAL, damage, grid_folder

    spec = opt.cut(load_grid(file, opt.all_changes(changes, repeats, synthetic_data)), smoke)
    with closing(opt.executor(address, inline)) as executor:
        nodes = executor.nodes(spec.environments)
    root = datasets.data_root()
    plan = make_plan(spec, nodes, root, opt.selection(where, spec), executor.isolation)
    history = GridHistory.read(grid_folder(results, spec.name) / JOURNAL)
    if history.damaged_lines:
        log.warning("%s", damage(history.path, history.damaged_lines))
    attempts = history.attempts.values()
    done = latest(attempts)
    todo = missing_work(plan, attempts)
    estimator = Estimator(attempts)
    if order:
        listed = todo if everything else todo[:SHOWN]
        for number, work in enumerate(listed, 1):
            say(f"{number:>6}  {work.trial.trial_id}  {plan.label(work.trial)}")
        _say_more(len(todo) - len(listed), "trials")
    else:
        _show_cells(plan, done, todo, estimator, everything)
    cuts = smoke_cuts(cell.content for cell in plan.cells)
    for line in (*([plain(cuts)] if cuts else []), *notes(plan), *skip_lines(plan)):
        say(line)
    for line in plan_warnings(plan):
        say(f"warning: {line}")
    _show_totals(plan, todo, estimator)
    name = plan.workload.dataset
    if name and datasets.get(name).status(root).state != "ready":
        say(f"{name} is not in {root} yet: the grid fetches it before anything starts.")
    return 0


def _show_cells(
    plan: Plan, done: Mapping[str, Attempt], todo: Sequence[WorkItem], estimator: Estimator, everything: bool
) -> None:
    from rich.table import Table
    from rich.text import Text

    from raybench.cli.console import page
    from raybench.cli.durations import duration
    from raybench.planning.plan import format_value

    cells = plan.cells if everything else plan.cells[:SHOWN]
    status_counts: dict[str, Counter[str]] = {}
    pending = {work.trial.trial_id for work in todo}
    for trial in plan.trials:
        attempt = None if trial.trial_id in pending else done.get(trial.trial_id)
        status_counts.setdefault(trial.cell.cell_id, Counter())[str(attempt.status) if attempt else "to run"] += 1
    axes = list(dict.fromkeys(axis for cell in cells for axis in cell.axes))  # include may add some
    table = Table(box=None, pad_edge=False)
    table.add_column("cell", no_wrap=True)
    for axis in axes:
        table.add_column(Text(short_name(axis)), overflow="fold")
    for title in ("takes", "trials", "one takes"):
        table.add_column(title)
    for cell in cells:
        counts = ", ".join(f"{count} {status}" for status, count in sorted(status_counts[cell.cell_id].items()))
        state = Text("skipped", style="yellow") if cell.skip else Text(counts)
        seconds = None if cell.skip else estimator.seconds(cell.content)
        table.add_row(
            cell.cell_id,
            *(format_value(cell.axes[axis]) if axis in cell.axes else "–" for axis in axes),
            "–" if cell.skip else _takes(cell),
            state,
            "–" if seconds is None else duration(seconds),
        )
    page().print(table)
    _say_more(len(plan.cells) - len(cells), "cells")


def _say_more(count: int, noun: str) -> None:
    if count:
        say(f"… and {count:,} more {noun}: --all shows them")


def _many(count: int, noun: str) -> str:
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def _takes(cell: ResolvedCell) -> str:
    assert cell.fit is not None
    accelerators = f"{cell.fit.accelerators} × {cell.fit.hardware.model}, " if cell.fit.accelerators else ""
    replication, replicas = cell.fit.replication, cell.content.device.replicas
    replicas_text = f", {_many(replicas, 'replica')} {HOW[replication.form]}" if replication.form else ""
    return f"{accelerators}{_many(cell.fit.cpus, 'core')}{replicas_text}"


def _show_totals(plan: Plan, todo: Sequence[WorkItem], estimator: Estimator) -> None:
    from raybench.cli.durations import duration

    skipped = sum(bool(trial.cell.skip) for trial in plan.trials)
    done = len(plan.trials) - skipped - len(todo)
    cells, repeats = _many(len(plan.cells), "cell"), {cell.repeats for cell in plan.cells}
    per_cell = (
        f" × {_many(min(repeats), 'repeat')}" if len(repeats) == 1 else f", up to {_many(max(repeats), 'repeat')}"
    )
    say(
        f"{plan.spec.name}: {cells}{per_cell} = "
        f"{_many(len(plan.trials), 'trial')}: {done:,} done, {len(todo):,} to run, {skipped:,} skipped"
    )
    estimates = [(work.trial.cell, estimator.seconds(work.trial.cell.content)) for work in todo]
    timed = [(cell, seconds) for cell, seconds in estimates if seconds is not None]
    if not timed:
        if todo:
            say("How long it will take is not known: nothing like it has been run yet.")
        return
    seconds = sum(cell_s for _, cell_s in timed)
    coverage = "" if len(timed) == len(todo) else f" for the {len(timed):,} of them like earlier ones"
    say(f"About {duration(seconds)}{coverage}, one after another on each device.")
    priced = [(cell.price_per_hour, cell_s) for cell, cell_s in timed if cell.price_per_hour]
    if priced:
        say(f"About {sum(price * cell_s / 3600 for price, cell_s in priced):.2f} in the price's currency.")
