"""From a placement to the job that crosses into the trial's process."""

from __future__ import annotations

from pathlib import Path

from raybench.execution.dispatch import Placement
from raybench.plan import Plan
from raybench.tracking.journal import attempt_folder
from raybench.trial.job import Job, Target


def make_job(plan: Plan, placement: Placement, folder: Path, root: Path) -> Job:
    """The job of a placed trial.

    Args:
        folder: the grid's own.
        root: where the data sets are.
    """
    trial, attempt = placement.work.trial, placement.work.attempt
    spec, fit = plan.spec, trial.cell.fit
    assert fit is not None, "a trial that fits nowhere is never dispatched"
    target = spec.target.model_dump() if spec.target else None
    return Job(
        trial=trial.trial_id,
        attempt=attempt,
        repeat=trial.repeat,
        seed=trial.seed,
        cell=trial.cell.content,
        workload=plan.workload.to_json(),
        data_root=str(root.absolute()),
        folder=str(attempt_folder(folder, trial.trial_id, attempt)),
        cores=list(placement.cores),
        visible=list(placement.visible),
        exclusive=placement.exclusive,
        timeout=trial.cell.timeout,
        target=Target(**target) if target else None,
        python=placement.node.interpreter(fit.environment).python,
        labels={
            "label": plan.label(trial),
            "grid": spec.name,
            "profile": trial.cell.profile,
            **({"target": target} if target else {}),
        },
    )
