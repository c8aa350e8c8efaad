"""Run a grid from its file to its comparison; the Python API behind `raybench grid`."""

from __future__ import annotations

import json
import signal
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, nullcontext
from dataclasses import asdict, dataclass, replace
from functools import cached_property, reduce
from pathlib import Path
from threading import Thread, current_thread, main_thread
from types import FrameType

from raybench import datasets
from raybench.analysis.cell_labels import differences, extended, without_repeat
from raybench.analysis.comparison import Row
from raybench.analysis.grid_request import (
    GridRequest,
    latest_request,
    request_of,
    request_of_all_sources,
    same_cells,
    to_dict,
)
from raybench.checks.pretrial import PretrialChecks, describe, is_timed
from raybench.checks.weight_decay.schedule import DecayCheckResult
from raybench.config import GridSpec
from raybench.core import events
from raybench.core.cell import Cell
from raybench.core.events import Event
from raybench.core.job import Job
from raybench.core.secret_masking import mask, mask_yaml
from raybench.core.status import TrialStatus
from raybench.errors import JournalError
from raybench.execution.base import Executor, TemporaryMessage
from raybench.execution.jobs import make_job
from raybench.execution.progress import ProgressListener, SilentListener
from raybench.execution.scheduler import AssignedWork, Dispatcher
from raybench.monitoring.host_load import HostLoad, LoadWatch
from raybench.planning.plan import Plan, Trial, WorkItem, make_plan
from raybench.planning.resume import missing_work
from raybench.reporting.build import files, from_history, load_libraries, page_is_current, write_page
from raybench.reporting.report import Report, has_finding, with_warnings, without_warning
from raybench.results import executions
from raybench.results.attempt import Attempt, latest
from raybench.results.executions import EFFECTIVE, GRID_FILE, PLAN, Summary
from raybench.results.history import GridHistory
from raybench.results.journal import JOURNAL, RESULTS, Journal, grid_folder
from raybench.results.lock import locked
from raybench.results.stored_events import ORIGIN
from raybench.tracking.store import Store, redact_text, resolve
from raybench.tracking.tracker import MlflowTracker, NoTracker, Tracker, Writer
from raybench.tracking.writer import PATIENCE

DEFAULT_STORE = "default"
"""The MLflow store of the grid file, of MLFLOW_TRACKING_URI, or sqlite in the results folder."""

BUSY = """Other programs used {load} before the first trial, so trials take longer and vary more. Stop them (`top` \
lists them) or run the grid later."""

STOPPED = """The grid has stopped; finished trials are kept. Make the folder writable and free disk space, then run \
the same command again for the rest."""


@dataclass(frozen=True)
class Options:
    """How a grid is run; no option can change a result.

    Attributes:
        results: the results folder.
        tracking: the URI of an MLflow store, another tracker (`raybench.tracking.tracker`), or None to track nothing.
            By default the store of the grid file, of MLFLOW_TRACKING_URI, or sqlite in the results folder.
        where: (axis, value as text): only these cells.
        retry: statuses of finished trials that are run again.
        rerun: run everything again.
        strict: exit with status 3 if any cell fits no node, even if other cells can run.
        checks: run the weight-decay check and the roofline measurement before the trials.
        report: write the report's page and figures.
    """

    results: Path = RESULTS
    tracking: str | Tracker | None = DEFAULT_STORE
    where: Sequence[tuple[str, str]] = ()
    retry: Collection[str] = ()
    rerun: bool = False
    strict: bool = False
    checks: bool = True
    report: bool = True


@dataclass(frozen=True)
class Outcome:
    """The results of one call of `run_grid`.

    Attributes:
        latest: the attempt that counts for each planned trial that has attempts (`raybench.results.attempt.latest`).
        report: the report of these results; its `rows` are the comparison, one row per cell.
        ran: number of attempts that ended during this execution, without those that were killed.
        ended: last status of each trial that ended during this execution.
        history: events and attempts of the grid.
        store: the MLflow store, if there is one.
    """

    plan: Plan
    latest: Mapping[str, Attempt]
    report: Report
    ran: int
    ended: Mapping[str, str]
    history: GridHistory
    store: Store | None
    interrupted: bool = False
    strict: bool = False

    @property
    def rows(self) -> list[Row]:
        """The comparison, one row per cell."""
        return self.report.results.rows

    @property
    def warnings(self) -> tuple[str, ...]:
        """Warnings for the user that are not part of the results."""
        return tuple(self.report.context.warnings)

    @property
    def folder(self) -> Path:
        """The grid's own folder in the results folder."""
        return self.history.folder

    @property
    def journal(self) -> Path:
        """Path of the journal, which holds every event of the grid."""
        return self.folder / JOURNAL

    @property
    def exit_status(self) -> int:
        """The first that applies: 130 interrupted by the user, 1 a trial failed or was lost, 3 nothing could run, 0.

        With `strict`, 3 if any cell could not run here.
        """
        if self.interrupted:
            return 130
        statuses = {self.latest[t.trial_id].status for t in self.plan.trials if t.trial_id in self.latest}
        statuses |= set(self.ended.values())
        if any(status.is_failure for status in map(TrialStatus.parse, statuses) if status):
            return 1
        any_ran = bool(statuses - {TrialStatus.SKIPPED, None}) or not all(cell.skip for cell in self.plan.cells)
        return 3 if any(cell.skip for cell in self.plan.cells) and (self.strict or not any_ran) else 0


def run_grid(
    spec: GridSpec, executor: Executor, view: ProgressListener | None = None, options: Options | None = None
) -> Outcome:
    """Run the missing trials of a grid.

    Raises:
        UsageError: the grid, its workload or its data cannot be used; nothing was started.
        ResultsLockedError: another grid runs on the results folder.
        ExecutionError: the executor cannot run the trials on the machines.
        JournalError: the results folder can no longer be written.
    """
    options = options or Options()
    view = view or SilentListener()
    tracker = _tracker(spec, options)
    root = datasets.data_root()
    folder = grid_folder(options.results, spec.name)
    with closing(executor):
        nodes = executor.nodes(spec.environments)
        plan = make_plan(spec, nodes, root, options.where)
        if any(cell.fit for cell in plan.cells) and datasets.ensure(plan.workload.dataset, root, view.fetch):
            plan = make_plan(spec, nodes, root, options.where)  # now with the digest of the data
        with locked(options.results, f"the grid {spec.name}"):
            try:
                history = GridHistory.recover(folder / JOURNAL)
                session = _Session(plan, root, tracker, history, options)
                todo = missing_work(plan, history.attempts.values(), options.retry, options.rerun)
                session.run(todo, executor, view)
            except JournalError as error:
                raise JournalError(f"{error}. {STOPPED}") from None
            return session.outcome()


def _tracker(spec: GridSpec, options: Options) -> Tracker:
    if options.tracking is None:
        return NoTracker()
    if isinstance(options.tracking, str):
        uri = None if options.tracking == DEFAULT_STORE else options.tracking
        return MlflowTracker(resolve(options.results, uri, spec.tracking_uri))
    return options.tracking


@contextmanager
def _announced_interrupt(view: ProgressListener) -> Iterator[None]:
    """Tell the view of Ctrl-C at once: the exception reaches it only when Ray's own clean-up has ended."""
    old_handler = signal.getsignal(signal.SIGINT)
    if not callable(old_handler) or current_thread() is not main_thread():
        yield
        return
    announced = False

    def handler(number: int, frame: FrameType | None) -> None:
        nonlocal announced
        if not announced:
            announced = True
            view.stopping()
        old_handler(number, frame)

    signal.signal(signal.SIGINT, handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, old_handler)


class _Session:
    """One execution of a grid."""

    def __init__(self, plan: Plan, root: Path, tracker: Tracker, history: GridHistory, options: Options) -> None:
        self._plan, self._root, self._tracker, self._history = plan, root, tracker, history
        self._folder, self._options = history.folder, options
        self._store = tracker.store if isinstance(tracker, MlflowTracker) else None
        self._labelled: dict[str, dict[str, Cell]] = {}
        for attempt in history.attempts.values():
            if attempt.label:
                self._labelled.setdefault(without_repeat(attempt.label), {})[attempt.cell_id] = attempt.cell
        # The checks of another machine prove nothing about this one.
        own_events = [event for event in history.events if not event.get(ORIGIN)]
        self._evidence = PretrialChecks(*(() if options.rerun else (own_events, history.attempts.values())))
        self._interrupted, self._ran = False, 0
        self._ended: dict[str, str] = {}
        self._warnings = list(history.warnings)
        self._report: Report | None = None
        self._reported_warnings = 0
        self._busy = False
        self._busy_warning = ""

    def run(self, todo: Sequence[WorkItem], executor: Executor, view: ProgressListener) -> None:
        """Run the given work.

        Each event goes to the journal first, then to the MLflow writer and the view.
        """
        skipped = self._newly_skipped()
        if skipped:
            with Journal(self._history.path) as journal:
                for event in skipped:
                    self._history.take(journal.append(event))
        if not todo:
            self._renew()
            return
        with Journal(self._history.path) as journal:
            started_at, writable = events.now(), True
            is_local = not any(node.address for node in self._plan.nodes)

            def tell(message: str) -> None:
                if not isinstance(message, TemporaryMessage):
                    self._warnings.append(message)
                view.warn(message)

            load = executor.host_load()  # before raybench starts processes of its own
            view.begin(self._plan, todo, self._history)
            if load and load.high:
                self._busy = True
                self._busy_warning = BUSY.format(load=load)
                tell(self._busy_warning)
            elif load:
                view.busy("")

            def watch(load: HostLoad) -> None:
                self._busy = load.high
                view.busy(f"Other programs use {load}." if load.high else "")

            writer = self._tracker.open(
                self._plan.spec.name,
                self._history,
                executions.execution_name(started_at),
                warn=self._warnings.append,
                tell=view.warn,
            )

            waited = False

            def job(placement: AssignedWork) -> Job:
                nonlocal waited
                if is_timed(placement.work) and not waited:
                    waited = True
                    writer.wait_open()  # loading MLflow takes a core for seconds and would slow a timed trial
                if placement.work.check:
                    view.checking(describe(placement.work))
                new_job = make_job(self._plan, placement, self._folder, self._root)
                label = {**new_job.labels, "label": self._label(placement.work.trial)}
                new_job = replace(new_job, labels=label, host_busy=self._busy)
                return self._evidence.complete(new_job, placement.work, self._folder)

            def sink(event: Event) -> Event | None:
                if event.get("status") == TrialStatus.LOST:
                    # It may have completed when its worker, which passes events on, was gone.
                    unsent = self._history.unsent((event["trial"], event["attempt"]))
                    end = next((each for each in unsent if each["event"] == "trial_ended"), {})  # the audit follows it
                    if end.get("status") not in (None, TrialStatus.LOST):
                        for each in unsent:
                            record(each)
                        return end
                record(event)
                return None

            def record(event: Event) -> None:
                event = journal.append(event)
                self._history.take(event)
                self._evidence.take(event)
                if event["event"] == "trial_ended":
                    self._ran += event["status"] != TrialStatus.KILLED
                    self._ended[event["trial"]] = event["status"]
                writer.put(event)
                view.event(event)
                error = event.get("error") or {}
                if event.get("status") == TrialStatus.LOST and error.get("disk_full") and is_local:
                    raise JournalError(f"{event['trial']}: {error['message']}")  # a retry would fail in the same way

            try:
                works = self._evidence.with_checks(todo) if self._options.checks else todo
                with _announced_interrupt(view), LoadWatch(watch) if self._busy else nullcontext():
                    executor.run(Dispatcher(works, self._plan.nodes, self._plan.spec.retries), job, sink, tell)
                self._close_executor(executor)
            except KeyboardInterrupt:
                self._interrupted = True
            except JournalError:
                writable = False
                raise
            finally:
                try:
                    self._close(journal if writable else None, writer, view, started_at)
                finally:
                    view.end()  # a second Ctrl-C must not leave the terminal without its cursor

    def _close_executor(self, executor: Executor) -> None:
        """Close the executor and load the report's libraries meanwhile, because ending Ray is mostly waiting."""
        if not self._options.report:
            executor.close()
            return
        # Waited for: an interpreter that exits while a thread imports a C++ extension can abort.
        loader = Thread(target=load_libraries, name="raybench-report")
        loader.start()
        try:
            executor.close()
        finally:
            loader.join()

    def _close(self, journal: Journal | None, writer: Writer, view: ProgressListener, started_at: str) -> None:
        """Record the execution in the journal, write the page, and update MLflow."""
        try:
            if journal:
                view.end("Writing the report")
                summary = self._summary(started_at)
                self._history.take(executions.write_execution(journal, summary))
                self._keep_page(summary.files)
                writer.put_summary(summary)
        except OSError as error:
            raise JournalError(f"{self._folder}: {error.strerror or error}") from error
        finally:
            message = f"Updating MLflow (for at most {PATIENCE:.0f} s)"
            writer.close(progress=lambda left: view.end(f"{message}: {left} left"))

    def _newly_skipped(self) -> list[Event]:
        """`trial_skipped` events for skipped trials without an attempt in the journal."""
        known_attempts = latest(self._history.attempts.values())
        return [
            events.trial_skipped(trial.trial_id, trial.cell.cell_id, trial.cell.skip)
            for trial in self._plan.trials
            if trial.cell.skip and trial.trial_id not in known_attempts
        ]

    def _label(self, trial: Trial) -> str:
        """The label of a trial, made unique among cells.

        The settings that differ are added if earlier runs of another cell share the label.
        """
        label, cell = self._plan.label(trial), trial.cell
        cells = self._labelled.get(without_repeat(label), {})
        other_contents = [content for cell_id, content in cells.items() if cell_id != cell.cell_id]
        return extended(label, differences(cell.cell_id, cell.content, other_contents)) if other_contents else label

    @cached_property
    def _wanted(self) -> GridRequest:
        """The request of the plan, without secrets and passwords of store URIs."""
        request = request_of(self._plan)
        uris = [self._store.uri if self._store else None, self._plan.spec.tracking_uri]
        text = reduce(redact_text, filter(None, uris), mask_yaml(request.text))
        return replace(request, text=text, description=mask(request.description))

    def _current_report(self) -> Report:
        """The report of the grid; built once, since only warnings can be added afterwards."""
        if self._report is None:
            request = request_of_all_sources(self._history, self._wanted)
            self._report = from_history(self._plan.spec.name, self._history, request, self._warnings)
            if self._busy_warning in self._warnings and has_finding(self._report, "busy_host"):
                # The finding says how busy the machine was during the runs themselves.
                self._report = without_warning(self._report, self._busy_warning)
        else:
            later = self._warnings[self._reported_warnings :]
            self._report = with_warnings(self._report, later, self._reported_warnings)
        self._reported_warnings = len(self._warnings)
        return self._report

    def _summary(self, started_at: str) -> Summary:
        """The contents of the grid's own MLflow run: grid file, effective grid, plan, comparison, report."""
        from raybench.reporting.comparison_table import text

        report = self._current_report()
        attempts, rows = report.results.latest, report.results.rows
        effective = self._plan.spec.model_dump(mode="json", exclude_unset=True, exclude={"tracking_uri"})
        data = {
            EFFECTIVE: mask(effective),
            PLAN: {"order_seed": self._plan.spec.seed, "wanted": to_dict(self._wanted)},
            "comparison.json": [asdict(row) for row in rows],
            "decay_proofs.json": [event for _, event in self._proved()],
        }
        statuses = [attempts[t.trial_id].status or "unfinished" for t in self._plan.trials if t.trial_id in attempts]
        # Indented, a large plan takes ten times as long to write: Python has no C code for that.
        texts = {name: json.dumps(value, default=str) for name, value in data.items()}
        texts |= {
            GRID_FILE: report.context.text,
            "comparison.txt": text(rows, best_first=report.best_first),
            **self._files(report),
        }
        name = executions.execution_name(started_at)
        return Summary(name, texts, Counter(statuses), started_at, events.now(), interrupted=self._interrupted)

    def _files(self, report: Report) -> dict[str, str]:
        """The report's files.

        An error in making them becomes a warning, so that the summary is kept.
        """
        if not self._options.report:
            return {}
        try:
            return files(report)
        except Exception as error:
            self._warnings.append(f"The report could not be made: {type(error).__name__}: {error}")
            return {}

    def _keep_page(self, files: Mapping[str, str]) -> None:
        try:
            write_page(self._folder, files)
        except OSError as error:
            self._warnings.append(f"The report could not be written: {error}")

    def _renew(self) -> None:
        """If no trial has to run: rewrite an outdated page and bring MLflow up to date."""
        path = self._history.path
        runnable = any(not cell.skip for cell in self._plan.cells)
        if path.is_file() and not page_is_current(self._history, self._wanted):
            if runnable and not same_cells(latest_request(self._history), self._wanted):
                # The requested cells have changed: `report` and `load` use the request of the last execution.
                summary = self._summary(events.now())
                with Journal(path) as journal:
                    self._history.take(executions.write_execution(journal, summary))
                self._keep_page(summary.files)
            else:
                self._keep_page(self._files(self._current_report()))
        self._tracker.catch_up(self._plan.spec.name, self._history, self._warnings.append)

    def _proved(self) -> list[tuple[DecayCheckResult, Event]]:
        return self._evidence.proofs.of(cell.content for cell in self._plan.cells if not cell.skip)

    def outcome(self) -> Outcome:
        """The results as they are now."""
        report = self._current_report()
        latest = report.results.latest
        planned = {trial.trial_id: latest[trial.trial_id] for trial in self._plan.trials if trial.trial_id in latest}
        return Outcome(
            plan=self._plan,
            latest=planned,
            report=report,
            ran=self._ran,
            ended=self._ended,
            history=self._history,
            store=self._store,
            interrupted=self._interrupted,
            strict=self._options.strict,
        )
