"""`raybench env`."""

from __future__ import annotations

import threading
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
    from raybench.environments import environment_status
    from raybench.environments.build import create

    for env in [environment_status(name) for name in names]:  # nothing is built if a name is wrong
        if env.state == "ready" and not rebuild:
            say(f"{env.recipe.name}: ready in {env.folder}")
            continue
        start_s = time.monotonic()
        with _Progress(f"Building {env.recipe.name}") as progress:
            env = create(env.recipe.name, progress.tell, rebuild)
        elapsed_s = time.monotonic() - start_s
        say(f"{env.recipe.name}: built in {elapsed_s:.0f} s, {gigabytes(env.size)}, in {env.folder}")


LINE_EVERY = 15.0
"""Seconds between two lines of progress without a terminal: pip downloads for minutes without output."""


class _Progress:
    """Current step and elapsed time: one live line on a terminal, else a line per step and at intervals."""

    def __init__(self, title: str, every: float = LINE_EVERY) -> None:
        from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

        from raybench.cli.console import Terminal

        self._title = title
        self._console = Terminal(stderr=True)
        columns = (SpinnerColumn(), TextColumn(title), TimeElapsedColumn(), TextColumn("{task.fields[now]}"))
        self._bar = Progress(*columns, console=self._console, transient=True)
        self._task = self._bar.add_task(title, total=None, now="", start=True)
        self._every, self._begun, self._now = every, time.monotonic(), ""
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._lines, name="raybench-progress", daemon=True)

    def __enter__(self) -> _Progress:
        if self._console.is_terminal:
            self._bar.start()
        else:
            say(f"{self._title} …", err=True)
            self._thread.start()
        return self

    def _lines(self) -> None:
        while not self._over.wait(self._every):
            say(f"{time.monotonic() - self._begun:.0f} s, {self._now}", err=True)

    def tell(self, line: str) -> None:
        """Show the current step."""
        from rich.markup import escape

        self._now = line
        width = max(20, self._console.width - len(self._title) - 15)
        self._bar.update(self._task, now=escape(line if len(line) <= width else f"{line[: width - 1]}…"))

    def __exit__(self, *_: object) -> None:
        self._over.set()
        if self._console.is_terminal:
            self._bar.stop()
        else:
            self._thread.join()


def gigabytes(size: int) -> str:
    """A human-readable size in bytes."""
    return f"{size / 1e9:.1f} GB" if size >= 5e7 else f"{size / 1e6:.1f} MB"
