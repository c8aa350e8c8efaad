"""The exceptions of raybench.

RaybenchError
├── UsageError            the input is wrong: exit status 2, one clear message, no traceback
│   ├── FileError         a file of the user: all its problems at once, each with its line
│   │   └── GridFileError     a grid file
│   ├── WorkloadError     a workload that cannot be found or read
│   ├── DataError         a data set that is missing, damaged or cannot be fetched
│   └── ResultsLockedError  another grid is running on the same results folder
├── ExecutionError        the machines or Ray cannot run the trials: exit status 1
├── ResultsError          the results folder or a disk of the trials is full, read-only or missing: exit status 1
└── StoreError            the MLflow store cannot be reached or used (`raybench.tracking.store`): exit status 1
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path, PurePath


def close(name: str, known: Iterable[str]) -> str:
    """The hint with the known name nearest to an unknown one; empty if none is near."""
    near = get_close_matches(name[:100], list(known), 1)
    return f"did you mean {near[0]}?" if near else ""


def nearest(name: str, known: Iterable[str]) -> str:
    """The hint with the nearest known name or, if none is near, all of them."""
    choices = list(known)
    return close(name, choices) or f"use one of {', '.join(choices)}"


def near_file(path: PurePath, folder: Path = Path()) -> str:
    """The hint `; did you mean grids/quickstart.yaml?`; empty if no similar name with its ending is beside it."""
    try:
        names = [entry.name for entry in (folder / path.parent).iterdir() if entry.suffix == path.suffix]
    except OSError:
        return ""
    near = [] if (folder / path).exists() else get_close_matches(path.name, sorted(names), 1)
    return f"; did you mean {path.with_name(near[0])}?" if near else ""


class RaybenchError(Exception):
    """The base of all errors that raybench raises on purpose."""

    exit_status = 1


class UsageError(RaybenchError):
    """The input is wrong; the message says what and how to fix it."""

    exit_status = 2


@dataclass(frozen=True, order=True)
class Problem:
    """A problem of a file, with its place.

    `line` and `column` count from 1; line 0 means the file as a whole.
    """

    file: str
    line: int
    column: int
    where: str
    message: str

    def __str__(self) -> str:
        place = f"{self.file}:{self.line}:{self.column}" if self.line else self.file
        return f"{place}: {self.where}: {self.message}" if self.where else f"{place}: {self.message}"


class FileError(UsageError):
    """A file cannot be used; `problems` holds every reason, in the order of the file.

    The message has the first `shown` of them.
    """

    def __init__(self, problems: Sequence[Problem], shown: int = 50) -> None:
        self.problems = sorted(problems)
        more = len(self.problems) - shown
        lines = [*map(str, self.problems[:shown]), *([f"… and {more:,} more"] if more > 0 else [])]
        super().__init__("\n".join(lines))


class GridFileError(FileError):
    """A grid file cannot be used."""


class WorkloadError(UsageError):
    """A workload cannot be found or its definition cannot be read; `field` is the field of the grid that names it."""

    def __init__(self, message: str, field: str = "workload") -> None:
        super().__init__(message)
        self.field = field


class DataError(UsageError):
    """A data set is missing, damaged, or cannot be fetched."""


class ResultsLockedError(UsageError):
    """Another grid is running on the same results folder."""


class ExecutionError(RaybenchError):
    """The machines or Ray cannot run the trials."""


class ResultsError(RaybenchError):
    """Results can no longer be written: the disk is full or read-only, or the folder is gone."""
