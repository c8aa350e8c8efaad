"""What the tests of checkpoints do in a framework's own process: one attempt at a trial, or the first part of one."""

from contextlib import suppress
from pathlib import Path

from support import WORKLOADS
from support.cells import make_cell

from raybench.core.job import Job
from raybench.core.settings import DEFAULTS
from raybench.devices.host import model_name, usable_cores
from raybench.trial.checkpoint import FOLDER
from raybench.trial.run import run
from raybench.workloads import read_workload

HERE = WORKLOADS
KINDS = {"torch": "cpu", "tensorflow": "cpu", "torch_xla": "xla_cpu"}
EVERYTHING = {"augmentation": ["flip", {"crop": 2}, {"cutout": 3}], "weight_decay": 1e-3}


class Lost(BaseException):
    """The process ends here."""


def job(framework, folder, attempt, trial="t-r0", every=1, resume=None, seed=5, device=None, **settings):
    """The job of an attempt, made in the tests' own process: reading a workload needs more than a framework."""
    info = read_workload("checkpointed.py:both", HERE)
    count = len(usable_cores())
    hardware = {"kind": KINDS[framework], "model": model_name(), "count": count, "replicas": 1, "threads": 1}
    cell = make_cell(
        workload=info.identity(),
        data={"name": info.name, "digest": None, "examples": {"train": None, "val": None}},
        device=hardware | (device or {}),
        engine={"name": framework, "version": 1, "framework_version": "0.0"},
        resolved={**DEFAULTS, "framework": framework, "epochs": 6, "batch_size": 32, **EVERYTHING, **settings},
    )
    own = str(Path(folder) / f"attempt-{attempt}")
    asked = {"checkpoint_every": every, "resume": resume}
    return Job(trial, attempt, 0, seed, cell, info.to_json(), str(folder), own, usable_cores(), **asked)


def attempt(job, folder, lost_in=None):
    """The events of an attempt; `lost_in`: the epoch that is the last of which anything is heard.

    Then its checkpoint is not made, as in a process that is killed there.

    Args:
        job: as JSON.
        folder: the folder of its checkpoints.
    """
    told = []

    def send(event):
        told.append(event)
        if event["event"] == "epoch_ended" and event["epoch"] == lost_in:
            raise Lost

    with suppress(Lost):
        run(Job.from_json(job), send)
    return {"told": told, "files": sorted(path.name for path in (Path(folder) / FOLDER).glob("*"))}
