"""Make the job that is sent to the trial's process: that of a trial or of a check."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any
from uuid import uuid4

from raybench.core.job import Job
from raybench.errors import ExecutionError
from raybench.execution.schedule import ScheduledTrial
from raybench.planning.plan import Check, Plan
from raybench.results.folder import CHECKS, attempt_folder
from raybench.workloads import WorkloadInfo
from raybench.workloads.own_files import changed_files, code_versions

TIMEOUT = 300.0
"""Timeout of a check in seconds: loading a framework on a cold accelerator takes a minute, a hung one never ends."""


def make_job(plan: Plan, assignment: ScheduledTrial, folder: Path, root: Path) -> Job:
    """Make the job of an assigned trial; its node chooses the cores and accelerators."""
    trial, attempt, node, fit = assignment.work.trial, assignment.work.attempt, assignment.nodes[0], assignment.fit
    spec, cell, workload = plan.spec, trial.cell, trial.cell.workload
    check_unchanged(workload)
    target = spec.target.plain() if spec.target else None
    return Job(
        trial=trial.trial_id,
        attempt=attempt,
        repeat=trial.repeat,
        seed=trial.seed,
        cell=trial.cell.content,
        workload=workload.to_json(),
        data_root=node.data_root or str(root.absolute()),
        folder=str(attempt_folder(folder, trial.trial_id, uuid4().hex)),
        cpus=fit.cpus,
        accelerators=fit.accelerators,
        exclusive=assignment.exclusive,
        timeout=cell.timeout,
        memory_limit=cell.memory_limit,
        checkpoint_every=cell.checkpoint_every,
        target=target,
        python=node.interpreter(fit.environment).python,
        versions=code_versions(workload.folder, workload.files),
        labels={
            "label": plan.label(trial),
            "grid": spec.name,
            "profile": trial.cell.profile,
            "request_id": trial.cell.request_id,
            "machine": {"cores": node.cores},
            **({"target": asdict(target)} if target else {}),
        },
    )


def check_unchanged(workload: WorkloadInfo) -> None:
    """Check that the user's files are those that the plan was made with."""
    if changed := changed_files(Path(workload.folder), workload.files):
        raise ExecutionError(
            f"{Path(workload.folder) / changed[0]} was changed after the grid was planned; run the same command again: "
            "it makes new trials with the changed file (what the program itself writes belongs in {output_dir})"
        )


def check_job(job: Job, check: Check, folder: Path, labels: Mapping[str, Any]) -> Job:
    """Make the job of a check, on the resources of the following trial."""
    folder_of_check = str(folder / CHECKS / check.key / uuid4().hex)
    timeout = min(TIMEOUT, job.timeout or TIMEOUT)  # a roofline runs the user's model, which may hang
    bounds: dict[str, Any] = {"timeout": timeout, "memory_limit": 0, "target": None}
    return replace(job, trial=check.key, check=check.name, folder=folder_of_check, labels=dict(labels), **bounds)
