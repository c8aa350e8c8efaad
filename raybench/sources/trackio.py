"""The database of a project of Trackio: its runs with their configurations, one log each.

Trackio dates what it writes together, every half second. So the steps of a run have equal parts of its time, those of
the first batch are not timed, and neither are short runs.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Sequence
from contextlib import closing
from datetime import datetime
from itertools import groupby
from pathlib import Path
from typing import Any
from urllib.parse import quote

from raybench.core.settings import PARAM
from raybench.errors import FileError, Problem
from raybench.sources.rows import Log
from raybench.sources.table import history

SUFFIX = ".db"

LEAST_S = 50.0
"""Seconds from which the half second by which a run may be longer or shorter is 1%; a shorter one has no times."""


def is_trackio(path: Path) -> bool:
    """Return whether a file is a database of Trackio."""
    if path.suffix != SUFFIX or not path.is_file():
        return False
    try:
        return {"run_name", "step", "metrics"} <= {name for _, name, *_ in _rows(path, "PRAGMA table_info(metrics)")}
    except sqlite3.DatabaseError:
        return False


def read(path: Path) -> list[Log]:
    """Read the runs of a project, each with the values of its configuration.

    Raises:
        FileError: it is damaged, or has no run.
    """
    try:
        tables = {name for (name,) in _rows(path, "SELECT name FROM sqlite_master")}
        rows = _rows(path, "SELECT run_name, timestamp, step, metrics, id FROM metrics ORDER BY run_name, step, id")
        configs = dict(_rows(path, "SELECT run_name, config FROM configs")) if "configs" in tables else {}
        logs = [_log(path, name, list(entries)) for name, entries in groupby(rows, key=lambda row: str(row[0]))]
        for log in logs:
            name = log.values["trial"]
            settings = _plain(configs.get(name) or "{}", f"config of run {name}")
            log.values |= {f"{PARAM}{key}": value for key, value in settings.items() if not key.startswith("_")}
            log.values |= {"seed": seed} if isinstance(seed := log.values.pop(f"{PARAM}seed", None), int) else {}
    except (sqlite3.DatabaseError, ValueError) as error:
        raise FileError([Problem(str(path), 0, 0, "", f"not a database of Trackio, or damaged: {error}")]) from None
    if not logs:
        raise FileError([Problem(str(path), 0, 0, "", "no run in it")])
    return logs


def _rows(path: Path, query: str) -> list[tuple[Any, ...]]:
    with closing(sqlite3.connect(f"file:{quote(str(path))}?mode=ro", uri=True)) as database:
        return database.execute(query).fetchall()


def _log(path: Path, name: str, rows: Sequence[tuple[Any, ...]]) -> Log:
    values = [_plain(metrics, f"row {number} of metrics") for *_, metrics, number in rows]
    keys = dict.fromkeys(key for metrics in values for key in metrics)
    columns = {key: [str(metrics.get(key, "")) for metrics in values] for key in keys}
    steps, dates = [step for _, _, step, *_ in rows], [_seconds(date, number) for _, date, *_, number in rows]
    if dates[-1] - dates[0] >= LEAST_S:
        first = dates.count(dates[0])
        steps[:first] = [steps[first - 1]] * first  # one row, as the begin of its steps is not known
        part_s = (dates[-1] - dates[0]) / (len(rows) - first)
        columns["_timestamp"] = [repr(dates[0] + part_s * max(0, row + 1 - first)) for row in range(len(rows))]
    log = history(path, {"_step": list(map(str, steps)), **columns})
    log.values["trial"] = name
    return log


def _plain(text: str | bytes, place: str) -> dict[str, Any]:
    try:
        pairs = json.loads(text).items()
    except (ValueError, TypeError, AttributeError):
        raise ValueError(f"{place}: {text!r:.60} is not a JSON object") from None
    return {str(key): value for key, value in pairs if isinstance(value, (str, int, float))}


def _seconds(date: Any, number: int) -> float:
    try:
        return datetime.fromisoformat(date).timestamp()
    except (ValueError, TypeError, OverflowError):
        raise ValueError(f"row {number} of metrics: {date!r:.60} is not a date and time") from None
