"""Search for the largest batch that fits: `raybench grid FILE --find-max-batch`.

Nothing else is trained, and the results do not affect any trial: the cells of the grid keep their batch size.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from raybench import datasets
from raybench.checks.max_batch import measure
from raybench.config import GridSpec
from raybench.core.events import Event
from raybench.core.job import Job
from raybench.core.settings import SETTINGS
from raybench.errors import UsageError
from raybench.execution.base import Executor
from raybench.execution.jobs import TIMEOUT, check_job, make_job
from raybench.execution.progress import SilentListener
from raybench.execution.scheduler import AssignedWork, Dispatcher
from raybench.core.text import format_value
from raybench.planning.plan import Plan, Trial, WorkItem, make_plan
from raybench.results.journal import JOURNAL, RESULTS, Journal, grid_folder
from raybench.results.lock import locked

CLOSE = 16
"""Stop when the gap between fitting and failing batches is below best / CLOSE."""

NO_ROOM = frozenset({"OutOfMemory", "Timeout"})
"""Errors that mean that the batch is too large.

Any other error is an error of the job."""

Tell = Callable[[str], None]
"""Callback that receives the description of the current probe."""


@dataclass(frozen=True)
class BatchProbe:
    """The result of one batch size.

    Attributes:
        fits: None if there are fewer training examples.
        peak, asked, limit: bytes, if known: peak memory, failed allocation, memory limit.
        why: if it did not fit, the error's type, `OutOfMemory` or `Timeout`.
    """

    batch: int
    fits: bool | None
    peak: int | None = None
    asked: int | None = None
    limit: int | None = None
    why: str | None = None


@dataclass
class Search:
    """Doubling or halving until one batch fits and one does not, then bisection.

    Attributes:
        start: the first batch.
        unit: every batch is a multiple of it, so that replicas and devices can divide the batch.
        upper_bound: the largest possible batch; None if it is not known yet.
    """

    start: int
    unit: int = 1
    upper_bound: int | None = None
    tries: list[BatchProbe] = field(default_factory=list)

    @property
    def best(self) -> BatchProbe | None:
        """The largest batch that fits."""
        return max((t for t in self.tries if t.fits), key=lambda t: t.batch, default=None)

    @property
    def worst(self) -> BatchProbe | None:
        """The smallest batch that does not fit."""
        return min((t for t in self.tries if t.fits is False), key=lambda t: t.batch, default=None)

    def next(self) -> int | None:
        """The next batch to try; None if the search is complete."""
        low, high = (attempt.batch if attempt else None for attempt in (self.best, self.worst))
        if high is None:
            candidate = 2 * low if low else self.start
            candidate = candidate if self.upper_bound is None else min(candidate, self.upper_bound)
            return candidate if candidate >= self.unit and candidate != low else None
        if low is None:
            half = high // 2 // self.unit * self.unit
            return half or None
        gap = high - low
        return low + gap // 2 // self.unit * self.unit if gap > max(self.unit, low // CLOSE) else None

    def take(self, attempt: BatchProbe, examples: int | None) -> None:
        """Record a result, and the number of training examples if it is known."""
        self.tries.append(attempt)
        if examples is not None:
            self.upper_bound = examples // self.unit * self.unit


@dataclass
class MaxBatchResult:
    """The result of one search, shared by cells of equal memory demand.

    Attributes:
        about: device, framework, precision, and the axes in which the searches differ.
        error: the error that ended the search early.
    """

    about: Mapping[str, Any]
    search: Search
    error: str | None = None


@dataclass(frozen=True)
class BatchOutcome:
    """The results of a grid's searches.

    `skipped` has each reason why a cell cannot run here.
    """

    results: Sequence[MaxBatchResult]
    skipped: Sequence[str]
    strict: bool = False

    @property
    def exit_status(self) -> int:
        """Exit status, as for a grid.

        1 if a search failed, 3 if nothing could run here or, with `strict`, not everything; else 0.
        """
        if any(result.error for result in self.results):
            return 1
        return 3 if self.skipped and (self.strict or not self.results) else 0


def find_max_batch(
    spec: GridSpec,
    executor: Executor,
    tell: Tell = lambda text: None,
    *,
    results: Path = RESULTS,
    where: Sequence[tuple[str, str]] = (),
    strict: bool = False,
) -> BatchOutcome:
    """Find the largest batch of each device, framework and precision of a grid.

    The search is repeated for each value of other axes that affect memory.

    Args:
        tell: receives the description of the current probe.
        results: the results folder.
        where: pairs of an axis and the value that a cell must have.
        strict: whether a cell that cannot run here makes the exit status 3.

    Raises:
        UsageError: the grid, its workload or its data cannot be used; nothing was started.
        ResultsLockedError: another grid runs on the results folder.
        ExecutionError: the machines could not execute the probes.
    """
    root, folder = datasets.data_root(), grid_folder(results, spec.name)
    with closing(executor):
        if  == "inline":
            raise UsageError("--find-max-batch needs separate processes; remove --inline")
        nodes = executor.nodes(spec.environments)
        plan = make_plan(spec, nodes, root, where, )
        if plan.workload.own_loop:
            raise UsageError(
                f"--find-max-batch takes a few steps of a declared workload, and {plan.workload.name} is a "
                f"{plan.workload.own_loop} with a loop of its own; run the grid with larger batches instead: "
                "out of memory is a result"
            )
        if any(cell.fit for cell in plan.cells) and datasets.ensure(
            plan.workload.dataset, root, SilentListener().fetch
        ):
            plan = make_plan(spec, nodes, root, where, )
        groups = _groups(plan)
        searches = {
            name: MaxBatchResult(_about(trial, groups.values()), _search(trial)) for name, trial in groups.items()
        }
        initial = [
            _work(name, groups[name], search) for name, item in searches.items() if (search := item.search.next())
        ]
        dispatcher = Dispatcher(initial, plan.nodes)
        with locked(results, f"--find-max-batch of {spec.name}"), Journal(folder / JOURNAL) as journal:

            def job(placement: AssignedWork) -> Job:
                work = placement.work
                name, batch = _parts(work)
                tell(f"{' '.join(map(str, searches[name].about.values()))}: batch {batch}")
                trial_job = make_job(plan, placement, folder, root)
                labels = {"grid": spec.name, "subject": measure.subject(trial_job.cell), "batch_size": batch}
                check = check_job(trial_job, work, folder, labels)
                cell = measure.with_batch(trial_job.cell, batch)
                return replace(
                    check, cell=cell, memory_limit=trial_job.memory_limit, timeout=trial_job.timeout or TIMEOUT
                )

            def sink(event: Event) -> None:
                journal.append(event)
                name, _, batch = str(event["trial"]).rpartition("-")
                if event["event"] == "check_ended" and name in searches:
                    _take(searches[name], int(batch), event)
                    next_batch = None if searches[name].error else searches[name].search.next()
                    if next_batch:
                        dispatcher.add(_work(name, groups[name], next_batch))

            executor.run(dispatcher, job, sink, tell)
    skipped = dict.fromkeys(f"{cell.profile}: {cell.skip}" for cell in plan.cells if cell.skip)
    return BatchOutcome(list(searches.values()), list(skipped), strict)


def _groups(plan: Plan) -> dict[str, Trial]:
    """The trial with the smallest batch size for each search, by its key."""
    groups: dict[str, Trial] = {}
    for trial in sorted(plan.trials, key=lambda trial: trial.cell.content.settings.batch_size):
        if not trial.cell.skip:
            groups.setdefault(measure.key(trial.cell.content, trial.cell.memory_limit), trial)
    return groups


def _about(trial: Trial, trials: Iterable[Trial]) -> dict[str, Any]:
    """Device, framework, precision, and the other axes in which the trials differ."""
    content = trial.cell.content
    values = {"device": trial.cell.profile, "framework": content.framework}
    values["precision"] = content.settings.precision
    varying = [
        name
        for name in trial.cell.axes
        if (name not in SETTINGS or name in measure.OF_MEMORY)
        and name not in values
        and len({format_value(each.cell.axes.get(name)) for each in trials}) > 1
    ]
    return values | {name: trial.cell.axes[name] for name in varying}


def _search(trial: Trial) -> Search:
    content = trial.cell.content
    unit = math.lcm(content.device.replicas, content.device.devices or 1)
    examples = content.data.examples.train
    most = examples // unit * unit if examples else None
    return Search(content.settings.batch_size, unit, most)


def _work(name: str, trial: Trial, batch: int) -> WorkItem:
    return WorkItem(trial, check=measure.NAME, key=f"{name}-{batch}")


def _parts(work: WorkItem) -> tuple[str, int]:
    name, _, batch = work.key.rpartition("-")
    return name, int(batch)


def _take(result: MaxBatchResult, batch: int, event: Event) -> None:
    error = event.get("error")
    if error and error["type"] not in NO_ROOM:
        result.error = ": ".join(filter(None, [error["type"], *str(error.get("message") or "").splitlines()[:1]]))
        return
    source = error or event
    sizes = {name: source.get(f"{name}_bytes") for name in ("peak", "asked", "limit")}
    fits = False if error else event["fits"]
    result.search.take(BatchProbe(batch, fits, why=error["type"] if error else None, **sizes), event.get("examples"))
