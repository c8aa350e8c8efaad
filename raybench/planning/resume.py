"""The trials of a grid still to be run, given earlier results."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from raybench.core.status import TrialStatus
from raybench.planning.plan import Plan, WorkItem
from raybench.results.attempt import Attempt, latest


def missing_work(
    plan: Plan, records: Iterable[Attempt], retry: Collection[str] = (), rerun: bool = False
) -> list[WorkItem]:
    """List the trials still to be run, with their next attempt's number.

    They keep the plan's order.

    Args:
        records: every attempt in the journal.
        retry: statuses of finished trials that are run again.
        rerun: run every trial again.
    """
    records = list(records)
    current = latest(records)
    highest: dict[str, int] = {}
    for attempt in records:
        highest[attempt.trial] = max(attempt.attempt, highest.get(attempt.trial, 0))
    rerun_statuses = {status for status in TrialStatus if status.is_rerun} | {None, *retry}
    work = []
    for trial in plan.trials:
        previous = current.get(trial.trial_id)
        if not trial.cell.skip and (previous is None or previous.status in rerun_statuses or rerun):
            work.append(WorkItem(trial, 1 + highest.get(trial.trial_id, 0)))
    return work
