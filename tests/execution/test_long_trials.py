"""`raybench grid` of long trials with checkpoints: killed after the third epoch, it goes on with the fourth."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from frameworks import interpreter
from processes import all_gone

import raybench
from raybench.tracking.journal import read

WORKLOAD = Path(__file__).parent.parent / "trial" / "checkpointed.py"

GRID = """
name: long
workload: checkpointed.py:both
axes: {framework: [torch, tensorflow]}
epochs: 6
batch_size: 64
steps_per_epoch: 150
threads: 1
augmentation: [flip, {crop: 2}]
checkpoint_every: 1
"""


class Grid:
    """The command in a folder of its own, to be watched and killed."""

    def __init__(self, folder):
        shutil.copy(WORKLOAD, folder)
        (folder / "grid.yaml").write_text(GRID)
        self.folder, self.journal = folder, folder / "raybench-results" / "long" / "journal.jsonl"

    def start(self):
        command = [sys.executable, "-m", "raybench", "grid", "grid.yaml"]
        words = (self.folder / "words.txt").open("a")
        return subprocess.Popen(command, cwd=self.folder, stdout=words, stderr=words, text=True)

    def finish(self, process):
        assert process.wait(300) == 0, self.words

    @property
    def words(self):
        return (self.folder / "words.txt").read_text()

    def events(self, kind):
        found = read(self.journal) if self.journal.exists() else ()
        return [event for event in found if event["event"] == kind and "-r" in event["trial"]]

    def wait_for_trial(self, number, process):
        """The start of the n-th trial of the grid, as soon as its checkpoint of epoch 3 is there."""
        deadline = time.monotonic() + 240
        while time.monotonic() < deadline and process.poll() is None:
            started = self.events("trial_started")
            if len(started) >= number:
                checkpoints = self.journal.parent / "trials" / started[-1]["trial"] / "checkpoints"
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


@pytest.fixture(scope="module")
def both(tmp_path_factory):
    """The grid as it should be; and with the first trial's process, and then in the second trial the driver, killed."""
    interpreter("tensorflow")
    whole, broken = (Grid(tmp_path_factory.mktemp(name)) for name in ("whole", "broken"))
    whole.finish(whole.start())
    process = broken.start()
    first = broken.wait_for_trial(1, process)
    os.kill(first["host"]["pid"], signal.SIGKILL)
    second = broken.wait_for_trial(3, process)
    assert second["trial"] != first["trial"]
    process.kill()
    process.wait()
    assert all_gone([second["host"]["pid"]])
    broken.finish(broken.start())
    return whole, broken


def test_the_fourth_epoch_follows_in_both_frameworks(both):
    _, broken = both
    resumed = broken.events("trial_resumed")
    assert [(event["epoch"], event["of_attempt"], event["attempt"]) for event in resumed] == [(3, 1, 2)] * 2
    assert {event["trial"] for event in resumed} == {event["trial"] for event in broken.events("trial_started")}
    ends = [(event["attempt"], event["status"]) for event in broken.events("trial_ended")]
    assert ends == [(1, "lost"), (2, "completed")] * 2


def test_the_losses_are_those_of_a_run_that_nothing_happened_to(both):
    whole, broken = both
    assert len(whole.losses()) == 12
    assert broken.losses() == whole.losses()


def test_the_table_and_mlflow_say_that_it_was_resumed(both):
    whole, broken = both
    assert "resumed (2 of 2 runs): it was resumed from a checkpoint after epoch 3, in another process" in " ".join(
        broken.words.split()
    )
    assert "resumed" not in whole.words
    stored = raybench.load(f"sqlite:///{broken.folder}/raybench-results/mlflow.db").trials
    assert list(stored.status) == ["completed"] * 2
    assert all("resumed" in findings for findings in stored.findings)


def test_no_checkpoint_is_left(both):
    for grid in both:
        assert list(grid.journal.parent.glob("trials/*/checkpoints")) == []


def test_the_same_command_has_nothing_left_to_do(both):
    _, broken = both
    before = len(broken.events("trial_started"))
    broken.finish(broken.start())
    assert len(broken.events("trial_started")) == before
    assert json.loads(broken.journal.read_text().splitlines()[-1])
