"""`raybench grid` of long trials with checkpoints: killed amid its epochs, it goes on after the last checkpoint."""

import os
import shutil
import signal
import subprocess
import sys
import time

import pytest
from support import WORKLOADS
from support.executors import ForkingExecutor
from support.processes import all_gone

import raybench
from raybench.config import load_grid
from raybench.results.folder import ATTEMPTS, event_files, read_events
from raybench.run import Options, run_grid

WORKLOAD = WORKLOADS / "checkpointed.py"

pytestmark = [pytest.mark.exhaustive, pytest.mark.ray, pytest.mark.mlflow, pytest.mark.tensorflow]

GRID = """
name: long
workload: checkpointed.py:both
axes: {framework: [torch, tensorflow]}
epochs: 4
batch_size: 64
steps_per_epoch: 200
threads: 1
augmentation: [flip, {crop: 2}]
checkpoint_every: 1
"""


class Grid:
    """The command in a folder of its own, to be watched and killed."""

    def __init__(self, folder, database):
        folder.mkdir()
        shutil.copy(WORKLOAD, folder)
        (folder / "grid.yaml").write_text(GRID)
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

    def stop_trial(self, number, process):
        """Stop the n-th trial of the grid amid its epochs; its process and the epoch of its last checkpoint."""
        deadline = time.monotonic() + 240
        while time.monotonic() < deadline and process.poll() is None:
            started = self.events("trial_started")
            if len(started) >= number:
                checkpoints = self.results / ATTEMPTS / started[-1]["trial"] / "checkpoints"
                if (checkpoints / "epoch-000002.rank-0").exists():
                    pid = started[-1]["host"]["pid"]
                    os.kill(pid, signal.SIGSTOP)  # from here on it makes no further one
                    return pid, max(int(path.name[6:12]) for path in checkpoints.glob("epoch-*.rank-0"))
            time.sleep(0.01)
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


def test_killed_grid_continues_from_checkpoints(tmp_path, fork_server, migrated_database):
    """A process is killed in each trial: the trial itself in the first, the driver in the last."""
    whole, broken = (Grid(tmp_path / name, migrated_database) for name in ("whole", "broken"))
    options = Options(whole.folder / "raybench-results", checks=False, tracking=None, report=False)
    run_grid(load_grid(whole.folder / "grid.yaml"), ForkingExecutor(fork_server), options=options)
    process = broken.start()
    pid, first = broken.stop_trial(1, process)
    os.kill(pid, signal.SIGKILL)
    pid, second = broken.stop_trial(3, process)
    process.kill()
    process.wait()
    assert all_gone([pid], 30)
    assert broken.start().wait(300) == 0, broken.words
    resumed = broken.events("trial_resumed")
    found = [(event["epoch"], event["of_attempt"], event["attempt"]) for event in resumed]
    assert found == [(first, 1, 2), (second, 1, 2)]
    ends = [(event["attempt"], event["status"]) for event in broken.events("trial_ended")]
    assert ends == [(1, "lost"), (2, "completed")] * 2
    assert len(whole.losses()) == 4 * 2
    assert broken.losses() == whole.losses()
    stored = raybench.load(f"sqlite:///{broken.folder}/raybench-results/mlflow.db").trials
    assert list(stored.status) == ["completed"] * 2
    assert all("resumed" in findings for findings in stored.findings)
    for grid in (whole, broken):
        assert list(grid.results.glob("attempts/*/checkpoints")) == [], "checkpoints of finished trials are removed"
