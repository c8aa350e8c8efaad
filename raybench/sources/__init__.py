"""Load results from any supported source."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Literal

from raybench.core.secret_masking import redact
from raybench.datasets.paths import user_path
from raybench.errors import UsageError, nearest
from raybench.results.attempt import latest
from raybench.results.folder import grids_in, has_results
from raybench.results.grid_request import latest_request
from raybench.results.history import GridHistory
from raybench.results.machines import as_requested
from raybench.sources import epochs_csv
from raybench.sources.result_tables import GridSource, Record, prices
from raybench.tracking.store import downloaded, is_store, store_from_uri

TWO_SCRIPTS = "raybench run -- python OLD.py --vs python NEW.py"
"""How to compare two scripts, for messages."""

Attempts = Literal["latest", "all"]


def load_grids(
    source: str | Path | Sequence[str | Path],
    grid: str | None = None,
    attempts: Attempts = "latest",
) -> list[GridSource]:
    """Load the grids of one or several sources; results of one grid in several sources are those of one grid.

    The arguments are those of `raybench.load`.

    Raises:
        UsageError: there is no such source, or its content is invalid; the message gives the place and the reason.
        StoreError: the MLflow store cannot be reached or used.
    """
    if attempts not in ("latest", "all"):
        raise UsageError(f"attempts: {nearest(str(attempts), ('latest', 'all'))}")
    sources = [str(source)] if isinstance(source, (str, Path)) else list(map(str, source))
    if not sources:
        raise UsageError("load: there is no source; name at least one")
    listed: list[Record] = []
    repeats: epochs_csv.Repeats = {}
    folders: dict[str, list[Path]] = {}
    with ExitStack() as stack:
        for each in sources:
            try:
                if user_path(each).suffix.lower() == ".csv" and user_path(each).is_file():
                    listed += epochs_csv.load_csv(user_path(each), repeats)
                    continue
                for folder in _folders(each, grid, stack):
                    folders.setdefault(folder.resolve().name, []).append(folder)
            except OSError as error:
                raise UsageError(f"{redact(each)}: cannot be read: {error.strerror or error}") from None
        grids = _by_grid(listed) + [of_history(name, GridHistory.read(*parts)) for name, parts in folders.items()]
    if grid is not None:
        known = [each.name for each in grids if each.name]
        grids = [each for each in grids if each.name == grid]
        if not grids:
            where = ", ".join(map(redact, sources))
            raise UsageError(f"{where}: no results of a grid {grid}" + (f"; {nearest(grid, known)}" if known else ""))
    if attempts == "latest":
        return [replace(each, records=_latest(each.records)) for each in grids]
    return grids


def of_history(name: str, history: GridHistory) -> GridSource:
    """Return the results of a grid that are in files, with prices and requests if known."""
    attempts, request = as_requested(history, latest_request(history))
    if request is None:
        return GridSource(name, [Record(attempt, name) for attempt in attempts], history)
    priced, current = prices(request.cells), {cell.cell_id for cell in request.cells}
    records = [
        Record(
            attempt,
            name,
            {
                "current": attempt.cell_id in current,
                "price_per_hour": priced.get(attempt.cell_id, priced.get(attempt.profile)),
            },
        )
        for attempt in attempts
    ]
    return GridSource(name, records, history, request)


def _folders(source: str, grid: str | None, stack: ExitStack) -> list[Path]:
    """The folders of grids of a source; those of an archive or a store are temporary.

    Raises:
        UsageError: it is not such a source.
    """
    path = user_path(source)
    if path.suffix == ".zip" and path.is_file():
        from raybench.results.archive import extracted

        return [stack.enter_context(extracted(path))]
    if is_store(source) and not path.is_dir():
        return stack.enter_context(downloaded(store_from_uri(source), grid))[0]
    if has_results(path):
        return [path]
    names = grids_in(path)
    if names:
        return [path / name for name in names if grid in (name, None)] or [path / name for name in names]
    kind = "no results of raybench in it" if path.is_dir() else "is not a source of results"
    kind += f"; to compare two scripts: {TWO_SCRIPTS}" if path.suffix == ".py" else ""
    raise UsageError(f"{source}: {kind if path.exists() else 'there is no such file or folder'}")


def _latest(found: Sequence[Record]) -> list[Record]:
    by_attempt = {id(record.attempt): record for record in found}
    return [by_attempt[id(attempt)] for attempt in latest(record.attempt for record in found).values()]


def _by_grid(found: Sequence[Record]) -> list[GridSource]:
    """Return the grids of a table."""
    grids: dict[str | None, list[Record]] = {}
    for record in found:
        grids.setdefault(record.attempt.grid or record.grid, []).append(record)
    return [GridSource(name, own_records) for name, own_records in grids.items()]
