"""Progress of downloads, with and without a terminal."""

from __future__ import annotations

from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn

from raybench.cli.console import Terminal
from raybench.datasets import DataSet


def fetch_with_progress(dataset: DataSet, root: Path, console: Console | None = None) -> None:
    """Fetch a data set, showing a progress bar or, without a terminal, one line."""
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
