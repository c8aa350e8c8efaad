"""A grid, from its file to its comparison: what `raybench grid` does, for scripts and notebooks too."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import closing
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from raybench import datasets
from raybench.analysis.comparison import Row
from raybench.analysis.report import Report
from raybench.analysis.results import Attempt, latest
from raybench.errors import JournalError
from raybench.evidence import Evidence, about
from raybench.execution.base import Executor
from raybench.execution.dispatch import Dispatcher, Placement, Work
from raybench.jobs import make_job
from raybench.plan import Plan, make_plan
from raybench.proofs import Proof
from raybench.reports import files, keep_page, of_events, page_is_current
from raybench.resume import Earlier, completed_elsewhere, missing, recovered, told
from raybench.spec import GridSpec
from raybench.tracking import executions
from raybench.tracking.behind import catch_up
from raybench.tracking.journal import JOURNAL, Journal
from raybench.tracking.lock import locked
from raybench.tracking.projection import EFFECTIVE, Summary
from raybench.tracking.store import RESULTS, Store, redact_text, resolve
from raybench.tracking.writer import PATIENCE, MlflowWriter
from raybench.trial import events
from raybench.trial.events import Event
from raybench.trial.job import Job
from raybench.view import Silent, View
from raybench.wanted import FILE, PLAN, Wanted, wanted_by, written
from raybench.workloads import WorkloadInfo

STOPPED = """The grid has stopped; whatever had ended is kept. Once there is room, and the folder in its place, \
the same command goes on with the rest."""


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

    results: Path = RESULTS
    tracking_uri: str | None = None
    where: Sequence[tuple[str, str]] = ()
    retry: Collection[str] = ()
    fresh: bool = False
    skip_missing: bool = False


@dataclass(frozen=True)
class Outcome:
    """What a grid has come to.

    Attributes:
        latest: the attempt that stands for each trial that was ever tried (`raybench.analysis.results.latest`).
        report: what that comes to; `rows` are its comparison, a row a cell.
        ran: how many attempts came to an end of their own this time.
        ended: how each trial that was run this time ended last.
        folder: the grid's own folder, in the results folder.
    """

    plan: Plan
    latest: Mapping[str, Attempt]
    report: Report
    ran: int
    ended: Mapping[str, str]
    folder: Path
    store: Store
    interrupted: bool = False
    skip_missing: bool = False

    @property
    def rows(self) -> list[Row]:
        """The comparison, a row a cell."""
        return self.report.standing.rows

    @property
    def warnings(self) -> tuple[str, ...]:
        """What a person should know that is no result."""
        return tuple(self.report.told.warnings)

    @property
    def journal(self) -> Path:
        """Every event of the grid."""
        return self.folder / JOURNAL

    @property
    def exit_status(self) -> int:
        """The first that applies: 130 stopped by a person, 1 one failed or was lost, 3 one could not run here, 0."""
        if self.interrupted:
            return 130
        ends = {self.latest[t.trial_id].status for t in self.plan.trials if t.trial_id in self.latest}
        ends |= set(self.ended.values())
        if ends & {events.FAILED, events.LOST}:
            return 1
        return 3 if any(cell.skip for cell in self.plan.cells) and not self.skip_missing else 0


def grid_folder(results: Path, name: str) -> Path:
    """Where everything of one grid is kept."""
    return results.absolute() / name


def ensure_data(workload: WorkloadInfo, root: Path, fetch: Callable[[datasets.DataSet, Path], None]) -> bool:
    """Fetch a workload's data set where it is missing; whether it was.

    Raises:
        DataError: it is neither there nor to be had.
    """
    if workload.dataset is None or datasets.get(workload.dataset).status(root).state == "ready":
        return False
    fetch(datasets.get(workload.dataset), root)
    return True


def run_grid(spec: GridSpec, executor: Executor, view: View | None = None, options: Options | None = None) -> Outcome:
    """Run what is missing of a grid.

    Raises:
        UsageError: the grid, its workload or its data cannot be used; nothing was started.
        ResultsLockedError: another grid runs on the results folder.
        ExecutionError: the machines would not do what was asked.
        JournalError: the results folder can no longer be written.
    """
    view, options = view or Silent(), options or Options()
    store = resolve(options.results, options.tracking_uri, spec.tracking_uri)
    root = datasets.data_root()
    folder = grid_folder(options.results, spec.name)
    with closing(executor):
        nodes = executor.nodes(spec.environments)
        plan = make_plan(spec, nodes, root, options.where, executor.isolation)
        if any(cell.fit for cell in plan.cells) and ensure_data(plan.workload, root, view.fetch):
            plan = make_plan(spec, nodes, root, options.where, executor.isolation)  # what was fetched has a digest now
        with locked(options.results, f"the grid {spec.name}"):
            try:
                earlier = recovered(folder / JOURNAL)
                earlier, taken, words = completed_elsewhere(plan, folder / JOURNAL, earlier, store, options)
                if words:
                    view.note(words)
                session = _Session(plan, folder, root, store, earlier, options.fresh)
                session.run(missing(plan, earlier.attempts.values(), options, taken), executor, view)
            except JournalError as error:
                raise JournalError(f"{error}. {STOPPED}") from None
            return session.outcome(options.skip_missing)


class _Session:
    """One execution of a grid."""

    def __init__(self, plan: Plan, folder: Path, root: Path, store: Store, earlier: Earlier, fresh: bool) -> None:
        self._plan, self._folder, self._root, self._store = plan, folder, root, store
        self._known = earlier.attempts
        self._evidence = Evidence(() if fresh else earlier.events)
        self._executions = executions.ended(earlier.events)
        self._interrupted, self._ran = False, 0
        self._ended: dict[str, str] = {}
        self._warnings = list(earlier.warnings)

    def run(self, todo: Sequence[Work], executor: Executor, view: View) -> None:
        """Run what is missing; every event goes to the journal first, then to MLflow's writer and to the view."""
        skipped = self._newly_skipped()
        if skipped:
            with Journal(self._folder / JOURNAL) as journal:
                for event in skipped:
                    journal.append(event)
        if not todo:
            self._renew()
            return
        with Journal(self._folder / JOURNAL) as journal:
            begun, writable = events.now(), True
            view.begin(self._plan, todo, list(self._known.values()))
            writer = MlflowWriter(
                self._store,
                self._plan.spec.name,
                self._folder,
                self._known.values(),
                executions.named(begun),
                self._executions,
                warn=self._warnings.append,
                tell=view.warn,
            )

            def job(placement: Placement) -> Job:
                if placement.work.check:
                    view.checking(about(placement.work))
                made = make_job(self._plan, placement, self._folder, self._root)
                return self._evidence.complete(made, placement.work, self._folder)

            def sink(event: Event) -> None:
                journal.append(event)
                self._evidence.take(event)
                if event["event"] == "trial_ended":
                    self._ran += event["status"] != events.KILLED
                    self._ended[event["trial"]] = event["status"]
                writer.put(event)
                view.event(event)

            try:
                writer.wait_open()  # loading MLflow takes a core for seconds, which no trial is to pay
                works = self._evidence.with_checks(todo)
                executor.run(Dispatcher(works, self._plan.nodes, self._plan.spec.retries), job, sink)
            except KeyboardInterrupt:
                self._interrupted = True
            except JournalError:
                writable = False
                raise
            finally:
                try:
                    self._close(journal if writable else None, writer, view, begun)
                finally:
                    view.end()  # a second Ctrl-C must not leave the terminal without its cursor

    def _close(self, journal: Journal | None, writer: MlflowWriter, view: View, begun: str) -> None:
        """Keep what this execution comes to, where there is room for it, and bring MLflow up to date."""
        try:
            if journal:
                summary = self._summary(begun)
                executions.keep(journal, summary)
                self._keep_page(summary.files)
                writer.put_summary(summary)
        except OSError as error:
            raise JournalError(f"{self._folder}: {error.strerror or error}") from error
        finally:
            words = f"bringing MLflow up to date, for at most {PATIENCE:.0f} s"
            writer.close(progress=lambda left: view.end(f"{words}: {left} left"))

    def _newly_skipped(self) -> list[Event]:
        """What cannot run here, where the journal does not say so yet."""
        told = latest(self._known.values())
        return [
            events.trial_skipped(trial.trial_id, trial.cell.cell_id, trial.cell.skip)
            for trial in self._plan.trials
            if trial.cell.skip and trial.trial_id not in told
        ]

    def _wanted(self) -> Wanted:
        """What the plan asks for; a person's text may name a store with its password, which is taken out."""
        wanted, own = wanted_by(self._plan), self._plan.spec.tracking_uri or self._store.uri
        return replace(wanted, text=redact_text(redact_text(wanted.text, self._store.uri), own))

    def _report(self) -> Report:
        """The grid as it stands now, from its journal."""
        return of_events(self._plan.spec.name, list(told(self._folder / JOURNAL)), self._wanted(), self._warnings)

    def _summary(self, begun: str) -> Summary:
        """What the grid's own run in MLflow carries: the file, its grid, the plan, the comparison, the report."""
        from raybench.analysis.table import text

        report = self._report()
        found, rows = report.standing.latest, report.standing.rows
        plan = [
            {"trial": t.trial_id, "repeat": t.repeat, "seed": t.seed, "label": self._plan.label(t), "skip": t.cell.skip}
            for t in self._plan.trials
        ]
        effective = self._plan.spec.model_dump(mode="json", exclude_unset=True, exclude={"tracking_uri"})
        data = {
            EFFECTIVE: effective,
            PLAN: {"order_seed": self._plan.spec.seed, "trials": plan, "wanted": written(self._wanted())},
            "comparison.json": [asdict(row) for row in rows],
            "decay_proofs.json": [event for _, event in self._proved()],
        }
        ends = [found[t.trial_id].status or "unfinished" for t in self._plan.trials if t.trial_id in found]
        texts = {name: json.dumps(value, indent=1, default=str) for name, value in data.items()}
        texts |= {FILE: report.told.text, "comparison.txt": text(rows), **self._files(report)}
        return Summary(executions.named(begun), texts, Counter(ends), started=begun, ended=events.now())

    def _files(self, report: Report) -> dict[str, str]:
        """The report's files; that a figure cannot be drawn must not take the summary with it."""
        try:
            return files(report)
        except Exception as error:
            self._warnings.append(f"no report was made: {type(error).__name__}: {error}")
            return {}

    def _keep_page(self, made: Mapping[str, str]) -> None:
        try:
            keep_page(self._folder, made)
        except OSError as error:
            self._warnings.append(f"no page was written: {error}")

    def _renew(self) -> None:
        """Where nothing was to be run: make the page again if it is not of this grid as it is now, and mend MLflow."""
        catch_up(self._folder, self._store, self._plan.spec.name, self._warnings.append)
        if (self._folder / JOURNAL).is_file() and not page_is_current(self._folder, self._wanted()):
            self._keep_page(self._files(self._report()))

    def _proved(self) -> list[tuple[Proof, Event]]:
        return self._evidence.proofs.of(cell.content for cell in self._plan.cells if not cell.skip)

    def outcome(self, skip_missing: bool) -> Outcome:
        """The grid as it stands now, from its journal."""
        report = self._report()
        found = report.standing.latest
        own = {trial.trial_id: found[trial.trial_id] for trial in self._plan.trials if trial.trial_id in found}
        return Outcome(
            plan=self._plan,
            latest=own,
            report=report,
            ran=self._ran,
            ended=self._ended,
            folder=self._folder,
            store=self._store,
            interrupted=self._interrupted,
            skip_missing=skip_missing,
        )
