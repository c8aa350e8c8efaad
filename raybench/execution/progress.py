"""Listeners to the progress of a grid."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

from raybench.core.events import Event
from raybench.datasets import DataSet
from raybench.planning.plan import Plan, WorkItem
from raybench.results.history import GridHistory


class ProgressListener(Protocol):
    """Receives progress callbacks."""

    def fetch(self, dataset: DataSet, root: Path) -> None:
        """Fetch a missing data set."""

    def begin(self, plan: Plan, todo: Sequence[WorkItem], history: GridHistory) -> None:
        """Trials are about to start.

        The history already contains each of their events when `event` is called.
        """

    def checking(self, what: str) -> None:
        """A check is running before the trials that need it; `check_ended` marks its end."""

    def event(self, event: Event) -> None:
        """An event of a trial or the end of a check."""

    def warn(self, words: str) -> None:
        """A problem that the user may want to fix; from any thread."""

    def busy(self, words: str) -> None:
        """Load by other programs, empty while the machine is quiet.

        Called once before the first trial if the machine is quiet; else repeatedly, from any thread.
        """

    def stopping(self) -> None:
        """The user pressed Ctrl-C; from a signal handler."""

    def end(self, words: str = "") -> None:
        """No trial is running any more.

        `words` describes remaining work, and is empty when all is done.
        """


class SilentListener:
    """Fetches missing data and shows nothing: for scripts and notebooks."""

    def fetch(self, dataset: DataSet, root: Path) -> None:
        """Fetch it silently."""
        from raybench.datasets.fetch import fetch

        fetch(dataset, root)

    def begin(self, plan: Plan, todo: Sequence[WorkItem], history: GridHistory) -> None:
        """No-op."""

    def checking(self, what: str) -> None:
        """No-op."""

    def event(self, event: Event) -> None:
        """No-op: the history keeps it."""

    def warn(self, words: str) -> None:
        """No-op: cautions are in the report."""

    def busy(self, words: str) -> None:
        """No-op; a warning was recorded at the start."""

    def stopping(self) -> None:
        """No-op: there is no display."""

    def end(self, words: str = "") -> None:
        """No-op: there is no display."""


class RecordingListener(SilentListener):
    """Records the callbacks, with every event: for tests."""

    def __init__(self) -> None:
        self.todo: list[WorkItem] = []
        self.events: list[Event] = []
        self.warnings: list[str] = []

    def begin(self, plan: Plan, todo: Sequence[WorkItem], history: GridHistory) -> None:
        """Record the planned work."""
        self.todo = list(todo)

    def event(self, event: Event) -> None:
        """Record it."""
        self.events.append(event)

    def warn(self, words: str) -> None:
        """Record it."""
        self.warnings.append(words)
