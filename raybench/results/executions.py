"""What one execution of a grid was asked for, in a file that is written before its first trial."""

from __future__ import annotations

import json
import os
import platform
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Self

from raybench.core.events import now
from raybench.core.files import write_atomic
from raybench.results.folder import EXECUTIONS, json_object
from raybench.results.parsing import text_in

MILLISECONDS = len("2026-11-21T09-00-00-000")  # characters of the time at the beginning of an execution's name


def as_name(text: str) -> str:
    """Return a text, such as a time, with the characters of a file's name alone."""
    return re.sub(r"[^\w-]+", "-", text)


@dataclass(frozen=True)
class Execution:
    """One execution of a grid.

    Attributes:
        name: its start, host and process: unique, and in the order of time.
        origin: the id of the results folder that it was run for.
        grid: the text of the grid file.
        request: the requested cells, with baseline and target (`raybench.results.grid_request`).
        rerun: whether it runs finished trials again.
    """

    name: str
    origin: str
    grid: str
    request: Mapping[str, Any]
    rerun: bool = False

    @classmethod
    def begin(cls, origin: str, grid: str, request: Mapping[str, Any], rerun: bool = False) -> Self:
        """Return the execution that this process begins now."""
        name = as_name(f"{now()} {platform.node()} {os.getpid()}")
        return cls(name, origin, grid, json.loads(json.dumps(request, default=str)), rerun)

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
        write_atomic(path, json.dumps(asdict(self), default=str, ensure_ascii=False) + "\n")

    @classmethod
    def read(cls, path: Path) -> Self | None:
        """Read a file; None if it is damaged.

        Raises:
            OSError: it cannot be read.
        """
        data = json_object(path.read_bytes()) or {}
        origin, grid, request = text_in(data.get("origin")), text_in(data.get("grid")), data.get("request")
        rerun = data.get("rerun") is True
        return cls(path.stem, origin or "", grid or "", request, rerun) if isinstance(request, dict) else None
