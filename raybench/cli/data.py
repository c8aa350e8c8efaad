"""`raybench data`."""

from __future__ import annotations

from pathlib import Path

import click

from raybench.cli import options as opt
from raybench.cli.terminal import say


@click.group("data", epilog="Example: raybench data fetch cifar10", invoke_without_command=True)
@opt.JSON
@click.pass_context
def command(context: click.Context, data: Path | None) -> None:
    """List data sets with their state and digest, or download some.

    They are in the folder that RAYBENCH_DATA names, or in your cache folder. Existing files are used and never changed.
    """
    if context.invoked_subcommand:
        return
    from raybench import datasets
    from raybench.cli.console import page, print_list

    root = datasets.data_root()
    rows = []
    for name in datasets.names():
        dataset = datasets.get(name)
        status = dataset.status(root)
        official = {True: "yes", False: "no"}[status.official] if status.state == "ready" else "–"
        rows.append((name, status.state, status.digest or "–", official, dataset.description))
    heads = ("name", "state", "digest", "official", "description")
    if opt.is_written(data, lambda: {"folder": root, "data_sets": opt.objects(heads, rows)}):
        return
    console = page()
    console.print(f"Data in {root}", style="italic", soft_wrap=True)
    print_list(console, heads, rows)


@command.command("fetch", epilog="Example: raybench data fetch cifar10")
@click.argument("names", nargs=-1, required=True, metavar="NAME…")
def fetch_data(names: tuple[str, ...]) -> None:
    """Download missing data sets and verify them."""
    from raybench import datasets
    from raybench.cli.progress import fetch_with_progress

    for dataset in [datasets.get(name) for name in names]:
        fetch_with_progress(dataset, datasets.data_root())
        say(f"{dataset.name}: {dataset.status(datasets.data_root()).state} in {datasets.data_root()}")
