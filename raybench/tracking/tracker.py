"""Trackers, which show a grid's runs in addition to the journal: in MLflow, in memory or nowhere.

The journal is the only source of truth. A tracker receives every event of a grid and keeps a copy for browsing; it may
be late or fail without affecting the grid.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol

from raybench.core.events import Event
from raybench.core.status import TrialStatus
from raybench.results.attempt import Attempt, attempts
from raybench.results.executions import Summary
from raybench.results.history import GridHistory
from raybench.tracking import mapping
from raybench.tracking.store import Store
from raybench.tracking.sync import catch_up
from raybench.tracking.writer import MlflowWriter

Progress = Callable[[int], None]
Tell = Callable[[str], None]


class Writer(Protocol):
    """Receives the events of one execution of a grid.

    Only `wait_open` and `close` may block; nothing raises.
    """

    def wait_open(self) -> object:
        """Wait until writing no longer takes processor time from a trial."""

    def put(self, event: Event) -> None:
        """Receive an event that the grid's history already contains."""

    def put_summary(self, summary: Summary) -> None:
        """Receive the summary of the execution."""

    def close(self, *, progress: Progress) -> object:
        """Write the remaining data; `progress` gets the number of runs left, a few times per second."""


class Tracker(Protocol):
    """Creates a writer for each execution of a grid."""

    def open(self, grid: str, history: GridHistory, execution: str, warn: Tell, tell: Tell) -> Writer:
        """Start writing.

        Args:
            grid: the grid's name.
            history: the grid's history, with its earlier executions; the trials' files are next to its journal.
            execution: the name of this execution.
            warn: gets one line about data that is missing at the end.
            tell: gets one line immediately after a failure.
        """

    def catch_up(self, grid: str, history: GridHistory, warn: Tell) -> None:
        """Write an earlier execution's missing data, if nothing has to run."""


@dataclass(frozen=True)
class MlflowTracker:
    """Writes runs to an MLflow store in a separate thread."""

    store: Store

    def open(self, grid: str, history: GridHistory, execution: str, warn: Tell, tell: Tell) -> Writer:
        """Start the thread."""
        return MlflowWriter(self.store, grid, history, execution, warn=warn, tell=tell)

    def catch_up(self, grid: str, history: GridHistory, warn: Tell) -> None:
        """Sync the grid if a killed driver left a marker file."""
        catch_up(history, self.store, grid, warn)


class NoTracker:
    """Tracker that stores nothing."""

    def open(self, grid: str, history: GridHistory, execution: str, warn: Tell, tell: Tell) -> Writer:
        """Return itself."""
        return self

    def catch_up(self, grid: str, history: GridHistory, warn: Tell) -> None:
        """Do nothing."""

    def wait_open(self) -> None:
        """Do nothing."""

    def put(self, event: Event) -> None:
        """Do nothing."""

    def put_summary(self, summary: Summary) -> None:
        """Do nothing."""

    def close(self, *, progress: Progress) -> None:
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
        summaries: one for each execution that ended.
    """

    grid: str = ""
    events: list[Event] = field(default_factory=list)
    summaries: list[Summary] = field(default_factory=list)

    def open(self, grid: str, history: GridHistory, execution: str, warn: Tell, tell: Tell) -> Writer:
        """Store the grid's name."""
        self.grid = grid
        return self

    def put(self, event: Event) -> None:
        """Store the event."""
        self.events.append(event)

    def put_summary(self, summary: Summary) -> None:
        """Store the summary."""
        self.summaries.append(summary)

    @property
    def runs(self) -> list[RecordedRun]:
        """A run for each started attempt, in the order of their starts."""
        return [
            self._run(attempt)
            for attempt in attempts(self.events).values()
            if attempt.status != TrialStatus.SKIPPED and mapping.is_identifiable(attempt)
        ]

    def _run(self, attempt: Attempt) -> RecordedRun:
        metrics = {
            (name, epoch.epoch): value
            for epoch in attempt.epochs
            for name, value in mapping.epoch_metrics(epoch).items()
        }
        if attempt.status is not None:
            metrics |= {(name, 0): value for name, value in mapping.summary_metrics(attempt).items()}
        return RecordedRun(
            name=mapping.run_name(attempt),
            status="RUNNING" if attempt.status is None else mapping.state(attempt.status),
            params=mapping.parameters(attempt),
            tags=mapping.tags(attempt, self.grid),
            metrics=metrics,
        )
