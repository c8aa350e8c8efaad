"""The trials of a grid still to be run, given earlier results."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

from raybench.core.status import TrialStatus
from raybench.planning.plan import Plan, Trial, WorkItem
from raybench.results.attempt import Attempt, latest


def missing_work(
    plan: Plan, records: Iterable[Attempt], retry: Collection[str] = (), rerun: bool = False
) -> list[WorkItem]:
    """List the trials still to be run, with their next attempt's number.

    They keep the plan's order.

    Args:
        records: every attempt.
        retry: statuses of finished trials that are run again.
        rerun: run every trial again.
    """
    records = list(records)
    current = latest(records)
    last: dict[str, Attempt] = {}
    for attempt in records:
        if attempt.trial not in last or attempt.attempt > last[attempt.trial].attempt:
            last[attempt.trial] = attempt
    rerun_statuses = {status for status in TrialStatus if status.is_rerun} | {None, *retry}

    def is_missing(trial: Trial) -> bool:
        previous = current.get(trial.trial_id)
        return previous is None or previous.status in rerun_statuses or rerun

    missing = [trial for trial in plan.trials if not trial.cell.skip and is_missing(trial)]
    return [WorkItem(trial, 1 + (last[name].attempt if (name := trial.trial_id) in last else 0)) for trial in missing]


@dataclass(frozen=True)
class OtherMachines:
    """The trials of a cell that other machines have done.

    There it is another cell, because of the hardware or what is installed.

    Attributes:
        repeats: the repeats that are done.
        hosts: the names of the machines.
    """

    repeats: frozenset[int]
    hosts: tuple[str, ...]


def done_on_other_machines(plan: Plan, records: Iterable[Attempt]) -> dict[str, OtherMachines]:
    """Return what other machines have done of the cells of a plan, by cell id.

    Only cells that cannot run here count.
    """
    by_request: dict[str, list[Attempt]] = {}
    for attempt in latest(records).values():
        status = TrialStatus.parse(attempt.status)
        if attempt.request_id and status and not status.is_rerun:
            by_request.setdefault(attempt.request_id, []).append(attempt)
    done = {}
    for cell in plan.cells:
        runs = [
            run
            for run in by_request.get(cell.request_id, [])
            if run.cell_id != cell.cell_id and run.repeat < cell.repeats and cell.skip
        ]
        if runs:
            hosts = sorted({str(run.host.get("name") or "another machine") for run in runs})
            done[cell.cell_id] = OtherMachines(frozenset(run.repeat for run in runs), tuple(hosts))
    return done


def complete_cells(plan: Plan, others: Mapping[str, OtherMachines]) -> set[str]:
    """Return the ids of the cells of which other machines have done every repeat."""
    return {
        cell.cell_id
        for cell in plan.cells
        if cell.cell_id in others and len(others[cell.cell_id].repeats) == cell.repeats
    }
