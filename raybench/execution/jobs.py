"""Make the job that is sent to the trial's process: that of a trial or of a check."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any
from uuid import uuid4

from raybench.core.job import Job
from raybench.errors import ExecutionError
from raybench.execution.scheduler import AssignedWork
from raybench.planning.plan import Plan, WorkItem
from raybench.results.folder import CHECKS, attempt_folder
from raybench.workloads import WorkloadInfo
from raybench.workloads.own_files import changed_files, code_versions

TIMEOUT = 300.0
"""Timeout of a check in seconds: loading a framework on a cold accelerator takes a minute, a hung one never ends."""


def make_job(plan: Plan, placement: AssignedWork, folder: Path, root: Path) -> Job:
    """Make the job of a placed trial."""
    trial, attempt = placement.work.trial, placement.work.attempt
    spec, cell, fit, workload = plan.spec, trial.cell, trial.cell.fit, trial.cell.workload
    assert fit is not None, "a trial that fits nowhere is never dispatched"
    check_unchanged(workload)
    target = spec.target.model_dump() if spec.target else None
    return Job(
        trial=trial.trial_id,
        attempt=attempt,
        repeat=trial.repeat,
        seed=trial.seed,
        cell=trial.cell.content,
        workload=workload.to_json(),
        data_root=placement.node.data_root or str(root.absolute()),
        folder=str(attempt_folder(folder, trial.trial_id, uuid4().hex)),
        cores=list(placement.cores),
        visible=list(placement.visible),
        exclusive=placement.exclusive,
        timeout=cell.timeout,
        memory_limit=cell.memory_limit,
        checkpoint_every=cell.checkpoint_every,
        target=spec.target.plain() if spec.target else None,
        python=placement.node.interpreter(fit.environment).python,
        versions=code_versions(workload.folder, workload.files),
        labels={
            "label": plan.label(trial),
            "grid": spec.name,
            "profile": trial.cell.profile,
            "request_id": trial.cell.request_id,
            "machine": {"cores": placement.node.cores},
            **({"target": target} if target else {}),
        },
    )


def check_unchanged(workload: WorkloadInfo) -> None:
    """Check that the user's files are those that the plan was made with."""
    if changed := changed_files(Path(workload.folder), workload.files):
        raise ExecutionError(
            f"{Path(workload.folder) / changed[0]} was changed after the grid was planned; run the same command again: "
            "it makes new trials with the changed file (what the program itself writes belongs in {output_dir})"
        )


def check_job(job: Job, work: WorkItem, folder: Path, labels: Mapping[str, Any]) -> Job:
    """Make the job of a check, on the resources of the following trial."""
    folder_of_check = str(folder / CHECKS / work.key / uuid4().hex)
    timeout = min(TIMEOUT, job.timeout or TIMEOUT)  # a roofline runs the user's model, which may hang
    bounds: dict[str, Any] = {"timeout": timeout, "memory_limit": 0, "target": None}
    return replace(job, trial=work.key, check=work.check, folder=folder_of_check, labels=dict(labels), **bounds)
