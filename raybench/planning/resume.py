"""The trials of a grid still to be run, given earlier results."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from raybench.core.status import TrialStatus
from raybench.planning.plan import Plan, PlannedTrial, WorkItem
from raybench.results.history import GridHistory
from raybench.results.machines import replaced
from raybench.results.run_table import Run, latest


def missing_work(plan: Plan, history: GridHistory, retry: Collection[str] = (), rerun: bool = False) -> list[WorkItem]:
    """List the trials still to be run in the plan's order, with their next attempt's number.

    A trial that failed under a different target, such as a misspelled metric, runs again.
    """
    left_out = replaced(history) if plan.spec.rule else ()
    current = latest(run for run in history.attempts.values() if run.key not in left_out)
    target = plan.spec.target.plain() if plan.spec.target else None
    rerun_statuses = {status for status in TrialStatus if status.is_rerun} | {None, *retry}
    last: dict[str, int] = {}
    for attempt in history.attempts.values():
        last[attempt.trial] = max(attempt.attempt, last.get(attempt.trial, 0))

    def is_missing(trial: PlannedTrial) -> bool:
        previous = current.get(trial.trial_id)
        if rerun or previous is None or previous.status in rerun_statuses:
            return True
        return previous.status == TrialStatus.FAILED and bool(previous.started) and previous.target != target

    missing = [trial for trial in plan.trials if not trial.cell.skip and is_missing(trial)]
    nodes = dict(entry for spread in plan.spreads for entry in spread.nodes())
    return [WorkItem(trial, 1 + last.get(trial.trial_id, 0), nodes=nodes.get(trial.trial_id, ())) for trial in missing]


def done_on_other_machines(plan: Plan, records: Iterable[Run]) -> dict[str, dict[int, Run]]:
    """Return what other machines have done of the cells of a plan that cannot run here: by cell id, by repeat.

    There it is a different cell, because of the hardware or what is installed.
    """
    skipped = {cell.request_id: cell for cell in plan.cells if cell.skip}
    done: dict[str, dict[int, Run]] = {}
    for run in latest(records).values():
        status, cell = TrialStatus.parse(run.status), skipped.get(run.request_id or "")
        if cell and status and not status.is_rerun and run.cell_id != cell.cell_id and run.repeat < cell.repeats:
            done.setdefault(cell.cell_id, {})[run.repeat] = run
    return done
