"""Where a grid's runs are shown besides the journal: MLflow, memory or nowhere.

The journal is the only truth. A tracker receives every event of a grid and keeps a copy for people to browse; it may
lag behind or fail, and a grid goes on without it.
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
    """Receives the events of one execution of a grid. Only `wait_open` and `close` may wait; nothing raises."""

    def wait_open(self) -> object:
        """Wait until writing no longer takes processor time from a trial."""

    def put(self, event: Event) -> None:
        """Take an event that the grid's history has now."""

    def put_summary(self, summary: Summary) -> None:
        """Take the summary of the execution."""

    def close(self, *, progress: Progress) -> object:
        """Write what is left; `progress` gets the number of runs left, a few times a second."""


class Tracker(Protocol):
    """Makes a writer for each execution of a grid."""

    def open(self, grid: str, history: GridHistory, execution: str, warn: Tell, tell: Tell) -> Writer:
        """Start writing.

        Args:
            grid: its name.
            history: of the grid, with its earlier executions; the trials' files are beside its journal.
            execution: the name of this execution.
            warn: gets one line about what is missing at the end.
            tell: gets one line at once when something fails.
        """

    def catch_up(self, grid: str, history: GridHistory, warn: Tell) -> None:
        """Write what an earlier execution could not, if there is nothing to run now."""


@dataclass(frozen=True)
class MlflowTracker:
    """Writes runs to an MLflow store in a thread of its own."""

    store: Store

    def open(self, grid: str, history: GridHistory, execution: str, warn: Tell, tell: Tell) -> Writer:
        """Start the thread."""
        return MlflowWriter(self.store, grid, history, execution, warn=warn, tell=tell)

    def catch_up(self, grid: str, history: GridHistory, warn: Tell) -> None:
        """Sync the grid if a killed driver left a note that it is incomplete."""
        catch_up(history, self.store, grid, warn)


class NoTracker:
    """Keeps nothing."""

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
    """What MLflow would show of one attempt: the same names and values.

    Attributes:
        metrics: (name, step) to value; an epoch's step is its number, a summary's is 0.
        status: `RUNNING`, `FINISHED`, `FAILED` or `KILLED`.
    """

    name: str
    status: str
    params: dict[str, str]
    tags: dict[str, str]
    metrics: dict[tuple[str, int], float]


@dataclass
class MemoryTracker(NoTracker):
    """Keeps runs in memory, for tests and notebooks: what they would be in MLflow, without a database.

        tracker = MemoryTracker()
        run_grid(load_grid(path), InlineExecutor(), options=Options(tracking=tracker))
        assert [run.status for run in tracker.runs] == ["FINISHED"]

    Attributes:
        grid: the name of the grid that was tracked last.
        events: every event, in order.
        summaries: one for each execution that ended.
    """

    grid: str = ""
    events: list[Event] = field(default_factory=list)
    summaries: list[Summary] = field(default_factory=list)

    def open(self, grid: str, history: GridHistory, execution: str, warn: Tell, tell: Tell) -> Writer:
        """Remember the grid's name."""
        self.grid = grid
        return self

    def put(self, event: Event) -> None:
        """Keep the event."""
        self.events.append(event)

    def put_summary(self, summary: Summary) -> None:
        """Keep the summary."""
        self.summaries.append(summary)

    @property
    def runs(self) -> list[RecordedRun]:
        """A run for each attempt that started, in the order of their starts."""
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
