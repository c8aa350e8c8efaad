"""Load results from any supported source."""

from __future__ import annotations

import gc
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from raybench.core.secret_masking import redact
from raybench.datasets.paths import user_path
from raybench.errors import UsageError, nearest
from raybench.tracking.store import is_uri

if TYPE_CHECKING:
    from raybench.sources.result_tables import GridSource, Record

Attempts = Literal["latest", "all"]


def load_grids(
    source: str | Path | Sequence[str | Path], grid: str | None = None, attempts: Attempts = "latest"
) -> list[GridSource]:
    """Load the grids of one or several sources.

    Args:
        source: see `raybench.load`.
        grid: load only this grid; by default all.
        attempts: the attempts at each trial: "latest" or "all".

    Raises:
        UsageError: there is no such source, or its content is invalid; the message gives the place and the reason.
        StoreError: the MLflow store cannot be reached or used.
    """
    if attempts not in ("latest", "all"):
        raise UsageError(f"attempts: {nearest(str(attempts), ('latest', 'all'))}")
    with without_garbage_collection():
        sources = [str(source)] if isinstance(source, (str, Path)) else list(map(str, source))
        grids = _of_grid(_union_of(sources, grid), grid, sources)
        return [replace(each, records=_chosen(each.records, attempts)) for each in grids]


def records(source: str | Path, grid: str | None = None, attempts: Attempts = "latest") -> list[Record]:
    """Load results as records, from which the tables are made."""
    return [record for each in load_grids(source, grid, attempts) for record in each.records]


@contextmanager
def without_garbage_collection() -> Iterator[None]:
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


def _of_grid(grids: list[GridSource], grid: str | None, sources: Sequence[str]) -> list[GridSource]:
    """Return the requested grid.

    Raises:
        UsageError: the source does not have it.
    """
    if grid is None:
        return grids
    found = [
        replace(each, records=[record for record in each.records if grid in (record.attempt.grid, record.grid)])
        for each in grids
    ]
    found = [each for each in found if each.records]
    if not found:
        names = {each.name or "" for each in grids or _union_of(sources, None)}
        source = ", ".join(map(redact, sources))
        raise UsageError(
            f"{source}: no results of a grid {grid}" + (f"; {nearest(grid, sorted(names))}" if names else "")
        )
    return found


def _chosen(records: Sequence[Record], attempts: Attempts) -> list[Record]:
    """Return the requested attempts of each trial of each grid.

    These are all attempts or the latest one of each machine (see `load`).
    """
    if attempts == "all":
        return list(records)
    from raybench.results.union import latest_of_machines

    by_grid: dict[str | None, dict[int, Record]] = {}
    for record in records:
        by_grid.setdefault(record.attempt.grid or record.grid, {})[id(record.attempt)] = record
    return [
        by_attempt[id(attempt)]
        for by_attempt in by_grid.values()
        for attempt in latest_of_machines(record.attempt for record in by_attempt.values())
    ]


def _union_of(sources: Sequence[str], grid: str | None) -> list[GridSource]:
    """Return the grids of sources; those with a journal are united by grid.

    Raises:
        UsageError: there is no source, or two have the same attempt with other content.
    """
    if not sources:
        raise UsageError("load: there is no source; name at least one")
    if len(sources) == 1:
        return _grids(sources[0], grid)
    from raybench.sources.union import grids_of, load_union

    tables = [each for each in sources if user_path(each).suffix == ".csv"]
    parts = [part for each in sources if each not in tables for part in grids_of(each)]
    names = dict.fromkeys(part.grid for part in parts)
    grids = [load_union([part for part in parts if part.grid == name]) for name in names]
    return [*grids, *(each for source in tables for each in _grids(source, grid))]


def _grids(source: str, grid: str | None) -> list[GridSource]:
    from raybench.results.bundle import is_bundle, read_bundle
    from raybench.sources import epochs_csv, journal, mlflow_store

    path = user_path(source)
    if is_bundle(path):
        from raybench.sources.union import load_union

        return [load_union([read_bundle(path).events])]
    try:
        if not is_uri(source) and path.is_dir():
            return journal.load_folder(path, grid)
        if mlflow_store.is_store(source):
            return mlflow_store.load_store(mlflow_store.store_of(source, path), grid)
        if path.is_file():
            if path.suffix == ".csv":
                return _by_grid(epochs_csv.load_csv(path))
            return [journal.load_journal(path)]
    except OSError as error:
        raise UsageError(f"{source}: cannot be read: {error.strerror or error}") from None
    raise UsageError(f"{source}: {'is not a regular file' if path.exists() else 'there is no such file or folder'}")


def _by_grid(records: Sequence[Record]) -> list[GridSource]:
    """Return the grids of a source without journals."""
    from raybench.sources.result_tables import GridSource

    grids: dict[str | None, list[Record]] = {}
    for record in records:
        grids.setdefault(record.attempt.grid or record.grid, []).append(record)
    return [GridSource(name, own_records) for name, own_records in grids.items()]
