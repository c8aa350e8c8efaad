"""`raybench env`."""

from __future__ import annotations

from pathlib import Path

import click

from raybench.cli import options as opt
from raybench.cli.terminal import say


@click.group("env", epilog="Example: raybench env create xla", invoke_without_command=True)
@opt.JSON
@click.pass_context
def command(context: click.Context, data: Path | None) -> None:
    """List or build Python environments for frameworks that are not installed next to raybench.

    Each is a virtual environment in the folder that RAYBENCH_ENVIRONMENTS names, or in your cache folder. A device in a
    grid file uses one with `environment: xla`.
    """
    if context.invoked_subcommand:
        return
    from raybench.cli.console import page, print_list
    from raybench.environments import RECIPES, environments_root

    rows = [(name, recipe.state, recipe.purpose) for name, recipe in RECIPES.items()]
    heads, root = ("name", "state", "purpose"), environments_root()
    if opt.is_written(data, lambda: {"folder": root, "environments": opt.objects(heads, rows)}):
        return
    console = page()
    console.print(f"Environments in {root}", soft_wrap=True)
    print_list(console, heads, rows)


@command.command("create", epilog="Example: raybench env create xla")
@click.argument("names", nargs=-1, required=True, metavar="NAME…")
@click.option("--rebuild", is_flag=True, help="Build it again even if it is ready.")
def create_environments(names: tuple[str, ...], rebuild: bool) -> None:
    """Build missing or outdated environments, with uv if it is installed, else with pip.

    The installer's own settings apply, such as UV_INDEX_URL or PIP_INDEX_URL.
    """
    from raybench.environments.recipes import get

    for recipe in [get(name) for name in names]:  # nothing is built if a name is wrong
        if recipe.state == "ready" and not rebuild:
            say(f"{recipe.name}: ready in {recipe.folder}")
            continue
        recipe.create(rebuild)
        say(f"{recipe.name}: built in {recipe.folder}")
