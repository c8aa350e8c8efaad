"""A grid, from its file to its comparison: what `raybench grid` does, for scripts and notebooks too."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from raybench import datasets
from raybench.analysis.comparison import Row
from raybench.analysis.results import Attempt, attempts, latest
from raybench.execution.base import Executor
from raybench.execution.dispatch import Work
from raybench.plan import Plan, make_plan
from raybench.spec import GridSpec
from raybench.tracking.journal import read
from raybench.tracking.lock import locked
from raybench.tracking.store import Store, resolve
from raybench.trial import events
from raybench.trial.events import Event
from raybench.workloads import read_reference

JOURNAL = "journal.jsonl"


@dataclass(frozen=True)
class Options:
    """How a grid is run; none of it can change a result.

    Attributes:
        results: the results folder.
        tracking_uri: the MLflow store; else the grid file's, MLFLOW_TRACKING_URI, or sqlite in the results folder.
        where: (axis, value as text): only these cells.
        retry: statuses of finished trials that are to be tried again.
        fresh: try everything again.
        skip_missing: what no node can hold is no reason for a bad exit status.
    """

    results: Path = Path("raybench-results")
    tracking_uri: str | None = None
    where: Sequence[tuple[str, str]] = ()
    retry: Collection[str] = ()
    fresh: bool = False
    skip_missing: bool = False


class View(Protocol):
    """Whoever watches a grid run."""

    def fetch(self, dataset: datasets.DataSet, root: Path) -> None:
        """Fetch a missing data set."""

    def begin(self, plan: Plan, todo: Sequence[Work], done: Sequence[Attempt]) -> None:
        """Trials are about to run."""

    def event(self, event: Event) -> None:
        """Something happened in a trial."""

    def end(self, words: str = "") -> None:
        """No trial runs any more; words say what is still being done."""


@dataclass(frozen=True)
class Outcome:
    """What a grid has come to: the plan, every trial's latest attempt, and the rows of the comparison."""

    plan: Plan
    latest: dict[str, Attempt]
    rows: list[Row]
    ran: int
    journal: Path
    store: Store
    interrupted: bool = False
    skip_missing: bool = False
    warnings: list[str] = field(default_factory=list)

    @property
    def exit_status(self) -> int:
        """The first that applies: 130 stopped by a person, 1 failed or lost, 3 skipped or not run, 0."""
        if self.interrupted:
            return 130
        ends = [self.latest[t.trial_id].status if t.trial_id in self.latest else None for t in self.plan.trials]
        if events.FAILED in ends or events.LOST in ends:
            return 1
        missing = any(trial.cell.skip for trial in self.plan.trials)
        return 3 if missing and not self.skip_missing else 0


def grid_folder(results: Path, name: str) -> Path:
    """Where everything of one grid is kept."""
    return results.absolute() / name


def load_attempts(journal: Path) -> dict[tuple[str, int], Attempt]:
    """Everything a journal tells; nothing where there is none."""
    return attempts(read(journal)) if journal.exists() else {}


def missing(plan: Plan, known: dict[str, Attempt], options: Options) -> list[Work]:
    """What is still to be run, in the plan's order, each with the number of its next attempt."""
    again = events.AGAIN_NEXT_TIME | set(options.retry)
    todo = []
    for trial in plan.trials:
        last = known.get(trial.trial_id)
        if trial.cell.skip:
            continue
        if last is None or last.status is None or last.status in again or options.fresh:
            todo.append(Work(trial, 1 + (last.attempt if last else 0)))
    return todo


def ensure_data(spec: GridSpec, root: Path, fetch: Callable[[datasets.DataSet, Path], None]) -> None:
    """Fetch the grid's data set where it is missing.

    Raises:
        DataError: it is neither there nor to be had.
    """
    base = spec.source_path.parent if spec.source_path else Path()
    name = read_reference(spec.workload, base).dataset
    if name is not None:
        dataset = datasets.get(name)
        if dataset.status(root).state != "ready":
            fetch(dataset, root)


def run_grid(spec: GridSpec, executor: Executor, view: View, options: Options) -> Outcome:
    """Run what is missing of a grid.

    Raises:
        UsageError: the grid, its workload or its data cannot be used; nothing was started.
        ResultsLockedError: another grid runs on the results folder.
        ExecutionError: the machines would not do what was asked.
    """
    root = datasets.data_root()
    ensure_data(spec, root, view.fetch)
    folder = grid_folder(options.results, spec.name)
    journal_path = folder / JOURNAL
    store = resolve(options.results, options.tracking_uri, spec.tracking_uri)
    with ExitStack() as stack:
        stack.enter_context(closing(executor))
        plan = make_plan(spec, executor.nodes(), root, options.where)
        stack.enter_context(locked(options.results))
        known = load_attempts(journal_path)
        todo = missing(plan, latest(known.values()), options)
        interrupted, warnings = False, []
        if todo:
            interrupted, warnings = _run(plan, todo, executor, view, folder, store, root, list(known.values()))
        return outcome(
            plan, load_attempts(journal_path), options, store, journal_path, len(todo), interrupted, warnings
        )
