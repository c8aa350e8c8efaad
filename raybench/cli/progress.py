"""Progress of downloads and of reading, on a terminal and without one."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

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


def fetch_with_progress(dataset: DataSet, root: Path) -> None:
    """Fetch a data set, with a bar where somebody is looking and a line where nobody is.

    Raises:
        DataError: it cannot be had.
    """
    from raybench.datasets.fetch import fetch

    console = Terminal(stderr=True)
    if not console.is_terminal:
        console.print(f"fetching {dataset.name} into {root}", soft_wrap=True)
        fetch(dataset, root)
        return
    columns = (TextColumn(f"fetching {dataset.name}"), BarColumn(), DownloadColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console, transient=True) as bar:
        task = bar.add_task(dataset.name, total=None)
        fetch(dataset, root, lambda done, total: bar.update(task, completed=done, total=total))


@contextmanager
def reading(text: str) -> Iterator[Callable[[int, int], None]]:
    """Yield what takes the bytes that were read and all; a terminal shows a bar once there are any."""
    console = Terminal(stderr=True)
    columns = (TextColumn("{task.description}", markup=False), BarColumn(), DownloadColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as bar:
        task = bar.add_task(text, total=None, visible=False)
        yield lambda done, total: bar.update(task, completed=done, total=total, visible=True)


@contextmanager
def working() -> Iterator[Callable[[str], None]]:
    """Says what is being done now, with the time it takes, until it is done: a line that goes away on a terminal."""
    console = Terminal(stderr=True)
    if not console.is_terminal:
        yield lambda text: console.print(text, soft_wrap=True)
        return
    columns = (SpinnerColumn(), TextColumn("{task.description}", markup=False), TimeElapsedColumn())
    with Progress(*columns, console=console, transient=True) as bar:
        task = bar.add_task("starting", total=None)
        yield lambda text: bar.reset(task, description=text)
