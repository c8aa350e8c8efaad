"""A results folder, a grid's folder or a journal, as records."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from raybench.errors import UsageError
from raybench.results.attempt import Attempt
from raybench.results.executions import EFFECTIVE, ENDED, PLAN, read_execution
from raybench.results.history import GridHistory
from raybench.results.journal import JOURNAL, grids_in, has_journal
from raybench.sources.result_tables import Record
from raybench.tracking.mapping import read_json, requested_repeats


def load_folder(folder: Path, grid: str | None) -> list[Record]:
    """The trials of a grid's folder, or of one grid or all grids of a results folder.

    Raises:
        UsageError: there is no journal in it.
        OSError: a journal cannot be read.
    """
    if has_journal(folder):
        return load_journal(folder / JOURNAL)
    journals = {name: folder / name / JOURNAL for name in grids_in(folder)}
    if not journals:
        raise UsageError(f"{folder}: no {JOURNAL} in it, nor in a folder in it: no results of raybench")
    paths = [journals[grid]] if grid in journals else list(journals.values())
    return [record for path in paths for record in load_journal(path)]


def load_journal(path: Path, grid: str | None = None, source: str | None = None) -> list[Record]:
    """Every attempt in a journal, with what the last execution beside it says of prices and of what was asked for.

    Args:
        path: the journal.
        grid: the grid's name, where the events do not say it; by default the folder's.
        source: what a message calls the journal; by default its path.

    Raises:
        UsageError: nothing in it is an event, it is no file, or cannot be read.
    """
    name = grid or path.absolute().parent.name
    history = GridHistory.read(path)
    if not history.attempts and history.damaged_lines:
        raise UsageError(
            f"{source or path}:{history.damaged_lines[0]}: no event of a journal, which is one JSON object a line"
        )
    last = LastExecution(_last_files(history))
    return [Record(attempt, name, last.columns(attempt)) for attempt in history.attempts.values()]


def _last_files(history: GridHistory) -> dict[str, Any]:
    """The data that the last execution of a grid left, by file; empty if there is none that can be read."""
    for event in reversed(history.of_kind(ENDED)):
        summary = read_execution(history.folder, event)
        if summary and any(summary.files):
            return {name: read_json(summary.files.get(name)) for name in (EFFECTIVE, PLAN)}
    return {}


class LastExecution:
    """What the files of a grid's last execution say of its trials.

    Args:
        files: from a file's name to its data; empty if there was no execution.
    """

    def __init__(self, files: Mapping[str, Any]) -> None:
        self._prices, self._repeats = prices(files.get(EFFECTIVE)), requested_repeats(files.get(PLAN))

    def columns(self, attempt: Attempt) -> dict[str, Any]:
        """The price of an attempt's device and whether the grid asks for the trial, as far as they are known."""
        values: dict[str, Any] = {}
        if attempt.profile in self._prices:
            values["price_per_hour"] = self._prices[attempt.profile]
        if self._repeats is not None:
            values["requested"] = attempt.repeat < self._repeats.get(attempt.cell_id, 0)
        return values


def prices(grid: Any) -> dict[str | None, float]:
    """What an hour of each device of an effective grid costs, where it says so."""
    devices = grid.get("devices") if isinstance(grid, Mapping) else None
    device_prices: dict[str | None, float] = {}
    for name, profile in (devices if isinstance(devices, Mapping) else {}).items():
        price = profile.get("price_per_hour") if isinstance(profile, Mapping) else None
        if isinstance(price, (int, float)):
            device_prices[name] = float(price)
    return device_prices
