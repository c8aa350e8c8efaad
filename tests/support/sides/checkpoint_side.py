"""What the tests of checkpoints do in a framework's own process: one attempt at a trial, or the first part of one."""

from contextlib import suppress
from pathlib import Path

from support.jobs import make_job

from raybench.core.job import Job
from raybench.trial.checkpoint import FOLDER
from raybench.trial.run import run

EVERYTHING = {"augmentation": ["flip", {"crop": 2}, {"cutout": 3}], "weight_decay": 1e-3}


class Lost(BaseException):
    """The process ends here."""


def job(framework, folder, attempt, every=1, **more):
    """The job of an attempt, made in the tests' own process: reading a workload needs more than a framework."""
    more = {"threads": 1, "epochs": 6, "batch_size": 32, **EVERYTHING, **more}
    more |= {"attempt": attempt, "seed": 5, "checkpoint_every": every, "folder": f"{folder}/attempt-{attempt}"}
    return make_job(folder, "both", "checkpointed.py", framework=framework, **more)


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
