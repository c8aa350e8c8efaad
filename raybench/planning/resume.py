"""The trials of a grid still to be run, from the results of its earlier executions."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Protocol

from raybench.core.status import TrialStatus
from raybench.planning.plan import Plan, WorkItem
from raybench.results.attempt import Attempt, latest


class RetryOptions(Protocol):
    """Which finished trials are run again (`raybench.run.Options`)."""

    @property
    def retry(self) -> Collection[str]:
        """Statuses of finished trials that are run again."""

    @property
    def rerun(self) -> bool:
        """Whether every trial is run again."""


def missing_work(plan: Plan, records: Iterable[Attempt], options: RetryOptions) -> list[WorkItem]:
    """List the trials still to be run, in the plan's order, with the number of their next attempt.

    Args:
        records: every attempt in the journal.
    """
    records = list(records)
    current = latest(records)
    highest: dict[str, int] = {}
    for attempt in records:
        highest[attempt.trial] = max(attempt.attempt, highest.get(attempt.trial, 0))
    rerun_statuses = {status for status in TrialStatus if status.is_rerun} | {None, *options.retry}
    work = []
    for trial in plan.trials:
        previous = current.get(trial.trial_id)
        if not trial.cell.skip and (previous is None or previous.status in rerun_statuses or options.rerun):
            work.append(WorkItem(trial, 1 + highest.get(trial.trial_id, 0)))
    return work
