"""One execution of a grid: plans what is missing, records each event, decides what follows, writes the report."""

from __future__ import annotations

import os
import time
import webbrowser
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from threading import Thread
from typing import Any
from uuid import uuid4

from raybench.analysis.compare import check_logged, is_decided
from raybench.analysis.until import needed_repeats, progress_of
from raybench.analysis.versions import Limits
from raybench.checks.pretrial import PretrialChecks, describe, is_timed
from raybench.config.values import seconds_of
from raybench.core import events
from raybench.core.cell import BASE
from raybench.core.events import ENDS, Event, events_file
from raybench.core.files import FULL, write_atomic
from raybench.core.job import Job
from raybench.core.options import GridOptions
from raybench.core.repeats import Progress
from raybench.core.secret_masking import mask, masked
from raybench.core.status import TrialStatus
from raybench.core.text import join_words, plural
from raybench.devices import KINDS, hosted
from raybench.errors import ExecutionError, ResultsError
from raybench.execution.base import Executor
from raybench.execution.common_failure import ALL_FAIL, CommonFailure
from raybench.execution.jobs import make_job
from raybench.execution.progress import ProgressListener
from raybench.execution.schedule import Schedule, ScheduledTrial
from raybench.monitoring.host import HostLoad, LoadMeter
from raybench.planning.node import Node
from raybench.planning.placement import ResourceRequest
from raybench.planning.plan import Check, Plan, WorkItem, make_plan, request_of
from raybench.planning.resume import missing_work
from raybench.planning.spending import Spending
from raybench.reporting.build import from_attempts, history_warnings, load_libraries, with_warnings
from raybench.reporting.report import Report
from raybench.reporting.words.status import running_sentence
from raybench.results.executions import Execution
from raybench.results.folder import ATTEMPTS, REPORT, add_event, attempt_folder, event_files, has_end, results_id
from raybench.results.grid_request import GridRequest, first_look, latest_request
from raybench.results.history import GridHistory
from raybench.results.machines import as_requested
from raybench.results.run_table import Key
from raybench.tracking.mapping import Result
from raybench.tracking.store import Store
from raybench.tracking.writer import PATIENCE_S, MlflowWriter, catch_up, is_incomplete

BUSY = "Other programs used {load} before the first trial: stop them (`top` lists them), or times are longer."
PASSIVE = """ If you cannot, set OMP_WAIT_POLICY=passive for all runs that you compare (with `--rerun` for those that \
ended): threads that wait then leave their cores to other programs. On a quiet machine that is slower."""

LOOK_EVERY_S = 5.0
"""Seconds between two looks at the load of other programs."""

STOPPED = """The grid has stopped; finished trials are kept. Make the folder writable and free disk space, then run \
the same command again for the rest."""

MAX_DUTY = 0.01
"""Of the time of a core, that the page of a running grid takes while trials run."""

INCOMPLETE = "The grid has stopped; put the folder back, or run the same command again for what is missing."


def open_in_browser(address: str) -> bool:
    """Open an address in the user's browser, if there is one with a window: others would take over the terminal."""
    try:
        browser = webbrowser.get()
    except webbrowser.Error:
        return False
    is_in_terminal = type(browser) is webbrowser.GenericBrowser and "BROWSER" not in os.environ
    return not is_in_terminal and browser.open(address)


@contextmanager
def writing(folder: Path) -> Iterator[None]:
    """Convert errors of writing results to `ResultsError`."""
    try:
        yield
    except OSError as error:
        raise ResultsError(f"{error.filename or folder}: {error.strerror or error}. {STOPPED}") from None


def decided_work(
    missing: Sequence[WorkItem], history: GridHistory, request: GridRequest
) -> tuple[Sequence[Progress], list[WorkItem], list[WorkItem]]:
    """Return how far each comparison of a grid is, the missing trials that this needs now, and the others."""
    if request.rule is None:
        return [], [*missing], []
    attempts, united = as_requested(history, replace(request, first_look=first_look(history, request)))
    assert united
    progress = progress_of(attempts, united, is_decided if request.limits and request.rule.until is None else None)
    needed = needed_repeats(progress, request)
    parts: tuple[list[WorkItem], list[WorkItem]] = [], []
    for work in missing:
        parts[work.trial.repeat >= needed[work.trial.cell.cell_id]].append(work)
    return progress, *parts


def _nodes_text(request: ResourceRequest) -> str:
    """The nodes that a trial needs, in words."""
    needs = {} if hosted(request.kind) else {KINDS[request.kind].label: float(request.count)}
    needs |= {"core": float(request.cpus)} if request.cpus else {}
    needs |= dict(request.resources)
    text = join_words([f"{amount:g} x {name}" for name, amount in needs.items()])
    return f"{plural(request.nodes, 'node')}{f' with {text}' if text else ''}"


class Session:
    """One execution of a grid.

    Args:
        root: the folder of data sets.
        limits: of a comparison of two versions, which is repeated until it is decided.

    Attributes:
        plan: also of nodes that were started meanwhile.
        interrupted: whether the user stopped it.
        ended: last status of each trial that ended during it.
        ran: number of attempts that ended during it, without those that were killed.
        warnings: messages for the user that are not results.
    """

    def __init__(
        self,
        plan: Plan,
        root: Path,
        store: Store | None,
        history: GridHistory,
        options: GridOptions,
        executor: Executor,
        view: ProgressListener,
        limits: Limits | None = None,
    ) -> None:
        self.plan, self._root, self._store, self._history = plan, root, store, history
        self._folder, self._options, self._executor, self._view = history.folder, options, executor, view
        self._limits = limits
        self._spending = Spending(plan, options.spend, options.within)
        wait = options.wait_for_quiet
        self._wait_s = None if wait is None else seconds_of(wait, "--wait-for-quiet")
        with writing(self._folder):
            self._origin = results_id(options.folder.absolute())
        self._checks = PretrialChecks(*(() if options.rerun else (history.checks, history.attempts.values())))
        self._common_failure = CommonFailure(plan, [run.trial for run in history.attempts.values() if run.epochs])
        self._later: list[WorkItem] = []  # missing trials that no comparison needs yet
        self._execution: Execution | None = None
        self._writer: MlflowWriter | None = None
        self._folders: dict[Key, Path] = {}
        self._report: Report | None = None
        self._page_is_due, self._page_written, self._page_s = False, 0.0, 0.0  # of a running grid, and how long it took
        self.interrupted, self.ran = False, 0
        self.ended: dict[str, str] = {}
        self.warnings = list(history.warnings)

    def run(self, missing: Sequence[WorkItem]) -> None:
        """Run the missing trials, or those that the grid's rule needs of them."""
        self._later = list(missing)
        _, todo = self._next_repeats()
        wanted = self._wanted()
        if not todo and not wanted:
            self._renew()
            return
        self._todo = len(todo)
        self._begin()
        self._schedule = Schedule(
            self._with_checks(todo),
            self.plan.nodes,
            self.plan.spec.retries,
            self._more,
            wanted,
            60.0 * self._options.wait_for_nodes,
            self._arrived,
            self._options.open,
        )
        load = self._quiet(self._executor.host_load())  # before raybench starts processes of its own
        self._view.begin(self.plan, todo, self._history, wanted)
        if load and load.high:
            self._view.warn(BUSY.format(load=load) + (PASSIVE if "OMP_WAIT_POLICY" not in os.environ else ""))
        if self._options.open:
            self._write_live_page()
            self._open_page()
        if self._store:
            self._writer = MlflowWriter(self._store, self._history, self.tell, self._view.warn)
        for device, request in wanted.items():
            self._view.waiting(f"Waiting for {_nodes_text(request)} for {device}, which the cluster starts")
        reason: dict[str, Any] | None = None
        try:
            self._executor.run(self._schedule, self._job, self._record, self._view.warn)
            self._check_folder()
        except KeyboardInterrupt:
            self.interrupted = True
            self._view.stopping()
        except ExecutionError as error:
            reason = {"type": "ExecutionError", "message": str(error)}
            raise
        except OSError as error:
            if error.errno not in FULL:
                raise
            raise ResultsError(f"{error.filename or self._folder}: {error.strerror}. {STOPPED}") from None
        finally:
            try:
                self._close(reason)
            finally:
                self._view.end()  # a second Ctrl-C must not leave the terminal without its cursor

    def _quiet(self, load: HostLoad | None) -> HostLoad | None:
        """Wait until other programs leave the cores, as long as the user says; return their last load."""
        seconds = self._wait_s
        if load and load.high and seconds is None:
            seconds = self._view.seconds_to_wait(load)
        ends = time.monotonic() + (seconds or 0.0)
        while load and load.high and time.monotonic() < ends:
            self._view.waiting(f"Waiting for other programs, which use {load}, for at most {seconds:.0f} s")
            time.sleep(min(LOOK_EVERY_S, max(0.0, ends - time.monotonic())))
            load = LoadMeter().read()
        return load

    def tell(self, message: str) -> None:
        """Show a warning and keep it for the report."""
        self.warnings.append(message)
        self._view.warn(message)

    def _with_checks(self, work: Sequence[WorkItem]) -> Sequence[WorkItem]:
        return self._checks.with_checks(work) if self._options.checks else work

    def _next_repeats(self) -> tuple[Sequence[Progress], list[WorkItem]]:
        """Return how far each comparison is, and the missing trials that may run now."""
        is_first = self._execution is None
        # What a `--rerun` runs first does not depend on earlier results.
        history = GridHistory(self._folder) if self._options.rerun and is_first else self._history
        progress, todo, self._later = decided_work(self._later, history, self.request)
        return progress, todo

    def _more(self) -> Sequence[WorkItem]:
        """Return the trials that the results so far ask for, when all others have ended."""
        progress, following = self._next_repeats()
        if following and (reason := self._spending.stops(0)):
            self.tell(f"{reason}: {plural(len(following), 'trial')} that should follow did not run")
            following = []
        self._view.more(progress, following)
        return self._with_checks(following)

    def _wanted(self) -> Mapping[str, ResourceRequest]:
        """The resources of the devices that no node has yet, if the cluster starts nodes."""
        wanted = self.plan.wanted if self._options.wait_for_nodes else {}
        return wanted if wanted and self._executor.starts_nodes() else {}

    def _arrived(self, device: str, nodes: Sequence[Node]) -> Sequence[WorkItem]:
        """Plan again with the nodes that were started for a device; return its trials."""
        skipped = [cell for cell in self.plan.cells if cell.profile == device]
        self.plan = make_plan(self.plan.spec, [*self.plan.nodes, *nodes], self._root)
        cells = {cell.cell_id for cell in self.plan.cells if cell.profile == device and not cell.skip}
        if not cells:
            reason = next((str(cell.skip) for cell in self.plan.cells if cell.profile == device), "")
            if not nodes:
                reason = f"no node came within {self._options.wait_for_nodes:g} min"
            self.tell(f"{device}: {plural(len(skipped), 'configuration')} skipped: {reason}")
            return []
        self._view.waiting(f"{join_words([node.name for node in nodes])} was started for {device}")
        del self.request
        assert self._execution
        self._execution = replace(self._execution, request=self.request.to_json())
        with writing(self._folder):
            self._execution.write(self._folder)
        self._history.executions[-1] = self._execution
        self._common_failure = CommonFailure(
            self.plan, [run.trial for run in self._history.attempts.values() if run.epochs]
        )
        missing = missing_work(self.plan, self._history, self._options.retry, self._options.rerun)
        self._later += [work for work in missing if work.trial.cell.cell_id in cells]
        progress, todo = self._next_repeats()
        self._todo += len(todo)
        self._view.more(progress, todo)
        return self._with_checks(todo)

    def _begin(self) -> None:
        """Record the request of this execution, before its first trial."""
        request = self.request
        execution = self._execution = Execution.begin(
            self._origin,
            request.text,
            request.to_json(),
            self._options.rerun,
            self._history.executions,
            self.plan.workload.folder or str((self.plan.spec.source_path or Path("grid")).parent),
        )
        with writing(self._folder):
            execution.write(self._folder)
        self._history.executions.append(execution)

    def _job(self, assignment: ScheduledTrial, check: Check | None) -> Job:
        if self._page_is_due:
            self._write_live_page()
        if self._writer and is_timed(check):
            self._writer.wait_open()  # loading MLflow takes a core for seconds and would slow a timed trial
        if check:
            self._view.checking(describe(assignment.work, check))
        job = make_job(self.plan, assignment, self._folder, self._root)
        clock, name = self._history.output_clock(job.cell), self._execution.name if self._execution else None
        job = replace(job, labels={**job.labels, "origin": self._origin, "execution": name}, output_clock=clock)
        job = self._checks.complete(job, assignment.work, check, self._folder)
        self._folders[job.trial, job.attempt] = Path(job.folder)
        return job

    def _record(self, event: Event) -> None:
        """Add an event to the history, MLflow and the display; its process has written it, unless it was lost."""
        key = event["trial"], event["attempt"]
        if key not in self._folders:  # it was given up before it had a job
            self._folders[key] = attempt_folder(self._folder, event["trial"], uuid4().hex)
        folder = self._folders[key]
        if event["event"] in ENDS and not has_end(events_file(folder)):
            with writing(folder):
                add_event(folder, event)
        self._history.take(event, folder.name)
        self._checks.take(event)
        if event["event"] == "trial_ended":
            self._trial_ended(key, event)
        if self._writer:
            self._writer.put(event)
        self._view.event(event)
        stops = self._common_failure.stops(event) and not self._options.keep_going
        if stops and (removed := self._schedule.stop()):
            self.tell(ALL_FAIL.format(left=removed, total=self._todo))
        error = event.get("error") or {}
        is_local = not any(node.address for node in self.plan.nodes)
        if event.get("status") == TrialStatus.LOST and error.get("disk_full") and is_local:
            raise ResultsError(f"{event['trial']}: {error['message']}. {STOPPED}")  # a retry would fail again

    def _check_folder(self) -> None:
        """Check that the results are where they were: a new folder of that name would not get all of them."""
        if self._execution and not self._execution.path(self._folder).is_file():
            raise ResultsError(f"{self._folder}: removed, moved or replaced while the grid ran. {INCOMPLETE}")

    def _trial_ended(self, key: Key, event: Event) -> None:
        self._check_folder()
        self._page_is_due = self._options.open
        self.ran += event["status"] != TrialStatus.KILLED
        self.ended[event["trial"]] = event["status"]
        run = self._history.attempts[key]
        self._spending.add(run)
        others = self._schedule.running - 1  # the trial is released after this event
        if self._schedule.waiting and (reason := self._spending.stops(others)):
            self.tell(f"{reason}: {plural(self._schedule.stop(), 'trial')} that could have followed did not run")
        if self._limits and run.status == TrialStatus.COMPLETED and run.cell.compared.version == BASE:
            check_logged(self._limits, self.request, run.last_metrics)  # a wrong name stops it at its first run

    def _close(self, reason: Mapping[str, Any] | None) -> None:
        """End the executor and the trials that still run, and write the report and MLflow's runs."""
        self._close_executor()
        self._close_open(reason)
        self._view.end("Writing the report")
        result = self._write_page()
        if self._writer:
            message = f"Updating MLflow (for at most {PATIENCE_S:.0f} s)"
            self._writer.close(result, progress=lambda events: self._view.end(f"{message}: {events} left"))

    def _close_executor(self) -> None:
        """Close the executor and load the report's libraries meanwhile, because ending Ray is mostly waiting."""
        if not self._options.report:
            self._executor.close()
            return
        # Waited for: an interpreter that exits while a thread imports a C++ extension can abort.
        loader = Thread(target=load_libraries, name="raybench-report")
        loader.start()
        try:
            self._executor.close()
        finally:
            loader.join()

    def _close_open(self, reason: Mapping[str, Any] | None) -> None:
        """End the attempts of this execution of which the executor has not reported the end."""
        status = TrialStatus.KILLED if self.interrupted else TrialStatus.LOST
        for key in list(self._folders):
            attempt = self._history.attempts.get(key)
            if attempt and attempt.status is None:
                with suppress(ResultsError):  # a full disk: the next command closes it
                    self._record(events.trial_ended(*key, status, error=reason))

    @cached_property
    def request(self) -> GridRequest:
        """The request of this execution, without passwords in URIs or credentials in parameters."""
        request = request_of(self.plan)
        limits = vars(self._limits) if self._limits else None
        request = replace(request, limits=limits, these_machines=self._options.these_machines)
        cells = [replace(c, axes=masked(c.axes), content=c.content.without_secrets()) for c in request.cells]
        secrets = {str(v): str(masked(c.axes)[name]) for c in request.cells for name, v in c.axes.items()}
        text, part = mask(request.text), mask(request.part)
        for value, hidden in secrets.items():
            if hidden != value:  # a list in the text has no names
                text, part = text.replace(value, hidden), part.replace(value, hidden)
        request = replace(request, text=text, part=part, description=mask(request.description))
        return replace(request, cells=cells, baseline=masked(request.baseline))

    def report(self) -> Report:
        """Return the report of the grid; built once, since only warnings can be added afterwards."""
        if self._report is None:
            self._report = self._make_report()
        self._report = with_warnings(self._report, self.warnings)
        return self._report

    def _make_report(self) -> Report:
        attempts, request = as_requested(self._history, latest_request(self._history) or self.request)
        checks = history_warnings(self._history)
        executions = self._history.executions
        return from_attempts(attempts, request or self.request, warnings=checks, executions=executions)

    def _write_live_page(self) -> None:
        """Write the page of what has ended, without an answer; an error becomes a warning.

        Between two trials that costs no trial anything. While others run, here or on other nodes, it takes at most
        MAX_DUTY of a core.
        """
        from raybench.reporting.page import page

        others = self._schedule.running - 1  # without the trial that is about to start
        if others > 0 and time.monotonic() - self._page_written < self._page_s / MAX_DUTY:
            return
        self._page_is_due, began = False, time.monotonic()
        try:
            report = self._make_report()
            may_end_earlier = self.plan.spec.rule is not None
            running = running_sentence(report.answer, report.made, may_end_earlier, self._page_s)
            write_atomic(self._folder / REPORT, page(report, running))
        except Exception as error:
            self.tell(f"The report of the running grid could not be made: {type(error).__name__}: {error}")
        self._page_written = time.monotonic()
        self._page_s = self._page_written - began

    def _open_page(self) -> None:
        address = (self._folder / REPORT).as_uri()
        if not open_in_browser(address):
            self._view.no_browser(address)

    def _write_page(self) -> Result | None:
        """Write the report's page, and return what MLflow shows of it; an error becomes a warning."""
        if not self._options.report:
            return None
        from raybench.reporting.page import tracked

        try:
            result = tracked(self.report())
            write_atomic(self._folder / REPORT, result.page)
        except Exception as error:
            self.tell(f"The report could not be made: {type(error).__name__}: {error}")
            return None
        return result

    def _renew(self) -> None:
        """If no trial has to run: record a changed request, and bring the page and MLflow up to date."""
        result = None
        if self._history.attempts:
            is_same = self.request.is_same(latest_request(self._history))
            if not is_same:
                self._begin()
            if not is_same or not self._page_is_current() or is_incomplete(self._folder):
                result = self._write_page()
        if self._store:
            catch_up(self._store, self._history, self.tell, result)
        if self._options.open and (self._folder / REPORT).is_file():
            self._open_page()

    def _page_is_current(self) -> bool:
        page = self._folder / REPORT
        newest = max((path.stat().st_mtime_ns for path in event_files(self._folder, ATTEMPTS)), default=0)
        return page.is_file() and page.stat().st_mtime_ns >= newest
