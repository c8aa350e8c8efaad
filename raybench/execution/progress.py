"""Whoever watches a grid run."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

from raybench.core.events import Event
from raybench.datasets import DataSet
from raybench.planning.plan import Plan, WorkItem
from raybench.results.history import GridHistory


class ProgressListener(Protocol):
    """Is told what happens; it is never asked."""

    def fetch(self, dataset: DataSet, root: Path) -> None:
        """Fetch a missing data set."""

    def begin(self, plan: Plan, todo: Sequence[WorkItem], history: GridHistory) -> None:
        """Trials are about to run; the grid's history has each event of theirs before `event` is called."""

    def checking(self, what: str) -> None:
        """A check is being made before trials that need it; it ends with its `check_ended`."""

    def event(self, event: Event) -> None:
        """Something happened in a trial, or a check has ended."""

    def warn(self, words: str) -> None:
        """Something that a person may want to mend while the grid goes on; from any thread."""

    def busy(self, words: str) -> None:
        """Other programs' use of a machine that was busy at first, empty while it is quiet; from any thread."""

    def end(self, words: str = "") -> None:
        """No trial runs any more; words say what is still being done, and without words nothing is."""


class RecordingListener:
    """Fetches what is missing, and remembers what happened: for scripts, notebooks and tests."""

    def __init__(self) -> None:
        self.todo: list[WorkItem] = []
        self.events: list[Event] = []
        self.warnings: list[str] = []

    def fetch(self, dataset: DataSet, root: Path) -> None:
        """Fetch it without a word."""
        from raybench.datasets.fetch import fetch

        fetch(dataset, root)

    def begin(self, plan: Plan, todo: Sequence[WorkItem], history: GridHistory) -> None:
        """Remember what is to be run."""
        self.todo = list(todo)

    def checking(self, what: str) -> None:
        """Nothing to remember: its end will tell."""

    def event(self, event: Event) -> None:
        """Remember it."""
        self.events.append(event)

    def warn(self, words: str) -> None:
        """Remember it."""
        self.warnings.append(words)

    def busy(self, words: str) -> None:
        """Nothing to remember: it began with a warning."""

    def end(self, words: str = "") -> None:
        """Nothing to take away."""
