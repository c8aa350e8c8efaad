"""Load results from any supported source as tidy tables (`raybench.results.columns`)."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from raybench.core.secret_masking import redact
from raybench.datasets.paths import user_path
from raybench.errors import UsageError, nearest
from raybench.tracking.store import is_uri

if TYPE_CHECKING:
    from raybench.sources.published_results import Publication
    from raybench.sources.result_tables import Record, Results

Attempts = Literal["latest", "all"]


def load(source: str | Path, grid: str | None = None, attempts: Attempts = "latest") -> Results:
    """Load results as two tables, one of trials and one of epochs.

    `trials` has one row per trial and `epochs` one per epoch; `columns` describes their columns.

    Args:
        source: a results folder, or a grid's own folder in it; a journal (`….jsonl`); an MLflow store, as its URI or as
            its database's file (`….db`); `published:NAME`, a published result that raybench ships (`published()`), or a
            file of the user's in the same format (`….yaml`); a CSV of epochs (`….csv`, see
            `raybench.sources.epochs_csv`).
        grid: load only this grid, which is the experiment's name in MLflow; by default all grids.
        attempts: `latest`, the last attempt of each trial that ended by itself (the last of all if none did), or `all`;
            if several users ran the same trial on one store, `latest` is one of theirs.

    Raises:
        UsageError: there is no such source, or its content is invalid; the message gives the place and the reason.
        StoreError: the MLflow store cannot be reached or used.
    """
    from raybench.sources.result_tables import tables

    with _without_garbage_collection():
        return tables(records(source, grid, attempts))


def records(source: str | Path, grid: str | None = None, attempts: Attempts = "latest") -> list[Record]:
    """Load results as records, from which the tables are made."""
    if attempts not in ("latest", "all"):
        raise UsageError(f"attempts: {nearest(str(attempts), ('latest', 'all'))}")
    return _chosen(_of_grid(_records(str(source), grid), grid, str(source)), attempts)


def published() -> dict[str, Publication]:
    """Return all published results that raybench ships, by name.

    The names are those of `load("published:NAME")`. Each describes the source, its protocol, its timing rule and its
    caveats.
    """
    from raybench.sources import published_results as publications

    return publications.published()


@contextmanager
def _without_garbage_collection() -> Iterator[None]:
    """Disable garbage collection.

    The search for cycles among millions of new objects, none of which is in a cycle, takes a quarter of the time.
    """
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


def _of_grid(records: list[Record], grid: str | None, source: str) -> list[Record]:
    """Return the records of the requested grid.

    Raises:
        UsageError: there are none.
    """
    grid_records = [record for record in records if grid is None or grid in (record.attempt.grid, record.grid)]
    if grid is not None and not grid_records:
        grids = {record.grid or record.attempt.grid or "" for record in records or _records(source, None)}
        raise UsageError(
            f"{redact(source)}: no results of a grid {grid}" + (f"; {nearest(grid, sorted(grids))}" if grids else "")
        )
    return grid_records


def _chosen(records: list[Record], attempts: Attempts) -> list[Record]:
    """Return the requested attempts of each trial of each grid.

    These are all attempts or the latest one (see `load`).
    """
    if attempts == "all":
        return records
    from raybench.results.attempt import precedence

    last: dict[tuple[str | None, str], Record] = {}
    for record in records:
        key = (record.attempt.grid or record.grid, record.attempt.trial)
        if key not in last or precedence(record.attempt) > precedence(last[key].attempt):
            last[key] = record
    return list(last.values())


def _records(source: str, grid: str | None) -> list[Record]:
    from raybench.sources import epochs_csv, journal, mlflow_store
    from raybench.sources import published_results as publications

    if source.startswith(publications.PREFIX):
        name = source.removeprefix(publications.PREFIX)
        return publications.load_named(name).records(name)
    path = user_path(source)
    try:
        if not is_uri(source) and path.is_dir():
            return journal.load_folder(path, grid)
        if mlflow_store.is_store(source):
            return mlflow_store.load_store(mlflow_store.store_of(source, path), grid)
        if path.is_file():
            match path.suffix:
                case ".yaml" | ".yml":
                    return publications.load_file(path).records(path.stem)
                case ".csv":
                    return epochs_csv.load_csv(path)
            return journal.load_journal(path)
    except OSError as error:
        raise UsageError(f"{source}: cannot be read: {error.strerror or error}") from None
    raise UsageError(f"{source}: {'is not a regular file' if path.exists() else 'there is no such file or folder'}")
