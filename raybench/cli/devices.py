"""`raybench devices`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import click

from raybench.cli import options as opt
from raybench.core.options import PlanOptions
from raybench.errors import UsageError

if TYPE_CHECKING:
    from raybench.planning.node import Node


@click.command("devices", epilog="Example: raybench devices --address auto")
@opt.option(PlanOptions, "address")
@click.option("--measure", is_flag=True, help="Time the devices of this machine; compare with others.")
@opt.option(PlanOptions, "results")
@opt.JSON
def command(address: str | None, measure: bool, results: str, data: Path | None) -> None:
    """Show the devices, frameworks and environments of this machine or of a cluster.

    The first column has the values for `kind:` and `axes.device:` in a grid file, and environments are values for
    `environment:`. With --measure, the speeds of this machine are kept in the results folder, and compared with those
    of other machines of the model that its runs, also imported ones, have.
    """
    from contextlib import closing

    from raybench.cli.console import page, print_list
    from raybench.environments import RECIPES
    from raybench.execution.base import make_executor
    from raybench.planning.node import GIB

    with closing(make_executor(address)) as executor:
        nodes = executor.nodes(list(RECIPES))
        load = executor.host_load()
    console = page()
    if measure:
        if nodes[0].address:
            raise UsageError("--measure times this machine alone: run it on each node, without --address")
        is_busy = bool(load and load.high)
        rows = list(_measured(nodes[0], Path(results), is_busy))
        heads = ("device", "rate", "value", "compared")
        if opt.is_written(data, lambda: {"is_busy": is_busy, "rates": opt.objects(heads, rows)}):
            return
        print_list(console, heads, rows)
        if is_busy:
            console.print(f"Other programs used {load}: the rates may be too low, and are not kept.", soft_wrap=True)
        return
    if opt.is_written(data, lambda: {"nodes": nodes}):
        return
    for node in nodes:
        console.print(f"{node.name}, Python {node.python}", style="italic", soft_wrap=True)
        hardware = []
        for entry in node.hardware:
            memory = f"{entry.memory_bytes / GIB:.0f} GiB" if entry.memory_bytes else "–"
            hardware.append((entry.kind, str(entry.count), memory, entry.driver or "–", entry.model))
        print_list(console, ("kind", "count", "memory", "driver", "model"), hardware, right=("count", "memory"))
        console.print(f"frameworks: {_frameworks(node.packages) or 'none installed'}")
        for name, interpreter in node.environments.items():
            if not interpreter.problem:
                console.print(f"environment {name}: {_frameworks(interpreter.packages)}, Python {interpreter.version}")


def _measured(node: Node, results: Path, is_busy: bool) -> Iterator[tuple[str, ...]]:
    """Measure the devices of this machine, keep the speeds, and yield what they are compared with others."""
    from raybench.checks.machine_speed import keep, kept, measured_here, of_runs, verdicts
    from raybench.results.folder import grids_in
    from raybench.results.history import GridHistory

    runs = (run for name in grids_in(results) for run in GridHistory.read(results / name).attempts.values())
    others = [*of_runs(runs), *kept(results)]
    for speed in measured_here(node.hardware, node.packages):
        if not is_busy:
            keep(results, speed)
        for verdict in verdicts(speed, others):
            yield f"{speed.model}, {speed.framework}, {speed.precision}", *verdict


def _frameworks(packages: Mapping[str, str]) -> str:
    from raybench.engines import ENGINES, FRAMEWORKS

    installed = [package for name in ENGINES if (package := FRAMEWORKS[name].package) in packages]
    return ", ".join(f"{package} {packages[package]}" for package in installed)
