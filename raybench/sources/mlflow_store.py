"""The journals of an MLflow store, laid out as in a results folder, and their records."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from raybench.analysis.grid_request import FILE
from raybench.errors import UsageError, nearest
from raybench.results.executions import EFFECTIVE, FOLDER, PLAN, folder_of
from raybench.results.journal import JOURNAL
from raybench.sources.journal import load_journal
from raybench.sources.result_tables import Record
from raybench.tracking.journal_parts import merged
from raybench.tracking.store import Store, StoreError, is_uri, redacted_errors, store_from_uri

log = logging.getLogger("raybench")

DATABASES = (".db", ".sqlite")
"""Suffixes of files that are MLflow stores."""

Progress = Callable[[int, int], None]


@dataclass(frozen=True)
class StoredJournal:
    """The journal of a grid, as a store has it.

    Attributes:
        grid: the experiment's name.
        path: a temporary copy, with the files of the last execution in their folder.
        problems: a line for each thing that is damaged or missing.
    """

    grid: str
    path: Path
    problems: tuple[str, ...]


def is_store(source: str) -> bool:
    """Whether a source is an MLflow store: its URI or its database's file."""
    return is_uri(source) or Path(source).suffix in DATABASES


def store_of(source: str, path: Path) -> Store:
    """The store of a source (`is_store`), of which `path` is the file if it is no URI."""
    return store_from_uri(source if is_uri(source) else f"sqlite:///{path.as_posix()}")


def load_store(store: Store, grid: str | None) -> list[Record]:
    """Every trial in the journals of a store.

    Raises:
        UsageError: it has no results of raybench, or none of the grid.
        StoreError: it cannot be reached, or is no store of MLflow.
    """
    with journals_of(store, grid) as journals:
        for each in journals:
            for problem in each.problems:
                log.warning("%s", problem)
        return [record for each in journals for record in load_journal(each.path, each.grid, f"{store}: {each.grid}")]


@contextmanager
def journals_of(store: Store, grid: str | None, progress: Progress | None = None) -> Iterator[list[StoredJournal]]:
    """The journal of one grid of a store or of all, until the block ends.

    The journals of several results folders of a grid are one.

    Args:
        store: the MLflow store.
        grid: its name; None for all.
        progress: gets the bytes that were fetched and all of the grid that is being fetched.

    Raises:
        UsageError: it has no results of raybench, or none of the grid.
        StoreError: it cannot be reached, or is no store of MLflow.
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
            stored = read_grid(store, name, runs[name], (EFFECTIVE, PLAN, FILE), progress)
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
