"""Load a results folder, a grid's folder or a journal."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from raybench.analysis.grid_request import latest_request, request_of_all_sources
from raybench.errors import UsageError
from raybench.results.attempt import Attempt
from raybench.results.executions import EFFECTIVE, PLAN
from raybench.results.history import GridHistory
from raybench.results.journal import JOURNAL, grids_in, has_journal
from raybench.sources.result_tables import GridSource, Record
from raybench.tracking.mapping import read_json, requested_repeats


def load_folder(folder: Path, grid: str | None) -> list[GridSource]:
    """Load the grids of a results folder, or the grid of its own folder.

    Args:
        folder: the folder.
        grid: load only this grid of a results folder; None for all.

    Raises:
        UsageError: there is no journal in it.
        OSError: a journal cannot be read.
    """
    if has_journal(folder):
        return [load_journal(folder / JOURNAL)]
    journals = {name: folder / name / JOURNAL for name in grids_in(folder)}
    if not journals:
        raise UsageError(f"{folder}: no {JOURNAL} in it, nor in a folder in it: no results of raybench")
    paths = [journals[grid]] if grid in journals else list(journals.values())
    return list(map(load_journal, paths))


def load_journal(
    path: Path, grid: str | None = None, source: str | None = None, problems: tuple[str, ...] = ()
) -> GridSource:
    """Load every attempt in a journal, with prices and requests if known.

    Prices and requested trials are read from the files of the last execution, next to the journal.

    Args:
        path: the journal.
        grid: the grid's name, if the events do not record it; by default the folder's.
        source: the journal's name in messages; by default its path.
        problems: descriptions of damaged or missing parts.

    Raises:
        UsageError: it contains no events, is not a file, or cannot be read.
    """
    name = grid or path.absolute().parent.name
    history = GridHistory.read(path)
    if not history.attempts and history.damaged_lines:
        raise UsageError(
            f"{source or path}:{history.damaged_lines[0]}: no event of a journal, which is one JSON object a line"
        )
    return of_history(name, history, problems)


def of_history(name: str, history: GridHistory, problems: tuple[str, ...] = ()) -> GridSource:
    """Return the results in a grid's history."""
    last = LastExecutions(_last_files(history))
    records = [Record(attempt, name, last.columns(attempt)) for attempt in history.attempts.values()]
    recorded_name = next((attempt.grid for attempt in history.attempts.values() if attempt.grid), None)
    request = request_of_all_sources(history, latest_request(history))
    return GridSource(recorded_name or name, records, history, request, problems)


def _last_files(history: GridHistory) -> dict[str | None, dict[str, Any]]:
    """Return the data of a grid's last readable execution by file name, for each origin of executions."""
    files: dict[str | None, dict[str, Any]] = {}
    for summary in history.executions():
        if summary.origin not in files and (PLAN in summary.files or EFFECTIVE in summary.files):
            files[summary.origin] = {name: read_json(summary.files.get(name)) for name in (EFFECTIVE, PLAN)}
    return files


class LastExecutions:
    """Data about trials from the files of a grid's last execution.

    Args:
        files: data by file name, for each origin of executions; empty if there was no execution.
    """

    def __init__(self, files: Mapping[str | None, Mapping[str, Any]]) -> None:
        self._prices = {origin: prices(data.get(EFFECTIVE)) for origin, data in files.items()}
        requests = [requested_repeats(data.get(PLAN)) for data in files.values()]
        self._requests = [request for request in requests if request is not None]

    def columns(self, attempt: Attempt) -> dict[str, Any]:
        """Return an attempt's price and whether its trial is requested, if known."""
        values: dict[str, Any] = {}
        device_prices = self._prices.get(attempt.origin) or {}
        if attempt.profile in device_prices:
            values["price_per_hour"] = device_prices[attempt.profile]
        if self._requests:
            values["requested"] = any(attempt.repeat < each.get(attempt.cell_id, 0) for each in self._requests)
        return values


def prices(grid: Any) -> dict[str | None, float]:
    """Return known prices per hour by device of an effective grid."""
    devices = grid.get("devices") if isinstance(grid, Mapping) else None
    device_prices: dict[str | None, float] = {}
    for name, profile in (devices if isinstance(devices, Mapping) else {}).items():
        price = profile.get("price_per_hour") if isinstance(profile, Mapping) else None
        if isinstance(price, (int, float)):
            device_prices[name] = float(price)
    return device_prices
