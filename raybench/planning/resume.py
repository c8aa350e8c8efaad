"""The trials of a grid still to be run, given earlier results."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from raybench.core.status import TrialStatus
from raybench.planning.plan import Plan, Trial, WorkItem
from raybench.results.attempt import Attempt, Key, latest


def missing_work(
    plan: Plan,
    records: Iterable[Attempt],
    retry: Collection[str] = (),
    rerun: bool = False,
    replaced: Collection[Key] = (),
) -> list[WorkItem]:
    """List the trials still to be run in the plan's order, with their next attempt's number.

    A trial that failed under a different target, such as a misspelt metric, runs again.
    """
    records = list(records)
    target = plan.spec.target.plain() if plan.spec.target else None
    current = latest(each for each in records if each.key not in replaced)
    last: dict[str, int] = {}
    for attempt in records:
        last[attempt.trial] = max(attempt.attempt, last.get(attempt.trial, 0))
    rerun_statuses = {status for status in TrialStatus if status.is_rerun} | {None, *retry}

    def is_missing(trial: Trial) -> bool:
        previous = current.get(trial.trial_id)
        if previous is None or previous.status in rerun_statuses or rerun:
            return True
        return previous.status == TrialStatus.FAILED and previous.target != target

    missing = [trial for trial in plan.trials if not trial.cell.skip and is_missing(trial)]
    return [WorkItem(trial, 1 + last.get(trial.trial_id, 0)) for trial in missing]


def done_on_other_machines(plan: Plan, records: Iterable[Attempt]) -> dict[str, dict[int, Attempt]]:
    """Return what other machines have done of the cells of a plan that cannot run here: by cell id, by repeat.

    There it is a different cell, because of the hardware or what is installed.
    """
    skipped = {cell.request_id: cell for cell in plan.cells if cell.skip}
    done: dict[str, dict[int, Attempt]] = {}
    for run in latest(records).values():
        status, cell = TrialStatus.parse(run.status), skipped.get(run.request_id or "")
        if cell and status and not status.is_rerun and run.cell_id != cell.cell_id and run.repeat < cell.repeats:
            done.setdefault(cell.cell_id, {})[run.repeat] = run
    return done
