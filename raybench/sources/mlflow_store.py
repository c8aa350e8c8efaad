"""Load the results in an MLflow store."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from raybench.tracking.store import Store, is_uri, redacted_errors, store_from_uri

DATABASES = (".db", ".sqlite")
"""Suffixes of files that are MLflow stores."""


def is_store(source: str) -> bool:
    """Return whether a source is an MLflow store: a URI or a database file."""
    return is_uri(source) or Path(source).suffix in DATABASES


def store_of(source: str, path: Path) -> Store:
    """Return the store of a source (`is_store`): a URI, or the path of a database's file."""
    return store_from_uri(source if is_uri(source) else f"sqlite:///{path.as_posix()}")


@contextmanager
def downloaded(store: Store, grid: str | None = None) -> Iterator[tuple[list[Path], int]]:
    """Download the grids of a store; yield their folders, which are temporary, and the number of runs left out.

    Raises:
        UsageError: it has no results of raybench, or none of the grid.
        StoreError: it cannot be reached, or is not an MLflow store.
    """
    with redacted_errors(store):
        from raybench.tracking.mlflow import download
    with TemporaryDirectory(prefix="raybench-") as folder:
        yield download(store, Path(folder), grid)
