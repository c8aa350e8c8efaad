"""Whether MLflow may lack something of a grid: a note says so, from before a driver first writes until all is there.

A driver that was killed leaves it. Where the next one has something to run, its writer makes up for that by the way;
where nothing is left to run, MLflow is loaded for that alone, and only where the note is there.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from raybench.tracking.journal import JOURNAL
from raybench.tracking.store import Store, StoreError, flags

NOTE = ".mlflow-behind"
"""A file in a grid's folder."""


def mark(folder: Path) -> None:
    """Say that the store may lack something of the grid in a folder."""
    with suppress(OSError):  # a full disk: whoever writes the journal says so
        (folder / NOTE).touch()


def clear(folder: Path) -> None:
    """Say that the store has all of it."""
    with suppress(OSError):
        (folder / NOTE).unlink(missing_ok=True)


def catch_up(folder: Path, store: Store, grid: str, warn: Callable[[str], None]) -> None:
    """Bring a store up to a grid's journal, where a driver did not live to do it.

    Args:
        warn: gets the one line about a store that cannot be used.
    """
    if not (folder / NOTE).is_file():
        return
    from raybench.tracking.sync import sync

    try:
        sync(folder / JOURNAL, store, grid)
    except StoreError as error:
        warn(f"{error}. Everything is in the journal: `raybench sync{flags(store, folder.parent)} {grid}` brings it.")
