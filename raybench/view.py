"""Whoever watches a grid run."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

from raybench.analysis.results import Attempt
from raybench.datasets import DataSet
from raybench.execution.dispatch import Work
from raybench.plan import Plan
from raybench.trial.events import Event


class View(Protocol):
    """Is told what happens; it is never asked."""

    def fetch(self, dataset: DataSet, root: Path) -> None:
        """Fetch a missing data set."""

    def note(self, words: str) -> None:
        """Something that a person should know before anything runs."""

    def begin(self, plan: Plan, todo: Sequence[Work], done: Sequence[Attempt]) -> None:
        """Trials are about to run."""

    def checking(self, what: str) -> None:
        """A check is being made before trials that need it; it ends with its `check_ended`."""

    def event(self, event: Event) -> None:
        """Something happened in a trial, or a check has ended."""

    def warn(self, words: str) -> None:
        """Something that a person may want to mend while the grid goes on; from any thread."""

    def end(self, words: str = "") -> None:
        """No trial runs any more; words say what is still being done, and without words nothing is."""


class Silent:
    """Fetches what is missing, and remembers what happened: for scripts, notebooks and tests."""

    def __init__(self) -> None:
        self.todo: list[Work] = []
        self.events: list[Event] = []
        self.notes: list[str] = []
        self.warnings: list[str] = []

    def fetch(self, dataset: DataSet, root: Path) -> None:
        """Fetch it without a word."""
        dataset.fetch(root)

    def note(self, words: str) -> None:
        """Remember it."""
        self.notes.append(words)

    def begin(self, plan: Plan, todo: Sequence[Work], done: Sequence[Attempt]) -> None:
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

    def end(self, words: str = "") -> None:
        """Nothing to take away."""
