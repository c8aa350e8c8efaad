"""`raybench devices`."""

from __future__ import annotations

import click


@click.command("devices", epilog="Example: raybench devices --address ray://head:10001")
@click.option("--address", metavar="ADDRESS", help="A Ray cluster; this machine where it is not given.")
def command(address: str | None) -> None:
    """Show what this machine (or a cluster) has, and which frameworks are installed on it.

    The first column is what `kind:` and `axes.device:` of a grid file may say here.
    """
    from rich.table import Table

    from raybench.cli.page import page
    from raybench.devices.node import Node, probe_node
    from raybench.engines import FRAMEWORKS, PACKAGES
    from raybench.preflight import GIB

    nodes: list[Node]
    if address is None:
        nodes = [probe_node()]
    else:
        from raybench.execution.ray_tune import RayTuneExecutor

        executor = RayTuneExecutor(address)
        try:
            nodes = executor.nodes()
        finally:
            executor.close()
    console = page()
    for node in nodes:
        ready = [f"{name} {node.packages[PACKAGES[name]]}" for name in FRAMEWORKS if PACKAGES[name] in node.packages]
        table = Table(title=f"{node.name}, Python {node.python}", title_justify="left", box=None, pad_edge=False)
        for head in ("kind", "model"):
            table.add_column(head)
        table.add_column("count", justify="right")
        table.add_column("memory", justify="right")
        table.add_column("driver")
        for entry in node.hardware:
            memory = f"{entry.memory_bytes / GIB:.0f} GiB" if entry.memory_bytes else "–"
            table.add_row(entry.kind, entry.model, str(entry.count), memory, entry.driver or "–")
        console.print(table)
        console.print(f"ready: {', '.join(ready) or 'no framework is installed'}")
