"""Progress of downloads and reading, with and without a terminal."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from rich.console import Console
from rich.progress import (
    BarColumn,
    DownloadColumn,
    Progress,
    SpinnerColumn,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)

from raybench.cli.console import Terminal
from raybench.datasets import DataSet


def fetch_with_progress(dataset: DataSet, root: Path, console: Console | None = None) -> None:
    """Fetch a data set, showing a progress bar or, without a terminal, one line.

    Args:
        dataset: the data set.
        root: the folder of the data sets.
        console: where to show it, by default standard error.

    Raises:
        DataError: it cannot be fetched.
    """
    from raybench.datasets.fetch import fetch

    console = console or Terminal(stderr=True)
    if not console.is_terminal:
        console.print(f"Downloading {dataset.name} to {root} …", soft_wrap=True)
        fetch(dataset, root)
        return
    columns = (TextColumn(f"Downloading {dataset.name}"), BarColumn(), DownloadColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console, transient=True) as bar:
        task = bar.add_task(dataset.name, total=None)
        fetch(dataset, root, lambda done, total: bar.update(task, completed=done, total=total))


@contextmanager
def reading(text: str) -> Iterator[Callable[[int, int], None]]:
    """Yield a callback for the bytes read and the total.

    A terminal then shows a progress bar.
    """
    console = Terminal(stderr=True)
    columns = (TextColumn("{task.description}", markup=False), BarColumn(), DownloadColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as bar:
        task = bar.add_task(text, total=None, visible=False)
        yield lambda done, total: bar.update(task, completed=done, total=total, visible=True)


@contextmanager
def working() -> Iterator[Callable[[str], None]]:
    """Yield a callback that shows the current step.

    On a terminal it is a temporary line with the elapsed time.
    """
    console = Terminal(stderr=True)
    if not console.is_terminal:
        yield lambda text: console.print(text, soft_wrap=True)
        return
    columns = (SpinnerColumn(), TextColumn("{task.description}", markup=False), TimeElapsedColumn())
    with Progress(*columns, console=console, transient=True) as bar:
        task = bar.add_task("Starting", total=None)
        yield lambda text: bar.reset(task, description=text)
