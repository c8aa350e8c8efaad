"""A results folder, a grid's folder or a journal, as records."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from raybench.analysis.results import attempts
from raybench.analysis.tables import Record
from raybench.errors import UsageError
from raybench.tracking.executions import FOLDER
from raybench.tracking.journal import JOURNAL, read
from raybench.tracking.projection import EFFECTIVE


def of_folder(folder: Path, grid: str | None) -> list[Record]:
    """Every trial of a grid's own folder, or of all grids of a results folder, or of the one that is asked for.

    Raises:
        UsageError: there is no journal in it.
        OSError: a journal cannot be read.
    """
    if (folder / JOURNAL).is_file():
        return of_journal(folder / JOURNAL)
    found = {path.parent.name: path for path in sorted(folder.glob(f"*/{JOURNAL}"))}
    if not found:
        raise UsageError(f"{folder}: no {JOURNAL} in it, nor in a folder in it: no results of raybench")
    chosen = [found[grid]] if grid in found else list(found.values())
    return [record for path in chosen for record in of_journal(path)]


def of_journal(path: Path) -> list[Record]:
    """Every attempt that a journal tells of, with the price of its device where an execution beside it says one.

    Raises:
        UsageError: nothing in it is an event.
        OSError: it cannot be read.
    """
    damaged: list[int] = []
    name = path.absolute().parent.name
    told = attempts(read(path, damaged)).values()
    if not told and damaged:
        raise UsageError(f"{path}:{damaged[0]}: no event of a journal, which is one JSON object a line")
    cost = prices(_effective(path.parent))
    return [
        Record(attempt, name, {"price_per_hour": cost[attempt.profile]} if attempt.profile in cost else {})
        for attempt in told
    ]


def _effective(folder: Path) -> Any:
    """The grid of the last execution; None where there was none, or it cannot be read."""
    files = sorted((folder / FOLDER).glob(f"*/{EFFECTIVE}"))
    try:
        return json.loads(files[-1].read_text(encoding="utf-8")) if files else None
    except (OSError, ValueError):
        return None


def prices(grid: Any) -> dict[str | None, float]:
    """What an hour of each device of an effective grid costs, where it says so."""
    devices = grid.get("devices") if isinstance(grid, Mapping) else None
    found: dict[str | None, float] = {}
    for name, profile in (devices if isinstance(devices, Mapping) else {}).items():
        price = profile.get("price_per_hour") if isinstance(profile, Mapping) else None
        if isinstance(price, (int, float)):
            found[name] = float(price)
    return found
