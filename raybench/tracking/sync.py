"""Sync of the journal to MLflow: missing data is written, existing data is not changed.

A marker file in the grid's folder indicates that MLflow may lack data of the grid. It exists from before a driver first
writes until everything is written, so a killed driver leaves it there. If the next command has trials to run, its
writer catches up; otherwise MLflow is only loaded if the file exists.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from raybench.core.status import TrialStatus
from raybench.results.executions import ENDED, read_execution
from raybench.results.history import GridHistory
from raybench.results.journal import attempt_folder
from raybench.tracking.mapping import attempt_id, is_identifiable
from raybench.tracking.store import Store, StoreError, cli_flags, redacted_errors

INCOMPLETE = ".mlflow-incomplete"


@dataclass
class SyncReport:
    """Result of a sync, in runs.

    Attributes:
        created: runs that were not in MLflow.
        updated: runs that were incomplete.
        unchanged: runs that were complete.
        parts: parts of the journal that were not in MLflow.
        damaged: the numbers of the journal's lines that cannot be read.
    """

    created: int = 0
    updated: int = 0
    unchanged: int = 0
    parts: int = 0
    damaged: list[int] = field(default_factory=list)

    def __str__(self) -> str:
        created = f"{self.created} run{'' if self.created == 1 else 's'} created"
        text = f"{created}, {self.updated} updated, {self.unchanged} unchanged"
        text += "; journal updated" if self.parts else ""
        return text + (f"; {len(self.damaged)} damaged lines of the journal skipped" if self.damaged else "")


def mark_incomplete(folder: Path) -> None:
    """Mark the store as possibly incomplete for the grid in a folder."""
    with suppress(OSError):  # full disk: the journal reports it
        (folder / INCOMPLETE).touch()


def mark_complete(folder: Path) -> None:
    """Mark the store as complete for the grid in a folder."""
    with suppress(OSError):
        (folder / INCOMPLETE).unlink(missing_ok=True)


def catch_up(history: GridHistory, store: Store, grid: str, warn: Callable[[str], None]) -> None:
    """Sync a grid if an earlier driver did not write everything.

    Args:
        warn: gets one line if the store cannot be used.
    """
    if not (history.folder / INCOMPLETE).is_file():
        return
    try:
        sync(history, store, grid)
    except StoreError as error:
        command = f"raybench sync{cli_flags(store, history.folder.parent)} {grid}"
        warn(f"{error}. The journal is complete; run `{command}` to update MLflow.")


def sync(
    history: GridHistory, store: Store, grid: str, progress: Callable[[int, int], None] | None = None
) -> SyncReport:
    """Bring a grid's runs up to date with its journal.

    A run with a final status is complete and is not changed, so a second sync changes nothing. An incomplete run gets
    its missing epochs and, if its trial has ended, its end. A skipped trial never ran and has no run. The run of each
    execution of the grid is written too, with the missing parts of the journal.

    Args:
        history: the grid's history; the trials' files are next to its journal.
        store: the MLflow store.
        grid: the grid's name, which is the experiment's.
        progress: gets the number of attempts done and the total.

    Raises:
        StoreError: the store cannot be reached or used; data written before the error is kept.
    """
    report = SyncReport(damaged=history.damaged_lines)
    summaries = [summary for event in history.of_kind(ENDED) if (summary := read_execution(history.folder, event))]
    tried = [
        attempt
        for attempt in history.attempts.values()
        if attempt.status != TrialStatus.SKIPPED and is_identifiable(attempt)
    ]
    with redacted_errors(store):
        from raybench.tracking.mlflow import Runs

    runs = Runs(store, grid, history.path)
    states = runs.list_runs().runs
    to_write = [
        (attempt, states.get(attempt_id(attempt)), attempt_folder(history.folder, *attempt.key)) for attempt in tried
    ]
    for attempt, run, _ in to_write:
        if run is None:
            report.created += 1
        elif not run.duplicates and (
            run.ended or (attempt.status is None and run.epochs >= {epoch.epoch for epoch in attempt.epochs})
        ):
            report.unchanged += 1
        else:
            report.updated += 1
    for done, _ in enumerate(runs.write_all(to_write), 1):
        if progress:
            progress(done, len(to_write))
    for summary in summaries:
        runs.write_summary(summary, is_latest=summary is summaries[-1])
    own_summaries = [summary for summary in summaries if summary.origin is None] or summaries
    report.parts = len(list(runs.add_journal(own_summaries[-1].execution if own_summaries else None)))
    mark_complete(history.folder)
    return report
