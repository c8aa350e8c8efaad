"""Trackers, which show a grid's runs: in MLflow, in memory or nowhere.

The files of the attempts are the only truth. A tracker receives every event of a grid and keeps a copy for browsing; it
may be late or fail without affecting the grid.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from raybench.core.events import Event
from raybench.results.attempt import attempts
from raybench.results.executions import Execution
from raybench.results.history import GridHistory
from raybench.tracking import mapping
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


@dataclass(frozen=True)
class RecordedRun:
    """The MLflow run of one attempt, with the same names and values.

    Attributes:
        metrics: (name, step) to value; an epoch's step is its number, a summary's step is 0.
        status: `RUNNING`, `FINISHED`, `FAILED` or `KILLED`.
    """

    name: str
    status: str
    params: dict[str, str]
    tags: dict[str, str]
    metrics: dict[tuple[str, int], float]


@dataclass
class MemoryTracker(NoTracker):
    """Keeps runs in memory, for tests and notebooks: the same as in MLflow, without a database.

        tracker = MemoryTracker()
        run_grid(load_grid(path), InlineExecutor(), options=Options(tracking=tracker))
        assert [run.status for run in tracker.runs] == ["FINISHED"]

    Attributes:
        grid: the name of the last tracked grid.
        events: every event, in order.
    """

    grid: str = ""
    events: list[Event] = field(default_factory=list)

    def open(self, grid: str, history: GridHistory, execution: Execution, warn: Tell, tell: Tell) -> Writer:
        """Store the grid's name."""
        self.grid = grid
        return self

    def put(self, event: Event) -> None:
        """Store the event."""
        self.events.append(event)

    @property
    def runs(self) -> list[RecordedRun]:
        """A run for each attempt, in the order of their starts."""
        runs = []
        for attempt in attempts(self.events).values():
            metrics = {
                (name, epoch.epoch): value
                for epoch in attempt.epochs
                for name, value in mapping.epoch_metrics(epoch).items()
            }
            if attempt.status is not None:
                metrics |= {(name, 0): value for name, value in mapping.summary_metrics(attempt).items()}
            status = "RUNNING" if attempt.status is None else mapping.mlflow_status(attempt.status)
            tags, params = mapping.tags(attempt, self.grid), mapping.parameters(attempt)
            runs.append(RecordedRun(mapping.run_name(attempt), status, params, tags, metrics))
        return runs
