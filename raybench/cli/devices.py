"""`raybench devices`."""

from __future__ import annotations

from collections.abc import Mapping

import click

from raybench.cli import options as opt
from raybench.core.options import PlanOptions


@click.command("devices", epilog="Example: raybench devices --address auto")
@opt.option(PlanOptions, "address")
def command(address: str | None) -> None:
    """Show the devices, frameworks and environments of this machine or of a cluster.

    The first column has the values for `kind:` and `axes.device:` in a grid file, and environments are values for
    `environment:`.
    """
    from contextlib import closing

    from raybench.cli.console import page, print_list
    from raybench.environments import RECIPES
    from raybench.execution.base import make_executor
    from raybench.planning.node import GIB

    with closing(make_executor(address)) as executor:
        nodes = executor.nodes(list(RECIPES))
    console = page()
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


def _frameworks(packages: Mapping[str, str]) -> str:
    from raybench.engines import ENGINES, FRAMEWORKS

    installed = [package for name in ENGINES if (package := FRAMEWORKS[name].package) in packages]
    return ", ".join(f"{package} {packages[package]}" for package in installed)
