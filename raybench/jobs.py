"""From a placement to the job that crosses into the trial's process: that of a trial, or of a check in its place."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from raybench.analysis.factored import TIMED_FOR
from raybench.execution.dispatch import Placement, Work
from raybench.plan import Plan
from raybench.tracking.journal import attempt_folder
from raybench.trial.job import Job, Target

CHECKS = "checks"
"""The folder in a grid's own in which each check has one."""

TIMEOUT = 300.0
"""Seconds after which a check is given up: a framework on a cold accelerator takes a minute, a hung one for ever."""


def make_job(plan: Plan, placement: Placement, folder: Path, root: Path) -> Job:
    """The job of a placed trial.

    Args:
        folder: the grid's own.
        root: where the data sets are.
    """
    trial, attempt = placement.work.trial, placement.work.attempt
    spec, fit = plan.spec, trial.cell.fit
    assert fit is not None, "a trial that fits nowhere is never dispatched"
    # A timing of a factored study is no try at the target.
    target = spec.target.model_dump() if spec.target and TIMED_FOR not in trial.cell.content else None
    return Job(
        trial=trial.trial_id,
        attempt=attempt,
        repeat=trial.repeat,
        seed=trial.seed,
        cell=trial.cell.content,
        workload=plan.workload.to_json(),
        data_root=placement.node.data_root or str(root.absolute()),
        folder=str(attempt_folder(folder, trial.trial_id, attempt)),
        cores=list(placement.cores),
        visible=list(placement.visible),
        exclusive=placement.exclusive,
        timeout=trial.cell.timeout,
        memory_limit=trial.cell.memory_limit,
        checkpoint_every=trial.cell.checkpoint_every,
        target=Target(**target) if target else None,
        python=placement.node.interpreter(fit.environment).python,
        labels={
            "label": plan.label(trial),
            "grid": spec.name,
            "profile": trial.cell.profile,
            "machine": {"cores": placement.node.cores},
            **({"target": target} if target else {}),
        },
    )


def check_job(job: Job, work: Work, folder: Path, labels: Mapping[str, Any]) -> Job:
    """The job of a check, on what was given to the trial before which it is made.

    Args:
        job: the trial's.
        folder: the grid's own.
        labels: what its event is to carry.
    """
    own = str(folder / CHECKS / work.key)
    bounds: dict[str, Any] = {"timeout": TIMEOUT, "memory_limit": 0, "target": None}
    return replace(job, trial=work.key, check=work.check, folder=own, labels=dict(labels), **bounds)


def checked_first(
    works: Sequence[Work], check: str, key: Callable[[Mapping[str, Any]], str], known: Iterable[str]
) -> list[Work]:
    """The work, and before the first trial of each kind of which nothing is known the check that finds it out.

    Args:
        key: of a cell: names the kind.
        known: the keys of what was found out before.
    """
    made, order = set(known), list[Work]()
    for work in works:
        if not work.check:
            named = key(work.trial.cell.content)
            if named not in made:
                order.append(Work(work.trial, check=check, key=named))
                made.add(named)
            work = replace(work, needs=work.needs | {named})
        order.append(work)
    return order
