"""Load the journals of an MLflow store as records.

They are copied to a temporary folder with the layout of a results folder.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from raybench.errors import UsageError, nearest
from raybench.results.executions import FOLDER, REQUEST, folder_of
from raybench.results.journal import JOURNAL
from raybench.sources.journal import load_journal
from raybench.sources.result_tables import GridSource
from raybench.tracking.journal_parts import merged
from raybench.tracking.store import Store, StoreError, is_uri, redacted_errors, store_from_uri

log = logging.getLogger("raybench")

DATABASES = (".db", ".sqlite")
"""Suffixes of files that are MLflow stores."""

Progress = Callable[[int, int], None]


@dataclass(frozen=True)
class StoredJournal:
    """A grid's journal from a store.

    Attributes:
        grid: the experiment's name.
        path: a temporary copy, with the files of the last execution in their folder.
        problems: a line for each part that is damaged or missing.
    """

    grid: str
    path: Path
    problems: tuple[str, ...]


def is_store(source: str) -> bool:
    """Return whether a source is an MLflow store.

    It is if it is a URI or a database file.
    """
    return is_uri(source) or Path(source).suffix in DATABASES


def store_of(source: str, path: Path) -> Store:
    """Return the store of a source (`is_store`).

    Args:
        source: a URI or a database file.
        path: the file, if the source is not a URI.
    """
    return store_from_uri(source if is_uri(source) else f"sqlite:///{path.as_posix()}")


def load_store(store: Store, grid: str | None) -> list[GridSource]:
    """Load the journals of a store.

    Raises:
        UsageError: it has no results of raybench, or none of the grid.
        StoreError: it cannot be reached, or is not an MLflow store.
    """
    with journals_of(store, grid) as journals:
        for each in journals:
            for problem in each.problems:
                log.warning("%s", problem)
        return [load_journal(each.path, each.grid, f"{store}: {each.grid}", each.problems) for each in journals]


@contextmanager
def journals_of(store: Store, grid: str | None, progress: Progress | None = None) -> Iterator[list[StoredJournal]]:
    """Context manager with the journals of one or all grids.

    Journals of several results folders of a grid are merged.

    Args:
        store: the MLflow store.
        grid: its name; None for all.
        progress: callback with the bytes fetched and the total bytes of the grid that is being fetched.

    Raises:
        UsageError: it has no results of raybench, or none of the grid.
        StoreError: it cannot be reached, or is not an MLflow store.
    """
    with redacted_errors(store):
        from raybench.tracking.mlflow import grids_of, read_grid

    runs = grids_of(store)
    if not runs:
        raise UsageError(f"{store}: no results of raybench in it; `raybench sync` adds the journal of a results folder")
    if grid is not None and grid not in runs:
        raise UsageError(f"{store}: no results of a grid {grid}; {nearest(grid, sorted(runs))}")
    with TemporaryDirectory(prefix="raybench-") as folder:
        journals = []
        for number, name in enumerate(runs if grid is None else [grid]):
            stored = read_grid(store, name, runs[name], REQUEST, progress)
            grid_folder = Path(folder) / str(number)
            for execution, files in stored.files.items():
                execution_folder = grid_folder / FOLDER / folder_of(execution)
                execution_folder.mkdir(parents=True)
                for file, content in files.items():
                    (execution_folder / file).write_bytes(content)
            grid_folder.mkdir(exist_ok=True)
            (grid_folder / JOURNAL).write_bytes(merged([each.text for each in stored.journals.values()]))
            damaged, missing = (
                sum(getattr(each, field) for each in stored.journals.values()) for field in ("damaged", "missing")
            )
            problems = _problems(f"{store}: the journal of {name}", damaged, missing)
            journals.append(StoredJournal(name, grid_folder / JOURNAL, problems))
        if not any(each.path.stat().st_size for each in journals):
            all_problems = [problem for each in journals for problem in each.problems]
            raise StoreError(all_problems[0] if all_problems else f"{store}: no line of a journal in it yet")
        yield journals


def _problems(name: str, damaged: int, missing: int) -> tuple[str, ...]:
    problems = []
    if damaged:
        parts = "1 part is" if damaged == 1 else f"{damaged} parts are"
        problems.append(f"{name}: {parts} damaged; the lines that can be read are used")
    if missing:
        problems.append(f"{name}: {missing:,} bytes are missing; `raybench sync` adds them from the results folder")
    return tuple(problems)
