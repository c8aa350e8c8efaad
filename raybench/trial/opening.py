"""The beginning of a trial: its device, its first event, and the user's files."""

from __future__ import annotations

import os
import platform
from collections.abc import Iterable
from dataclasses import replace
from importlib import metadata
from pathlib import Path
from typing import Any

from raybench.core.job import Job
from raybench.core.rank import current_rank
from raybench.core.version import __version__
from raybench.devices import KINDS, Assignment, Device, open_device
from raybench.devices.host import boot_id, machine_id
from raybench.devices.program import open_for_program
from raybench.engines import FRAMEWORKS
from raybench.workloads.info import ARITHMETIC

OFFLINE = {"WANDB_MODE": "offline"}
"""Environment variables under which other trackers send nothing while training is timed."""


def open_assigned(job: Job) -> Device:
    """Open the assigned device, and hide all others from this process."""
    planned, rank = job.cell.device, current_rank()
    devices = planned.devices_per_node // rank.local_count
    threads = max(1, planned.threads // rank.local_count)
    own_loop = job.cell.has_own_loop
    assignment = Assignment(rank.share(job.cores), job.visible, threads, devices, own_loop, rank.local_number)
    if job.is_command:
        device: Device = open_for_program(planned.kind, replace(assignment, threads=max(1, threads // devices)))
    else:
        device = open_device(planned.kind, job.cell.framework, assignment)
    device.hide_others()
    precision = job.cell.settings.precision
    device.open("" if own_loop and precision not in ARITHMETIC else precision)
    device.hardware = device.describe()
    if device.hardware.model != planned.model:
        raise RuntimeError(f"planned for {planned.model!r}, but this is {device.hardware.model!r}")
    return device


def opening(job: Job, device: Device) -> dict[str, Any]:
    """What the first event of a trial says of its process."""
    framework = FRAMEWORKS[job.cell.framework]
    ranks = job.cell.device.world_size if job.is_command else current_rank().count
    libraries = [framework.package, *framework.other_packages, *_distributions(job.cell.engine.libraries or ())]
    return {
        "run": Path(job.folder).name,
        "seed": job.seed,
        "repeat": job.repeat,
        "cell": job.cell.without_secrets().to_json(),
        **job.labels,
        "host": {
            "name": platform.node(),
            "machine_id": machine_id(),
            "boot": boot_id(),
            "kernel": platform.release(),
            "pid": os.getpid(),
        },
        "versions": {
            "python": platform.python_version(),
            **{name: metadata.version(name) for name in libraries},
            "raybench": __version__,
            **job.versions,
        },
        "hardware": {
            "memory_bytes": job.memory_limit or device.hardware.memory_bytes,
            "driver": device.hardware.driver,
        },
        "runtime_conditions": {
            "threads": ranks * device.threads(),
            "link": KINDS[job.cell.device.kind].link(job.visible) if ranks > 1 else None,
            "OMP_WAIT_POLICY": os.environ.get("OMP_WAIT_POLICY", "unset").lower(),
            "niceness": os.nice(0),
        },
    }


def _distributions(modules: Iterable[str]) -> list[str]:
    by_module = metadata.packages_distributions() if modules else {}
    return [by_module[name][0] for name in modules if name in by_module]


def keep_others_offline(job: Job) -> None:
    """Keep the trial's process from sending results elsewhere, which takes time."""
    if job.own_process:  # otherwise the process is the driver's
        for name in [name for name in os.environ if name.startswith("MLFLOW_")]:
            del os.environ[name]
        os.environ.update(OFFLINE)
