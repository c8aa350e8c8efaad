"""`raybench grid` of long trials with checkpoints: killed after the third epoch, it goes on with the fourth."""

import os
import shutil
import signal
import subprocess
import sys
import time

import pytest
from support import WORKLOADS
from support.executors import ForkingExecutor
from support.frameworks import interpreter
from support.processes import all_gone

import raybench
from raybench.config import load_grid
from raybench.results.folder import ATTEMPTS, event_files, read_events
from raybench.run import Options, run_grid

WORKLOAD = WORKLOADS / "checkpointed.py"

pytestmark = [pytest.mark.slow, pytest.mark.ray, pytest.mark.mlflow]

GRID = """
name: long
workload: checkpointed.py:both
axes: {framework: [torch]}
epochs: 6
batch_size: 64
steps_per_epoch: 150
threads: 1
augmentation: [flip, {crop: 2}]
checkpoint_every: 1
"""


class Grid:
    """The command in a folder of its own, to be watched and killed."""

    def __init__(self, folder, frameworks, database):
        folder.mkdir()
        shutil.copy(WORKLOAD, folder)
        (folder / "grid.yaml").write_text(GRID.replace("[torch]", f"[{', '.join(frameworks)}]"))
        self.folder, self.results = folder, folder / "raybench-results" / "long"
        (folder / "raybench-results").mkdir()
        shutil.copy(database, folder / "raybench-results" / "mlflow.db")

    def start(self):
        command = [sys.executable, "-m", "raybench", "grid", "grid.yaml", "--no-checks"]
        with (self.folder / "words.txt").open("a") as words:
            return subprocess.Popen(command, cwd=self.folder, stdout=words, stderr=words, text=True)

    @property
    def words(self):
        return (self.folder / "words.txt").read_text()

    def events(self, kind):
        found = [event for path in event_files(self.results, ATTEMPTS) for event in read_events(path, [])]
        return sorted((event for event in found if event["event"] == kind), key=lambda event: event["t"])

    def wait_for_trial(self, number, process):
        """The start of the n-th trial of the grid, as soon as its checkpoint of epoch 3 is there."""
        deadline = time.monotonic() + 240
        while time.monotonic() < deadline and process.poll() is None:
            started = self.events("trial_started")
            if len(started) >= number:
                checkpoints = self.results / ATTEMPTS / started[-1]["trial"] / "checkpoints"
                pid = started[-1]["host"]["pid"]
                while time.monotonic() < deadline and not (checkpoints / "epoch-000003.rank-0.npz").exists():
                    time.sleep(0.002)
                os.kill(pid, signal.SIGSTOP)  # from here on it makes no further one
                assert not (checkpoints / "epoch-000004.rank-0.npz").exists()
                return started[-1]
            time.sleep(0.02)
        raise AssertionError(self.words)

    def losses(self):
        """From a framework and an epoch of its last attempt to the losses."""
        of = {event["trial"]: event["cell"]["framework"] for event in self.events("trial_started")}
        last = {event["trial"]: event["attempt"] for event in self.events("trial_started")}
        return {
            (of[event["trial"]], event["epoch"]): (event["metrics"]["train/loss"], event["metrics"]["val/loss"])
            for event in self.events("epoch_ended")
            if event["attempt"] == last[event["trial"]]
        }


@pytest.mark.parametrize(
    "frameworks",
    [("torch",), pytest.param(("torch", "tensorflow"), marks=[pytest.mark.exhaustive, pytest.mark.tensorflow])],
    ids=", ".join,
)
def test_killed_grid_continues_from_checkpoints(frameworks, tmp_path, fork_server, migrated_database):
    """A process is killed in each trial: the driver in the last, the trial itself in those before."""
    for framework in frameworks:
        interpreter(framework)
    whole, broken = (Grid(tmp_path / name, frameworks, migrated_database) for name in ("whole", "broken"))
    options = Options(whole.folder / "raybench-results", checks=False, tracking=None, report=False)
    run_grid(load_grid(whole.folder / "grid.yaml"), ForkingExecutor(fork_server), options=options)
    process, starts, count = broken.start(), 1, len(frameworks)
    for _ in frameworks[1:]:
        os.kill(broken.wait_for_trial(starts, process)["host"]["pid"], signal.SIGKILL)
        starts += 2
    last = broken.wait_for_trial(starts, process)
    process.kill()
    process.wait()
    assert all_gone([last["host"]["pid"]], 30)
    assert broken.start().wait(300) == 0, broken.words
    resumed = broken.events("trial_resumed")
    assert [(event["epoch"], event["of_attempt"], event["attempt"]) for event in resumed] == [(3, 1, 2)] * count
    ends = [(event["attempt"], event["status"]) for event in broken.events("trial_ended")]
    assert ends == [(1, "lost"), (2, "completed")] * count
    assert len(whole.losses()) == 6 * count
    assert broken.losses() == whole.losses()
    stored = raybench.load(f"sqlite:///{broken.folder}/raybench-results/mlflow.db").trials
    assert list(stored.status) == ["completed"] * count
    assert all("resumed" in findings for findings in stored.findings)
    for grid in (whole, broken):
        assert list(grid.results.glob("attempts/*/checkpoints")) == [], "checkpoints of finished trials are removed"
