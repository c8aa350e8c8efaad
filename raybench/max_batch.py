"""The largest batch that fits: what `raybench grid FILE --find-max-batch` finds out, by trying.

Nothing else is trained, and nothing of it is any trial's: a cell of the grid keeps the batch that was asked for.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from typing import Any

from raybench import datasets
from raybench.errors import UsageError
from raybench.execution.base import Executor
from raybench.execution.dispatch import Dispatcher, Placement, Work
from raybench.jobs import TIMEOUT, check_job, make_job
from raybench.plan import Plan, Trial, make_plan, short
from raybench.run import Options, ensure_data, grid_folder
from raybench.spec import GridSpec
from raybench.tracking.journal import JOURNAL, Journal
from raybench.tracking.lock import locked
from raybench.trial import max_batch
from raybench.trial.events import Event
from raybench.trial.job import Job
from raybench.view import Silent

CLOSE = 16
"""The search ends where what fits and what does not are nearer than a part of so many."""

NO_ROOM = frozenset({"OutOfMemory", "Timeout"})
"""Errors of a try that say that the batch is too large; any other is an error of the job."""

Tell = Callable[[str], object]
"""Hears what is being tried now."""


@dataclass(frozen=True)
class Try:
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
        most: the largest there can be; None where that is not known yet.
    """

    start: int
    unit: int = 1
    most: int | None = None
    tries: list[Try] = field(default_factory=list)

    @property
    def best(self) -> Try | None:
        """The largest that fits."""
        return max((t for t in self.tries if t.fits), key=lambda t: t.batch, default=None)

    @property
    def worst(self) -> Try | None:
        """The smallest that does not."""
        return min((t for t in self.tries if t.fits is False), key=lambda t: t.batch, default=None)

    def next(self) -> int | None:
        """The batch to try now; None where it is known well enough."""
        low, high = (found.batch if found else None for found in (self.best, self.worst))
        if high is None:
            wanted = 2 * low if low else self.start
            wanted = wanted if self.most is None else min(wanted, self.most)
            return wanted if wanted >= self.unit and wanted != low else None
        if low is None:
            half = high // 2 // self.unit * self.unit
            return half or None
        gap = high - low
        return low + gap // 2 // self.unit * self.unit if gap > max(self.unit, low // CLOSE) else None

    def take(self, found: Try, examples: int | None) -> None:
        """Take in what came of a try, and how many examples there are to train on, where it told."""
        self.tries.append(found)
        if examples is not None:
            self.most = examples // self.unit * self.unit


@dataclass
class Found:
    """What was found out for the cells that differ in their batch size, or in what takes no memory.

    Attributes:
        about: the axes by which it is told from the others, with device, framework and precision.
        error: what went wrong, where the search did not come to its end.
    """

    about: Mapping[str, Any]
    search: Search
    error: str | None = None


@dataclass(frozen=True)
class Outcome:
    """What a grid's searches came to; `skipped` has each reason why a cell cannot run here."""

    found: Sequence[Found]
    skipped: Sequence[str]
    skip_missing: bool = False

    @property
    def exit_status(self) -> int:
        """As a grid's: 1 where a search failed, 3 where something could not run here, else 0."""
        if any(found.error for found in self.found):
            return 1
        return 3 if self.skipped and not self.skip_missing else 0


def find_max_batch(
    spec: GridSpec,
    executor: Executor,
    tell: Tell = lambda text: None,
    options: Options | None = None,
) -> Outcome:
    """Find the largest batch of each device, framework and precision of a grid, and of whatever else takes memory.

    Args:
        tell: hears what is being tried.
        options: its results folder, `where` and `skip_missing` count.

    Raises:
        UsageError: the grid, its workload or its data cannot be used; nothing was started.
        ResultsLockedError: another grid runs on the results folder.
        ExecutionError: the machines would not do what was asked.
    """
    options = options or Options()
    root, folder = datasets.data_root(), grid_folder(options.results, spec.name)
    with closing(executor):
        if executor.isolation == "inline":
            raise UsageError("--find-max-batch needs a process for each try: leave --inline out")
        nodes = executor.nodes(spec.environments)
        plan = make_plan(spec, nodes, root, options.where, executor.isolation)
        if any(cell.fit for cell in plan.cells) and ensure_data(plan.workload, root, Silent().fetch):
            plan = make_plan(spec, nodes, root, options.where, executor.isolation)
        groups = _groups(plan)
        found = {name: Found(_about(trial, groups.values()), _search(trial)) for name, trial in groups.items()}
        first = [_work(name, groups[name], search) for name, one in found.items() if (search := one.search.next())]
        dispatcher = Dispatcher(first, plan.nodes)
        with locked(options.results, f"--find-max-batch of {spec.name}"), Journal(folder / JOURNAL) as journal:

            def job(placement: Placement) -> Job:
                work = placement.work
                name, batch = _parts(work)
                tell(f"{' '.join(map(str, found[name].about.values()))}: batch {batch}")
                made = make_job(plan, placement, folder, root)
                labels = {"grid": spec.name, "subject": max_batch.subject(made.cell), "batch_size": batch}
                check = check_job(made, work, folder, labels)
                cell = max_batch.with_batch(made.cell, batch)
                return replace(check, cell=cell, memory_limit=made.memory_limit, timeout=made.timeout or TIMEOUT)

            def sink(event: Event) -> None:
                journal.append(event)
                name, _, batch = str(event["trial"]).rpartition("-")
                if event["event"] == "check_ended" and name in found:
                    _take(found[name], int(batch), event)
                    following = None if found[name].error else found[name].search.next()
                    if following:
                        dispatcher.add(_work(name, groups[name], following))

            executor.run(dispatcher, job, sink)
    skipped = dict.fromkeys(f"{cell.profile}: {cell.skip}" for cell in plan.cells if cell.skip)
    return Outcome(list(found.values()), list(skipped), options.skip_missing)


def _groups(plan: Plan) -> dict[str, Trial]:
    """For each thing to find out its name, and the trial with the smallest batch of those that it is found out for."""
    groups: dict[str, Trial] = {}
    for trial in sorted(plan.trials, key=lambda trial: trial.cell.content["settings"]["batch_size"]):
        if not trial.cell.skip:
            groups.setdefault(max_batch.key(trial.cell.content, trial.cell.memory_limit), trial)
    return groups


def _about(trial: Trial, others: Iterable[Trial]) -> dict[str, Any]:
    """Device, framework, precision, and the further axes in which the trials differ."""
    content = trial.cell.content
    told = {"device": trial.cell.profile, "framework": content["framework"]}
    told["precision"] = content["settings"]["precision"]
    apart = [
        name
        for name in trial.cell.axes
        if name not in ("batch_size", *max_batch.NO_MATTER, *told)
        and len({short(other.cell.axes.get(name)) for other in others}) > 1
    ]
    return told | {name: trial.cell.axes[name] for name in apart}


def _search(trial: Trial) -> Search:
    content = trial.cell.content
    unit = math.lcm(content["device"]["replicas"], content["device"].get("devices", 1))
    examples = content["data"]["examples"]["train"]
    most = examples // unit * unit if examples else None
    return Search(content["settings"]["batch_size"], unit, most)


def _work(name: str, trial: Trial, batch: int) -> Work:
    return Work(trial, check=max_batch.NAME, key=f"{name}-{batch}")


def _parts(work: Work) -> tuple[str, int]:
    name, _, batch = work.key.rpartition("-")
    return name, int(batch)


def _take(found: Found, batch: int, event: Event) -> None:
    error = event.get("error")
    if error and error["type"] not in NO_ROOM:
        found.error = ": ".join(filter(None, [error["type"], *str(error.get("message") or "").splitlines()[:1]]))
        return
    source = error or event
    sizes = {name: source.get(f"{name}_bytes") for name in ("peak", "asked", "limit")}
    fits = False if error else event["fits"]
    found.search.take(Try(batch, fits, why=error["type"] if error else None, **sizes), event.get("examples"))
