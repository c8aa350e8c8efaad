"""Run a grid from its file to its comparison; the Python API behind `raybench grid`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from raybench import datasets
from raybench.analysis.versions import Limits
from raybench.config import GridSpec
from raybench.core.options import NO_STORE, GridOptions
from raybench.core.status import TrialStatus
from raybench.execution.base import Executor
from raybench.execution.progress import ProgressListener
from raybench.planning.plan import Plan, make_plan
from raybench.planning.resume import missing_work
from raybench.reporting.report import Report
from raybench.results.folder import grid_folder
from raybench.results.history import GridHistory
from raybench.results.lock import locked
from raybench.results.machines import as_requested
from raybench.results.run_table import Run, latest
from raybench.session import Session, writing
from raybench.tracking.store import Store, resolve


@dataclass(frozen=True)
class Outcome:
    """The results of one call of `run_grid`.

    Attributes:
        latest: the attempt that counts for each planned trial that has attempts (`raybench.results.run_table.latest`).
        ran: number of attempts that ended during this execution, without those that were killed.
        ended: last status of each trial that ended during this execution.
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
        if any(status.is_failure for status in map(TrialStatus.parse, self._statuses) if status):
            return 1
        return 0 if self.can_run else 3

    @property
    def can_run(self) -> bool:
        """Whether any trial of the grid has run or can run here."""
        return bool(self._statuses - {TrialStatus.SKIPPED, None}) or not all(cell.skip for cell in self.plan.cells)

    @property
    def _statuses(self) -> set[str | None]:
        return {run.status for run in self.latest.values()} | {*self.ended.values()}


def run_grid(
    spec: GridSpec,
    executor: Executor,
    view: ProgressListener | None = None,
    options: GridOptions | None = None,
    limits: Limits | None = None,
) -> Outcome:
    """Run the missing trials of a grid; with limits, those of a comparison of versions until it is decided.

    Raises:
        UsageError: the grid, its workload or its data cannot be used; nothing was started.
        ResultsLockedError: another grid runs on the results folder.
        ExecutionError: the executor cannot run the trials on the machines.
        ResultsError: the results folder can no longer be written.
    """
    view, options = view or ProgressListener(), options or GridOptions()
    with closing(executor):
        store = None
        if options.tracking not in (None, NO_STORE):
            store = resolve(options.folder, options.tracking, spec.tracking_uri)
        root = datasets.data_root()
        folder = grid_folder(options.folder, spec.name)
        if not folder.exists():  # otherwise there may be nothing to run
            executor.prepare()
        nodes = executor.nodes(spec.environments)
        plan = make_plan(spec, nodes, root)
        if any(cell.fit for cell in plan.cells) and datasets.ensure(plan.workload.dataset, root, view.fetch):
            plan = make_plan(spec, nodes, root)  # now with the digest of the data
        with locked(options.folder, f"the grid {spec.name}"):
            history = GridHistory.read(folder)
            with writing(folder):
                history.close_lost()
            session = Session(plan, root, store, history, options, executor, view, limits)
            session.run(missing_work(plan, history, options.retry, options.rerun))
            counted = latest(as_requested(history, session.request)[0])
            planned = [trial.trial_id for trial in session.plan.trials]
            return Outcome(
                plan=session.plan,
                latest={trial: counted[trial] for trial in planned if trial in counted},
                report=session.report(),
                ran=session.ran,
                ended=session.ended,
                history=history,
                store=store,
                interrupted=session.interrupted,
                warnings=tuple(session.warnings),
            )
