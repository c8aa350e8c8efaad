"""Trackers, which show a grid's runs: in MLflow or nowhere.

The files of the attempts are the only truth. A tracker receives every event of a grid and keeps a copy for browsing; it
may be late or fail without affecting the grid.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from raybench.core.events import Event
from raybench.results.executions import Execution
from raybench.results.history import GridHistory
from raybench.tracking.store import Store
from raybench.tracking.writer import MlflowWriter, catch_up

Tell = Callable[[str], None]


class Writer(Protocol):
    """Receives the events of one execution of a grid.

    Only `wait_open` and `close` may block; nothing raises.
    """

    def wait_open(self) -> object:
        """Wait until writing no longer takes processor time from a trial."""

    def put(self, event: Event) -> None:
        """Receive an event that the grid's history already contains."""

    def put_file(self, file: Path) -> None:
        """Receive a file of the execution."""

    def close(self, *, progress: Callable[[int], None]) -> object:
        """Write the remaining data; `progress` gets the number of runs left, a few times per second."""


class Tracker(Protocol):
    """Creates a writer for each execution of a grid."""

    def open(self, grid: str, history: GridHistory, execution: Execution, warn: Tell, tell: Tell) -> Writer:
        """Start writing.

        Args:
            grid: the grid's name.
            history: the grid's history, with its earlier executions.
            execution: this execution.
            warn: gets one line about data that is missing at the end.
            tell: gets one line immediately after a failure.
        """

    def catch_up(self, history: GridHistory, warn: Tell) -> None:
        """Write an earlier execution's missing data, if nothing has to run."""


@dataclass(frozen=True)
class MlflowTracker:
    """Writes runs to an MLflow store in a separate thread."""

    store: Store

    def open(self, grid: str, history: GridHistory, execution: Execution, warn: Tell, tell: Tell) -> Writer:
        """Start the thread."""
        return MlflowWriter(self.store, grid, history, execution, warn, tell)

    def catch_up(self, history: GridHistory, warn: Tell) -> None:
        """Write what a killed driver did not."""
        catch_up(self.store, history, warn)


class NoTracker:
    """Tracker that stores nothing."""

    def open(self, grid: str, history: GridHistory, execution: Execution, warn: Tell, tell: Tell) -> Writer:
        """Return itself."""
        return self

    def catch_up(self, history: GridHistory, warn: Tell) -> None:
        """Do nothing."""

    def wait_open(self) -> None:
        """Do nothing."""

    def put(self, event: Event) -> None:
        """Do nothing."""

    def put_file(self, file: Path) -> None:
        """Do nothing."""

    def close(self, *, progress: Callable[[int], None]) -> None:
        """Do nothing."""
