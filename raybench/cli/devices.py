"""`raybench devices`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

import click

from raybench.cli import options as opt

if TYPE_CHECKING:
    from raybench.devices.base import DeviceKind
    from raybench.planning.node import Node


@click.command("devices", epilog="Example: raybench devices --address ray://head:10001")
@opt.address
def command(address: str | None) -> None:
    """Show the devices, frameworks and environments of this machine or of a cluster.

    The first column has the values for `kind:` and `axes.device:` in a grid file, and environments are values for
    `environment:`. The last table lists all kinds of devices that raybench supports.
    """
    from contextlib import closing

    from raybench.cli.console import page, print_list
    from raybench.devices import KINDS
    from raybench.environments import RECIPES
    from raybench.execution.ray_executor import RayExecutor
    from raybench.planning.node import GIB

    with closing(RayExecutor(address)) as executor:
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
    rows = []
    for kind in KINDS.values():
        rows.append((kind.name, kind.label, ", ".join(kind.adapters), _here(kind, nodes), kind.status.replace("`", "")))
    console.print()
    print_list(console, ("kind", "device", "frameworks", "here", "status"), rows)


def _here(kind: DeviceKind, nodes: Iterable[Node]) -> str:
    """Whether a node has a kind of device, and one of its frameworks."""
    from raybench.engines import FRAMEWORKS

    found = [node for node in nodes if node.find(kind.name)]
    if not found:
        return "no"
    usable = [each.packages for node in found for each in node.environments.values() if not each.problem]
    installed = {package for packages in (*usable, *(node.packages for node in found)) for package in packages}
    needed = [FRAMEWORKS[name].package for name in kind.adapters]
    return "yes" if installed.intersection(needed) else f"without {' and '.join(needed)}"


def _frameworks(packages: Mapping[str, str]) -> str:
    """The frameworks among packages, with their versions."""
    from raybench.engines import ENGINES, FRAMEWORKS

    installed = [package for name in ENGINES if (package := FRAMEWORKS[name].package) in packages]
    return ", ".join(f"{package} {packages[package]}" for package in installed)
