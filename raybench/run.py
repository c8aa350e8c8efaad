"""Run a grid from its file to its comparison; the Python API behind `raybench grid`."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from threading import Thread
from typing import Any
from uuid import uuid4

from raybench import datasets
from raybench.analysis.compare import Limits, check_logged, is_decided
from raybench.analysis.until import needed_repeats, progress_of
from raybench.checks.pretrial import PretrialChecks, describe, is_timed
from raybench.config import GridSpec
from raybench.core import events
from raybench.core.cell import BASE
from raybench.core.events import ENDS, Event, events_file
from raybench.core.files import FULL, write_atomic
from raybench.core.job import Job
from raybench.core.repeats import Progress
from raybench.core.secret_masking import mask
from raybench.core.status import TrialStatus
from raybench.errors import ExecutionError, ResultsError
from raybench.execution.base import Executor, Sink, Tell
from raybench.execution.common_failure import ALL_FAIL, CommonFailure
from raybench.execution.jobs import make_job
from raybench.execution.progress import ProgressListener
from raybench.execution.scheduler import AssignedWork, Dispatcher
from raybench.planning.plan import Plan, WorkItem, make_plan, request_of
from raybench.planning.resume import missing_work
from raybench.reporting.build import HTML, from_attempts, history_warnings, load_libraries, with_warnings
from raybench.reporting.report import Report
from raybench.results.executions import Execution
from raybench.results.folder import (
    ATTEMPTS,
    RESULTS,
    add_event,
    attempt_folder,
    event_files,
    grid_folder,
    has_end,
    read_events,
    results_id,
)
from raybench.results.grid_request import GridRequest, first_look, latest_request
from raybench.results.history import GridHistory
from raybench.results.lock import locked
from raybench.results.machines import as_requested
from raybench.results.run_table import Run, latest
from raybench.tracking.store import Store, resolve
from raybench.tracking.writer import PATIENCE_S, MlflowWriter, catch_up

DEFAULT_STORE = "default"
"""The MLflow store of the grid file, of MLFLOW_TRACKING_URI, or sqlite in the results folder."""

BUSY = "Other programs used {load} before the first trial: stop them (`top` lists them), or times are longer."
PASSIVE = """ If you cannot, set OMP_WAIT_POLICY=passive for all runs that you compare: threads that wait then leave \
their cores to other programs. Only on a quiet machine is that slower (a step of a small network took 2.3x as long)."""

STOPPED = """The grid has stopped; finished trials are kept. Make the folder writable and free disk space, then run \
the same command again for the rest."""


@dataclass(frozen=True)
class Options:
    """How a grid is run; no option can change a result.

    Attributes:
        results: the results folder.
        tracking: the URI of an MLflow store, or None to write nothing to MLflow. By default the store of the grid file,
            of MLFLOW_TRACKING_URI, or sqlite in the results folder.
        where: (axis, value as text): only these cells.
        retry: statuses of finished trials that are run again.
        rerun: run everything again.
        checks: run the weight-decay check and the roofline measurement before the trials.
        keep_going: run every trial even if all would fail in the same way.
        report: write the report's page and figures.
        limits: of a comparison of two versions, which is repeated until it is decided.
    """

    results: Path = RESULTS
    tracking: str | None = DEFAULT_STORE
    where: Sequence[tuple[str, str]] = ()
    retry: Collection[str] = ()
    rerun: bool = False
    checks: bool = True
    keep_going: bool = False
    report: bool = True
    limits: Limits | None = None


@dataclass(frozen=True)
class Outcome:
    """The results of one call of `run_grid`.

    Attributes:
        latest: the attempt that counts for each planned trial that has attempts (`raybench.results.run_table.latest`).
        report: the report of these results.
        ran: number of attempts that ended during this execution, without those that were killed.
        ended: last status of each trial that ended during this execution.
        history: attempts of the grid.
        store: the MLflow store, if there is one.
        warnings: messages for the user that are not results.
    """

    plan: Plan
    latest: Mapping[str, Run]
    report: Report
    ran: int
    ended: Mapping[str, str]
    history: GridHistory
    store: Store | None
    interrupted: bool = False
    warnings: Sequence[str] = ()

    @property
    def folder(self) -> Path:
        """The grid's own folder in the results folder."""
        return self.history.folder

    @property
    def exit_status(self) -> int:
        """The first that applies: 130 interrupted by the user, 1 a trial failed or was lost, 3 nothing could run, 0."""
        if self.interrupted:
            return 130
        statuses = {self.latest[t.trial_id].status for t in self.plan.trials if t.trial_id in self.latest}
        statuses |= set(self.ended.values())
        if any(status.is_failure for status in map(TrialStatus.parse, statuses) if status):
            return 1
        any_ran = bool(statuses - {TrialStatus.SKIPPED, None}) or not all(cell.skip for cell in self.plan.cells)
        return 0 if any_ran else 3


def run_grid(
    spec: GridSpec, executor: Executor, view: ProgressListener | None = None, options: Options | None = None
) -> Outcome:
    """Run the missing trials of a grid.

    Raises:
        UsageError: the grid, its workload or its data cannot be used; nothing was started.
        ResultsLockedError: another grid runs on the results folder.
        ExecutionError: the executor cannot run the trials on the machines.
        ResultsError: the results folder can no longer be written.
    """
    options = options or Options()
    view = view or ProgressListener()
    store = None
    if options.tracking is not None:
        uri = None if options.tracking == DEFAULT_STORE else options.tracking
        store = resolve(options.results, uri, spec.tracking_uri)
    root = datasets.data_root()
    folder = grid_folder(options.results, spec.name)
    with closing(executor):
        nodes = executor.nodes(spec.environments)
        plan = make_plan(spec, nodes, root, options.where)
        if any(cell.fit for cell in plan.cells) and datasets.ensure(plan.workload.dataset, root, view.fetch):
            plan = make_plan(spec, nodes, root, options.where)  # now with the digest of the data
        with locked(options.results, f"the grid {spec.name}"):
            history = GridHistory.read(folder)
            with _writing(folder):
                history.close_lost()
            session = _Session(plan, root, store, history, options)
            missing = missing_work(plan, history, options.retry, options.rerun)
            session.run(missing, executor, view)
            return session.outcome()


def decided_work(
    missing: Sequence[WorkItem], history: GridHistory, request: GridRequest
) -> tuple[Sequence[Progress], list[WorkItem], list[WorkItem]]:
    """Return how far each comparison of a grid is, the missing trials that this needs now, and the others."""
    if request.rule is None:
        return [], [*missing], []
    attempts, united = as_requested(history, replace(request, first_look=first_look(history, request)))
    assert united
    found = progress_of(attempts, united, is_decided if request.limits and request.rule.until is None else None)
    needed = needed_repeats(found, request)
    parts: tuple[list[WorkItem], list[WorkItem]] = [], []
    for work in missing:
        parts[work.trial.repeat >= needed[work.trial.cell.cell_id]].append(work)
    return found, *parts


@contextmanager
def _writing(folder: Path) -> Iterator[None]:
    """Convert errors of writing results to `ResultsError`."""
    try:
        yield
    except OSError as error:
        raise ResultsError(f"{error.filename or folder}: {error.strerror or error}. {STOPPED}") from None


class _Session:
    """One execution of a grid."""

    def __init__(self, plan: Plan, root: Path, store: Store | None, history: GridHistory, options: Options) -> None:
        self._plan, self._root, self._store, self._history = plan, root, store, history
        self._folder, self._options = history.folder, options
        with _writing(self._folder):
            self._origin = results_id(options.results.absolute())
        self._evidence = PretrialChecks(*(() if options.rerun else (history.checks, history.attempts.values())))
        self._interrupted, self._ran = False, 0
        self._execution: Execution | None = None
        self._ended: dict[str, str] = {}
        self._warnings = list(history.warnings)
        self._report: Report | None = None
        self._common_failure = CommonFailure(plan, [each.trial for each in history.attempts.values() if each.epochs])
        self._folders: dict[tuple[str, int], Path] = {}
        self._remote: set[Path] = set()

    def run(self, missing: Sequence[WorkItem], executor: Executor, view: ProgressListener) -> None:
        """Run the missing work, or what the grid's rule needs of it.

        Each event goes to the history, the MLflow writer and the view.
        """
        self._later = list(missing)
        _, todo = self._next_repeats()

        def tell(message: str) -> None:
            self._warnings.append(message)
            view.warn(message)

        if not todo:
            self._renew(tell)
            return
        execution = self._begin()

        def with_checks(work: Sequence[WorkItem]) -> Sequence[WorkItem]:
            return self._evidence.with_checks(work) if self._options.checks else work

        def more() -> Sequence[WorkItem]:
            progress, following = self._next_repeats()
            view.more(progress, following)
            return with_checks(following)

        dispatcher = Dispatcher(with_checks(todo), self._plan.nodes, self._plan.spec.retries, more)

        load = executor.host_load()  # before raybench starts processes of its own
        view.begin(self._plan, todo, self._history)
        if load and load.high:
            waits = load.busy > load.cores / 2 and "OMP_WAIT_POLICY" not in os.environ
            view.warn(BUSY.format(load=load) + (PASSIVE if waits else ""))

        writer = MlflowWriter(self._store, self._history, execution, tell, view.warn) if self._store else None
        reason: dict[str, Any] | None = None

        def job(placement: AssignedWork) -> Job:
            if writer and is_timed(placement.work):
                writer.wait_open()  # loading MLflow takes a core for seconds and would slow a timed trial
            if placement.work.check:
                view.checking(describe(placement.work))
            return self._job(placement)

        def sink(event: Event) -> Event | None:
            if event.get("status") in (TrialStatus.LOST, TrialStatus.KILLED):
                # It may have completed when its worker, which passes events on, was gone.
                unsent = self._unsent(event)
                end = next((each for each in unsent if each["event"] == "trial_ended"), {})
                if end.get("status") not in (None, TrialStatus.LOST):
                    for each in unsent:
                        record(each)
                    return end
            record(event)
            return None

        def record(event: Event) -> None:
            self._record(event)
            if writer:
                writer.put(event)
            view.event(event)
            stops = self._common_failure.stops(event) and not self._options.keep_going
            if stops and (left := dispatcher.stop()):
                tell(ALL_FAIL.format(left=left, total=len(todo)))
            error = event.get("error") or {}
            if event.get("status") == TrialStatus.LOST and error.get("disk_full") and self._is_local:
                raise ResultsError(f"{event['trial']}: {error['message']}. {STOPPED}")  # a retry would fail again

        try:
            executor.run(dispatcher, job, sink, view.warn)
        except KeyboardInterrupt:
            self._interrupted = True
            view.stopping()
        except ExecutionError as error:
            reason = {"type": "ExecutionError", "message": str(error)}
            raise
        except OSError as error:
            if error.errno not in FULL:
                raise
            raise ResultsError(f"{error.filename or self._folder}: {error.strerror}. {STOPPED}") from None
        finally:
            try:
                self._close_executor(executor)
                self._close_open(sink, reason)
                view.end("Writing the report")
                page = self._write_page(tell)
                if writer:
                    if page:
                        writer.put_file(page)
                    message = f"Updating MLflow (for at most {PATIENCE_S:.0f} s)"
                    writer.close(progress=lambda left: view.end(f"{message}: {left} left"))
            finally:
                view.end()  # a second Ctrl-C must not leave the terminal without its cursor

    def _next_repeats(self) -> tuple[Sequence[Progress], list[WorkItem]]:
        """Return how far each comparison is, and the missing trials that may run now."""
        is_first = self._execution is None
        # What a `--rerun` runs first does not depend on earlier results.
        history = GridHistory(self._folder) if self._options.rerun and is_first else self._history
        found, todo, self._later = decided_work(self._later, history, self._request)
        return found, todo

    def _begin(self) -> Execution:
        """Record what this execution is asked for, before its first trial."""
        request = self._request
        execution = self._execution = Execution.begin(
            self._origin, request.text, request.to_json(), self._options.rerun
        )
        with _writing(self._folder):
            execution.write(self._folder)
        self._history.executions.append(execution)
        return execution

    @property
    def _is_local(self) -> bool:
        return not any(node.address for node in self._plan.nodes)

    def _job(self, placement: AssignedWork) -> Job:
        job = make_job(self._plan, placement, self._folder, self._root)
        job = replace(job, labels={**job.labels, "origin": self._origin})
        job = self._evidence.complete(job, placement.work, self._folder)
        self._folders[job.trial, job.attempt] = Path(job.folder)
        return job

    def _folder_of(self, event: Event) -> Path:
        key = event["trial"], event["attempt"]
        if key not in self._folders:  # it was given up before it had a job
            self._folders[key] = attempt_folder(self._folder, event["trial"], uuid4().hex)
        return self._folders[key]

    def _unsent(self, event: Event) -> list[Event]:
        """The events of an attempt that its process has written and nobody has passed on."""
        file = events_file(self._folder_of(event))
        known = self._history.attempts.get((event["trial"], event["attempt"]))
        epochs = set(known.epochs.column("epoch")) if known else set()
        written = read_events(file, []) if file.is_file() else []
        return [
            each
            for each in written
            if each["event"] in ("trial_ended", "trial_audited")
            or (each["event"] == "trial_started" and (known is None or known.started is None))
            or (each["event"] == "epoch_ended" and each.get("epoch") not in epochs)
        ]

    def _record(self, event: Event) -> None:
        """Add an event to the history, and to its file if its process could not, as one on a different disk."""
        folder = self._folder_of(event)
        is_end = event["event"] in ENDS
        if event["event"] == "trial_started" and not events_file(folder).exists():
            self._remote.add(folder)
        if folder in self._remote or (is_end and not has_end(events_file(folder))):
            with _writing(folder):
                add_event(folder, event)
        self._history.take(event, folder.name)
        self._evidence.take(event)
        if event["event"] == "trial_ended":
            self._ran += event["status"] != TrialStatus.KILLED
            self._ended[event["trial"]] = event["status"]
            run, limits = self._history.attempts[event["trial"], event["attempt"]], self._options.limits
            if limits and run.status == TrialStatus.COMPLETED and run.cell.compared.version == BASE:
                check_logged(limits, run.last_metrics)  # at its first run, a name that is wrong stops the comparison

    def _close_open(self, sink: Sink, reason: Mapping[str, Any] | None) -> None:
        """End the attempts of this execution of which the executor has not reported the end."""
        status = TrialStatus.KILLED if self._interrupted else TrialStatus.LOST
        for key in self._folders:
            attempt = self._history.attempts.get(key)
            if attempt and attempt.status is None:
                with suppress(ResultsError):  # a full disk: the next command closes it
                    sink(events.trial_ended(*key, status, error=reason))

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

    @cached_property
    def _request(self) -> GridRequest:
        """The request of the plan, without passwords in URIs."""
        request = request_of(self._plan)
        limits = vars(self._options.limits) if self._options.limits else None
        return replace(request, text=mask(request.text), description=mask(request.description), limits=limits)

    def _current_report(self) -> Report:
        """The report of the grid; built once, since only warnings can be added afterwards."""
        if self._report is None:
            attempts, request = as_requested(self._history, latest_request(self._history) or self._request)
            checks = history_warnings(self._history)
            self._report = from_attempts(attempts, request or self._request, warnings=checks)
        self._report = with_warnings(self._report, self._warnings)
        return self._report

    def _write_page(self, tell: Tell) -> Path | None:
        """Write the report's page; an error becomes a warning."""
        if not self._options.report:
            return None
        from raybench.reporting.page import page

        path = self._folder / HTML
        try:
            write_atomic(path, page(self._current_report()))
        except Exception as error:
            tell(f"The report could not be made: {type(error).__name__}: {error}")
            return None
        return path

    def _renew(self, tell: Tell) -> None:
        """If no trial has to run: record a changed request, and bring the page and MLflow up to date."""
        if self._history.attempts:
            is_same = self._request.is_same(latest_request(self._history))
            if not is_same:
                self._begin()
            if not is_same or not self._page_is_current():
                self._write_page(tell)
        if self._store:
            catch_up(self._store, self._history, tell)

    def _page_is_current(self) -> bool:
        page = self._folder / HTML
        newest = max((path.stat().st_mtime_ns for path in event_files(self._folder, ATTEMPTS)), default=0)
        return page.is_file() and page.stat().st_mtime_ns >= newest

    def outcome(self) -> Outcome:
        """The results as they are now."""
        report = self._current_report()
        counted = latest(as_requested(self._history, self._request)[0])
        planned = {trial.trial_id: counted[trial.trial_id] for trial in self._plan.trials if trial.trial_id in counted}
        return Outcome(
            plan=self._plan,
            latest=planned,
            report=report,
            ran=self._ran,
            ended=self._ended,
            history=self._history,
            store=self._store,
            interrupted=self._interrupted,
            warnings=tuple(self._warnings),
        )
