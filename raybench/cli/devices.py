"""`raybench devices`."""

from __future__ import annotations

from collections.abc import Mapping

import click


@click.command("devices", epilog="Example: raybench devices --address ray://head:10001")
@click.option("--address", metavar="ADDRESS", help="Ray cluster (auto or ray://host:10001) instead of this machine.")
def command(address: str | None) -> None:
    """Show the devices, frameworks and environments of this machine or of a cluster.

    The first column has the values for `kind:` and `axes.device:` in a grid file, and environments are values for
    `environment:`. The last table lists all kinds of devices that raybench supports.
    """
    from contextlib import closing

    from rich.table import Table

    from raybench.cli.console import page
    from raybench.devices import KINDS
    from raybench.environments import RECIPES
    from raybench.execution.deferred_ray import DeferredRayExecutor
    from raybench.planning.placement import GIB

    with closing(DeferredRayExecutor(address)) as executor:
        nodes = executor.nodes(list(RECIPES))
    console = page()
    for node in nodes:
        table = Table(title=f"{node.name}, Python {node.python}", title_justify="left", box=None, pad_edge=False)
        for column in ("kind", "model"):
            table.add_column(column)
        table.add_column("count", justify="right")
        table.add_column("memory", justify="right")
        table.add_column("driver")
        for entry in node.hardware:
            memory = f"{entry.memory_bytes / GIB:.0f} GiB" if entry.memory_bytes else "–"
            table.add_row(entry.kind, entry.model, str(entry.count), memory, entry.driver or "–")
        console.print(table)
        console.print(f"frameworks: {_frameworks(node.packages) or 'none installed'}")
        for name, interpreter in node.environments.items():
            if not interpreter.problem:
                console.print(f"environment {name}: {_frameworks(interpreter.packages)}, Python {interpreter.version}")
    table = Table("kind", "device", "frameworks", "here", "status", box=None, pad_edge=False)
    for kind in KINDS.values():
        present = "yes" if any(node.find(kind.name) for node in nodes) else "no"
        table.add_row(kind.name, kind.label, ", ".join(kind.adapters), present, kind.status.replace("`", ""))
    console.print()
    console.print(table)


def _frameworks(packages: Mapping[str, str]) -> str:
    """The frameworks among packages, with their versions."""
    from raybench.engines import PACKAGES

    installed = [package for package in dict.fromkeys(PACKAGES.values()) if package in packages]
    return ", ".join(f"{package} {packages[package]}" for package in installed)
