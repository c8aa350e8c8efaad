"""From the journal to MLflow, whenever a person wants it: what is missing is written, what is there is left alone."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from raybench.analysis.results import attempts
from raybench.tracking import behind
from raybench.tracking.executions import recall
from raybench.tracking.journal import attempt_folder, read
from raybench.tracking.projection import Summary, attempt_id, is_told_apart
from raybench.tracking.store import Store
from raybench.trial import events
from raybench.trial.events import Event


@dataclass
class SyncReport:
    """What a sync has done, in runs.

    Attributes:
        created: were not in MLflow at all.
        updated: were there, and not complete.
        unchanged: were complete.
        damaged: the numbers of the journal's lines that cannot be read.
    """

    created: int = 0
    updated: int = 0
    unchanged: int = 0
    damaged: list[int] = field(default_factory=list)

    def __str__(self) -> str:
        created = f"{self.created} run{'' if self.created == 1 else 's'} created"
        words = f"{created}, {self.updated} brought up to date, {self.unchanged} unchanged"
        return words + (f"; {len(self.damaged)} damaged lines of the journal left out" if self.damaged else "")


def sync(journal: Path, store: Store, grid: str, progress: Callable[[int, int], None] | None = None) -> SyncReport:
    """Bring a grid's runs up to its journal.

    Once a run has a last status it is complete and stays as it is; so a second sync changes nothing. A run that is
    there and not complete gets the epochs it lacks and, where its trial ended, its end. A skipped trial never ran and
    has no run. The run of each execution of the grid is written too, where it is missing.

    Args:
        journal: the grid's journal; the trials' files are beside it.
        store: where to.
        grid: the grid's name, which is the experiment's.
        progress: gets how many attempts are done, of how many.

    Raises:
        StoreError: the store cannot be reached or used; what was written until then stays.
        OSError: the journal cannot be read.
    """
    report = SyncReport()
    summaries: list[Summary] = []

    def events_of_trials() -> Iterator[Event]:
        for event in read(journal, report.damaged):
            summary = recall(journal.parent, event)
            if summary:
                summaries.append(summary)
            yield event

    every = attempts(events_of_trials()).values()
    told = [attempt for attempt in every if attempt.status != events.SKIPPED and is_told_apart(attempt)]
    from raybench.tracking.mlflow import Runs

    runs = Runs(store, grid)
    found = runs.find()
    runs.execution.close_abandoned(found, {attempt_id(attempt) for attempt in told})
    for number, attempt in enumerate(told, 1):
        run = found.runs.get(attempt_id(attempt))
        if run is None:
            report.created += 1
        elif not run.doubles and (
            run.ended or (attempt.status is None and run.epochs >= {epoch.epoch for epoch in attempt.epochs})
        ):
            report.unchanged += 1
        else:
            report.updated += 1
        runs.write(attempt, run, attempt_folder(journal.parent, *attempt.key))
        if progress:
            progress(number, len(told))
    for summary in summaries:
        runs.execution.write_summary(summary)
    behind.clear(journal.parent)
    return report
