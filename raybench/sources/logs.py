"""Logs of others: each file is a run, and what differs between the names of files is an axis."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path

from raybench.core.settings import PARAM
from raybench.errors import UsageError
from raybench.results.run_table import Run
from raybench.sources import epochs_csv, mlperf, program_log, tensorboard, trainer_state
from raybench.sources.rows import NoLog, Repeats, Table

TEXTS = frozenset({".txt", ".log", ".out", ".err", ""})
"""Endings of the names of files that a program's output is kept in."""

_REPEATED = re.compile(
    r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f-]{22}|[0-9a-f]{12,}|\d{4}-\d\d-\d\d|\d{6,}|(?<![^/])\d+(?![^/])"
    r"|(?<![a-z])(?:version|result|seed|run|repeat|rep|trial|try|rank|s|r)[-_=]?\d+(?![\w.])",
    re.IGNORECASE,
)
"""Parts of the name of a file that tell repeats apart: ids, dates, seeds, and numbers alone."""


def is_log(path: Path) -> bool:
    """Return whether a file, or one in a folder, may be a log that this module reads."""
    if path.is_dir():
        return any(is_log(file) for file in path.rglob("*") if not file.is_dir())
    if path.name.startswith(tensorboard.PREFIX) or path.name == trainer_state.NAME:
        return True
    if path.suffix.lower() not in {*TEXTS, ".csv"} or path.name.startswith(".") or not path.is_file():
        return False
    with path.open("rb") as file:
        return b"\0" not in file.read(1 << 14)


def load_logs(sources: Sequence[Path], axes: Mapping[str, str], known: Repeats) -> list[Run]:
    """Load the runs of logs, and of all logs in folders.

    Args:
        axes: regular expressions by the name of an axis, whose first group is its value, in the path or the text.
        known: the repeats in other files; those of these are added.

    Raises:
        FileError: a file is damaged. In a folder, one without lines that count steps is left out, with a warning.
        UsageError: no file of a folder is a log, or a run has no value on an axis.
    """
    tables: list[Table] = []
    left_out: list[str] = []
    for path in (file for source in sources for file in _files(source)):
        try:
            tables.append(_read(path))
        except NoLog:
            if path in sources:
                raise
            left_out.append(str(path))
    for source in sources:
        if not any(table.path.is_relative_to(source) for table in tables):
            raise UsageError(f"{source}: no log in it: {len(left_out)} files have no line that counts epochs or steps")
    names = _names([table.path for table in tables])
    stems = [
        "/".join(filter(None, (part.strip("-_. ") for part in _REPEATED.sub("", name).split("/")))) for name in names
    ]
    is_axis = not axes and len({*stems}) > 1 and not all("device" in table.columns for table in tables)
    grid = sources[0].stem if len(sources) == 1 else "logs"
    runs: list[Run] = []
    for table, name, stem in zip(tables, names, stems, strict=True):
        values = {"log": stem or name} if is_axis else {axis: _value(table, name, axes[axis], axis) for axis in axes}
        own = {} if "trial" in table.columns else {"trial": name}
        table.add(own | {f"{PARAM}{axis}": value for axis, value in values.items()})
        runs += table.load(known, grid)
    if left_out:
        listed = ", ".join(left_out[:3])
        runs[0].warnings = [*runs[0].warnings, f"{len(left_out)} files that count no epochs or steps: {listed}"]
    return runs


def _files(source: Path) -> list[Path]:
    """Return the log of each run in a source; event files of TensorBoard as their folder."""
    files = (
        [file for file in sorted(source.rglob("*")) if file.is_file() and is_log(file)] if source.is_dir() else [source]
    )
    events = dict.fromkeys(file.parent for file in files if file.name.startswith(tensorboard.PREFIX) and file != source)
    states = trainer_state.last_states(file for file in files if file.name == trainer_state.NAME)
    return [
        *(file for file in files if file.name != trainer_state.NAME and file.parent not in events),
        *states,
        *events,
    ]


def _read(path: Path) -> Table:
    if path.is_dir() or path.name.startswith(tensorboard.PREFIX):
        return tensorboard.read(path)
    if path.name == trainer_state.NAME:
        return trainer_state.read(path)
    if path.suffix.lower() == ".csv":
        return epochs_csv.read_csv(path)
    with path.open(encoding="utf-8", errors="replace") as file:
        is_mlperf = any(map(mlperf.MARK.match, file))
    return mlperf.read(path) if is_mlperf else program_log.read(path)


def _names(paths: Sequence[Path]) -> list[str]:
    """Return the path of each run below the folder that all are in, without endings."""
    runs = [path.parent if path.name == trainer_state.NAME else path for path in paths]
    runs = [path if path.is_dir() else path.with_suffix("") for path in map(Path.absolute, runs)]
    root = os.path.commonpath([path.parent for path in runs])
    return [path.relative_to(root).as_posix() for path in runs]


def _value(table: Table, name: str, pattern: str, axis: str) -> str | float:
    """Return the value of a run on an axis."""
    match = re.search(pattern, name) or re.search(pattern, table.text)
    if match is None:
        raise UsageError(f"--axis {axis}: {pattern!r} is neither in the name nor in the text of {table.path}")
    text = match[1] if match.re.groups else match[0]
    value: str | float = epochs_csv.value_of(f"{PARAM}{axis}", text)
    return value
