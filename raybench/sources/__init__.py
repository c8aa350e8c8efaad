"""Load results from any supported source."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path
from typing import Literal

from raybench.core.secret_masking import redact
from raybench.datasets.paths import user_path
from raybench.errors import UsageError, nearest
from raybench.results.folder import grids_in, has_results
from raybench.results.grid_request import GridRequest, latest_request
from raybench.results.history import GridHistory
from raybench.results.machines import as_requested
from raybench.results.run_table import Run, latest
from raybench.sources.logs import is_log, load_logs
from raybench.sources.rows import Repeats
from raybench.sources.table import read_csv
from raybench.tracking.store import downloaded, is_store, store_from_uri

TWO_SCRIPTS = "raybench run -- python OLD.py --vs python NEW.py"  # how to compare two scripts, for messages

Attempts = Literal["latest", "all"]


@dataclass(frozen=True)
class GridSource:
    """The results of one grid in a source.

    Attributes:
        name: the grid's name; None if the source does not name it.
        runs: every attempt.
        history: what its files say; None if the source is a table, such as a CSV file.
        request: the request of the grid's last execution, if it was recorded.
        sources: the files, folders and stores that it was read from.
        is_folder: whether it is a folder of results, to which the same command adds what is missing.
    """

    name: str | None
    runs: Sequence[Run]
    history: GridHistory | None = None
    request: GridRequest | None = None
    is_folder: bool = False
    sources: Sequence[str] = ()

    @property
    def warnings(self) -> list[str]:
        """What was left out of it, or is damaged."""
        if self.history:
            return self.history.warnings
        return list(dict.fromkeys(chain.from_iterable(run.warnings for run in self.runs)))


def load_grids(
    source: str | Path | Sequence[str | Path],
    grid: str | None = None,
    attempts: Attempts = "latest",
    axis: Mapping[str, str] | Sequence[str] = (),
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
    axes = dict(axis) if isinstance(axis, Mapping) else dict(text.partition("=")[::2] for text in axis)
    table_runs: list[Run] = []
    repeats: Repeats = {}
    folders: dict[str, list[Path]] = {}
    with ExitStack() as stack:
        for place in sources:
            try:
                path = user_path(place)
                if path.suffix.lower() == ".csv" and path.is_file():
                    table_runs += read_csv(path).load(repeats)
                elif not has_results(path) and not grids_in(path) and _is_log(path):
                    table_runs += load_logs(path, axes, repeats)
                else:
                    for folder in _folders(place, grid, stack):
                        folders.setdefault(folder.resolve().name, []).append(folder)
            except OSError as error:
                raise UsageError(f"{redact(place)}: cannot be read: {error.strerror or error}") from None
        grids = _by_grid(table_runs) + [of_history(name, GridHistory.read(*parts)) for name, parts in folders.items()]
    if folders and all(user_path(place).is_dir() for place in sources):
        grids = [replace(loaded, is_folder=True) for loaded in grids]
    if grid is not None:
        names = [loaded.name for loaded in grids if loaded.name]
        grids = [loaded for loaded in grids if loaded.name == grid]
        if not grids:
            where = ", ".join(map(redact, sources))
            raise UsageError(f"{where}: no results of a grid {grid}" + (f"; {nearest(grid, names)}" if names else ""))
    if attempts == "latest":
        return [replace(loaded, runs=list(latest(loaded.runs).values())) for loaded in grids]
    return grids


def of_history(name: str, history: GridHistory) -> GridSource:
    """Return the results of a grid that are in files, with prices and requests if known."""
    runs, request = as_requested(history, latest_request(history))
    priced = [] if request is None else [cell for cell in request.cells if cell.price_per_hour is not None]
    # Those that were not requested have the price of their device.
    prices = {key: cell.price_per_hour for cell in priced for key in (cell.axes.get("device"), cell.cell_id)}
    requested = {cell.cell_id for cell in request.cells} if request else None
    rows = [
        run.changed(
            grid=run.grid or name,
            current=None if requested is None else run.cell_id in requested,
            price_per_hour=prices.get(run.cell_id, prices.get(run.profile)),
        )
        for run in runs
    ]
    return GridSource(name, rows, history, request)


def _folders(source: str, grid: str | None, stack: ExitStack) -> list[Path]:
    """The folders of grids of a source; those of an archive or a store are temporary."""
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


def _is_log(path: Path) -> bool:
    """Return whether a path is a log of others, or a folder with some."""
    return any(map(is_log, path.rglob("*"))) if path.is_dir() else path.is_file() and is_log(path)


def _by_grid(runs: Sequence[Run]) -> list[GridSource]:
    grids: dict[str | None, list[Run]] = {}
    for run in runs:
        grids.setdefault(run.grid, []).append(run)
    return [GridSource(name, runs_of_grid) for name, runs_of_grid in grids.items()]
