"""`raybench env`."""

from __future__ import annotations

import time

import click

from raybench.cli.terminal import say


@click.group("env", epilog="Example: raybench env create xla", invoke_without_command=True)
@click.pass_context
def command(context: click.Context) -> None:
    """List or build Python environments for frameworks that are not installed next to raybench.

    Each is a virtual environment in the folder RAYBENCH_ENVIRONMENTS or in your cache folder. A device in a grid file
    uses it with `environment: xla`.
    """
    if context.invoked_subcommand:
        return
    from raybench.cli.console import page
    from raybench.cli.tables import print_list
    from raybench.environments import RECIPES, environment_status, environments_root

    rows = []
    for name, recipe in RECIPES.items():
        env = environment_status(name)
        versions = ", ".join(f"{package} {version}" for package, version in env.packages.items())
        size = gigabytes(env.size) if env.size else "–"
        rows.append((name, env.state, env.version or "–", size, versions, recipe.purpose))
    console = page()
    console.print(f"Environments in {environments_root()}", soft_wrap=True)
    print_list(console, ("name", "state", "python", "size", "versions", "purpose"), rows)


@command.command("create", epilog="Example: raybench env create xla")
@click.argument("names", nargs=-1, required=True, metavar="NAME…")
@click.option("--rebuild", is_flag=True, help="Build it again even if it is ready.")
def create_environments(names: tuple[str, ...], rebuild: bool) -> None:
    """Build missing or outdated environments, with uv if it is installed, else with pip.

    The installer's own settings apply, such as UV_INDEX_URL or PIP_INDEX_URL.
    """
    from raybench.cli.progress import working
    from raybench.environments import environment_status
    from raybench.environments.build import create

    for env in [environment_status(name) for name in names]:  # nothing is built if a name is wrong
        if env.state == "ready" and not rebuild:
            say(f"{env.recipe.name}: ready in {env.folder}")
            continue
        start_s = time.monotonic()
        with working() as tell:
            tell(f"Building {env.recipe.name} …")
            env = create(env.recipe.name, tell, rebuild)
        elapsed_s = time.monotonic() - start_s
        say(f"{env.recipe.name}: built in {elapsed_s:.0f} s, {gigabytes(env.size)}, in {env.folder}")


def gigabytes(size: int) -> str:
    """A human-readable size in bytes."""
    return f"{size / 1e9:.1f} GB" if size >= 5e7 else f"{size / 1e6:.1f} MB"
