"""What one execution of a grid was asked for, in a file that is written before its first trial."""

from __future__ import annotations

import json
import os
import platform
import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import asdict, dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, Self

import msgspec

from raybench.core.code_state import made_with
from raybench.core.events import now
from raybench.core.files import write_atomic
from raybench.core.identity import digest
from raybench.results.folder import EXECUTIONS, json_object

MILLISECONDS = len("2026-11-21T09-00-00-000")  # characters of the time at the beginning of an execution's name


def as_name(text: str) -> str:
    """Return a text, such as a time, with the characters of a file's name alone."""
    return re.sub(r"[^\w-]+", "-", text)


@dataclass(frozen=True)
class Execution:
    """One execution of a grid.

    Attributes:
        name: its start, host and process: unique, and in the order of time if clocks are right (`in_order`).
        origin: the id of the results folder that it was run for.
        grid: the text of the grid file.
        request: the requested cells, with baseline and target (`raybench.results.grid_request`).
        rerun: whether it runs finished trials again.
        number: from 1, that of its results folder's executions of the grid; 0 if it is not known.
        made_with: its `command`, the `commit` of the folder of its code, and the installed `packages`.
    """

    name: str
    origin: str
    grid: str
    request: Mapping[str, Any]
    rerun: bool = False
    number: int = 0
    made_with: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def begin(
        cls,
        origin: str,
        grid: str,
        request: Mapping[str, Any],
        rerun: bool = False,
        earlier: Iterable[Self] = (),
        folder: str = "",
    ) -> Self:
        """Return the execution that this process begins now, after earlier ones, with the code in a folder."""
        name = as_name(f"{now()} {platform.node()} {os.getpid()}")
        number = 1 + max((execution.number for execution in earlier if execution.origin == origin), default=0)
        return cls(name, origin, grid, json.loads(json.dumps(request, default=str)), rerun, number, made_with(folder))

    @cached_property
    def varied(self) -> dict[str, dict[str, Any]]:
        """The values of each cell, by its id, on the axes of which it requested several values."""
        cells = {cell["cell_id"]: cell["axes"] for cell in self.request.get("cells", ())}
        values: dict[str, set[str]] = {}
        for axis, value in (item for axes in cells.values() for item in axes.items()):
            values.setdefault(axis, set()).add(repr(value))
        return {
            cell: {axis: value for axis, value in axes.items() if len(values[axis]) > 1} for cell, axes in cells.items()
        }

    def path(self, folder: Path) -> Path:
        """Its file in the folder of its grid."""
        return folder / EXECUTIONS / f"{self.name}.json"

    def write(self, folder: Path) -> None:
        """Write it to the folder of its grid.

        Raises:
            OSError: it cannot be written.
        """
        path = self.path(folder)
        path.parent.mkdir(parents=True, exist_ok=True)
        data = json.loads(json.dumps(asdict(self), default=str))
        write_atomic(path, json.dumps({**data, "digest": digest(data)}, ensure_ascii=False) + "\n")

    @classmethod
    def read(cls, path: Path) -> Self | None:
        """Read a file; None if it is damaged, or not as it was written.

        Raises:
            OSError: it cannot be read.
        """
        data = json_object(path.read_bytes()) or {}
        if data.pop("digest", None) != digest(data):
            return None
        try:
            return msgspec.convert({**data, "name": path.stem}, cls)
        except msgspec.ValidationError:
            return None


def in_order(executions: Collection[Execution]) -> list[Execution]:
    """Return executions in the order of time; those of one results folder by their numbers, whatever its clock says."""
    begins: dict[str, str] = {}
    keys: dict[str, tuple[str, int]] = {}
    for execution in sorted(executions, key=lambda item: (item.number, item.name)):
        begins[execution.origin] = max(execution.name, begins.get(execution.origin, ""))
        keys[execution.name] = begins[execution.origin], execution.number
    return sorted(executions, key=lambda execution: keys[execution.name])
