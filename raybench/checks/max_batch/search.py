"""The largest batch that fits: what `raybench grid FILE --find-max-batch` finds out, by trying.

Nothing else is trained, and nothing of it is any trial's: a cell of the grid keeps the batch that was asked for.
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
from raybench.execution.progress import RecordingListener
from raybench.execution.scheduler import AssignedWork, Dispatcher
from raybench.planning.plan import Plan, Trial, WorkItem, format_value, make_plan
from raybench.results.journal import JOURNAL, RESULTS, Journal, grid_folder
from raybench.results.lock import locked

CLOSE = 16
"""The search ends where what fits and what does not are nearer than a part of so many."""

NO_ROOM = frozenset({"OutOfMemory", "Timeout"})
"""Errors of a try that say that the batch is too large; any other is an error of the job."""

Tell = Callable[[str], None]
"""Hears what is being tried now."""


@dataclass(frozen=True)
class BatchProbe:
    """One batch size, tried.

    Attributes:
        fits: None where there are fewer examples to train on.
        peak, asked, limit: bytes, as far as they are known: held at most, asked for in vain, allowed.
        why: of one that did not fit: the error's type, `OutOfMemory` or `Timeout`.
    """

    batch: int
    fits: bool | None
    peak: int | None = None
    asked: int | None = None
    limit: int | None = None
    why: str | None = None


@dataclass
class Search:
    """By doubling, or halving, until one batch fits and one does not, and then by bisection.

    Attributes:
        start: the first batch.
        unit: every batch is a multiple of it: what replicas and devices divide it into.
        upper_bound: the largest there can be; None where that is not known yet.
    """

    start: int
    unit: int = 1
    upper_bound: int | None = None
    tries: list[BatchProbe] = field(default_factory=list)

    @property
    def best(self) -> BatchProbe | None:
        """The largest that fits."""
        return max((t for t in self.tries if t.fits), key=lambda t: t.batch, default=None)

    @property
    def worst(self) -> BatchProbe | None:
        """The smallest that does not."""
        return min((t for t in self.tries if t.fits is False), key=lambda t: t.batch, default=None)

    def next(self) -> int | None:
        """The batch to try now; None where it is known well enough."""
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
        """Take in what came of a try, and how many examples there are to train on, where it told."""
        self.tries.append(attempt)
        if examples is not None:
            self.upper_bound = examples // self.unit * self.unit


@dataclass
class MaxBatchResult:
    """What was found out for the cells that differ in their batch size, or in what takes no memory.

    Attributes:
        about: the axes by which it is told from the others, with device, framework and precision.
        error: what went wrong, where the search did not come to its end.
    """

    about: Mapping[str, Any]
    search: Search
    error: str | None = None


@dataclass(frozen=True)
class BatchOutcome:
    """What a grid's searches came to; `skipped` has each reason why a cell cannot run here."""

    results: Sequence[MaxBatchResult]
    skipped: Sequence[str]
    strict: bool = False

    @property
    def exit_status(self) -> int:
        """As a grid's: 1 if a search failed, 3 if nothing could run here or, with `strict`, not everything; else 0."""
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
    """Find the largest batch of each device, framework and precision of a grid, and of whatever else takes memory.

    Args:
        tell: hears what is being tried.
        results: the results folder.
        where: pairs of an axis and a value that a cell has to have.
        strict: whether a cell that cannot run here makes the exit status 3.

    Raises:
        UsageError: the grid, its workload or its data cannot be used; nothing was started.
        ResultsLockedError: another grid runs on the results folder.
        ExecutionError: the machines would not do what was asked.
    """
    root, folder = datasets.data_root(), grid_folder(results, spec.name)
    with closing(executor):
        if executor.isolation == "inline":
            raise UsageError("--find-max-batch needs a process for each try: leave --inline out")
        nodes = executor.nodes(spec.environments)
        plan = make_plan(spec, nodes, root, where, executor.isolation)
        if any(cell.fit for cell in plan.cells) and datasets.ensure(
            plan.workload.dataset, root, RecordingListener().fetch
        ):
            plan = make_plan(spec, nodes, root, where, executor.isolation)
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
    """For each thing to find out its name, and the trial with the smallest batch of those that it is found out for."""
    groups: dict[str, Trial] = {}
    for trial in sorted(plan.trials, key=lambda trial: trial.cell.content.settings.batch_size):
        if not trial.cell.skip:
            groups.setdefault(measure.key(trial.cell.content, trial.cell.memory_limit), trial)
    return groups


def _about(trial: Trial, trials: Iterable[Trial]) -> dict[str, Any]:
    """Device, framework, precision, and the further axes in which the trials differ."""
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
