"""Real Ray, real Tune: each trial in a fresh process, in the plan's order, whatever becomes of the others."""

import contextlib
import json
import os
import shutil
import signal
import sqlite3
import subprocess
import sys
import time
from pathlib import Path

import pytest
from support import WORKLOADS
from support.processes import all_gone

from raybench.config import load_grid
from raybench.execution.progress import RecordingListener
from raybench.run import Options, run_grid

TROUBLES = WORKLOADS / "troubles.py"

pytestmark = [pytest.mark.slow, pytest.mark.ray]

GRID = """
name: troubles
workload: mine.py:chosen
epochs: 2
batch_size: 16
retries: 1
threads: 1
axes:
  device: [cpu, tpu]
  learning_rate: [0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7]
overrides:
- {when: {learning_rate: 0.3}, set: {timeout: 5s}}
"""

CHOOSE = """

class Chosen(torch.nn.Linear):
    def forward(self, inputs):
        # Each cell has its own trouble, told apart by the one thing in which they differ.
        if torch.is_grad_enabled():
            import gc

            optimizers = [thing for thing in gc.get_objects() if issubclass(type(thing), torch.optim.SGD)]
            rate = round(optimizers[0].param_groups[0]["lr"], 3)
            {0.2: raises, 0.3: hangs, 0.4: is_killed, 0.5: fills_memory, 0.7: kills_its_worker}.get(rate, nothing)()
            if rate == 0.6:
                return super().forward(inputs) * float("nan")
        return super().forward(inputs)


chosen = Workload(model=lambda: Chosen(1, 2), data=data)
"""


UNTOLD = ("epoch_ended", "trial_audited")
MARK = f"RAYBENCH_TEST={os.getpid()}"


def processes():
    """The command lines of running processes that descend from these tests: they inherit an environment with a mark."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            if MARK.encode() in (folder / "environ").read_bytes().split(b"\0") and int(folder.name) != os.getpid():
                found.append((folder / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace"))
        except OSError:
            continue
    return found


@pytest.fixture(scope="module")
def outcome(tmp_path_factory, ray_executor):
    """One grid in which each cell ends in its own way."""
    folder = tmp_path_factory.mktemp("ray")
    (folder / "mine.py").write_text(TROUBLES.read_text() + CHOOSE)
    (folder / "grid.yaml").write_text(GRID)
    watch = RecordingListener()
    options = Options(folder / "results", checks=False, tracking=None, report=False)
    return run_grid(load_grid(folder / "grid.yaml"), ray_executor, watch, options), watch


def by_rate(result):
    return {attempt.cell.settings.learning_rate: attempt for attempt in result.latest.values() if attempt.cell}


def test_every_trial_ends_as_it_should_and_the_others_complete(outcome):
    result, _ = outcome
    statuses = {rate: attempt.status for rate, attempt in by_rate(result).items()}
    assert statuses == {
        0.1: "completed",
        0.2: "failed",
        0.3: "timeout",
        0.4: "lost",
        0.5: "oom",
        0.6: "diverged",
        0.7: "completed",
    }
    assert [each.skip for each in result.report.answer.configurations if each.axes["device"] == "tpu"] == ["no TPU"] * 7
    assert result.exit_status == 1


def test_only_what_the_machine_broke_is_tried_again(outcome):
    result, watch = outcome
    attempts = {rate: attempt.attempt for rate, attempt in by_rate(result).items()}
    assert attempts == {0.1: 1, 0.2: 1, 0.3: 1, 0.4: 2, 0.5: 1, 0.6: 1, 0.7: 2}
    started = [event["trial"] for event in watch.events if event["event"] == "trial_started"]
    assert len(started) == 9
    of_a_lost_worker = by_rate(result)[0.7].trial
    ends = [e["status"] for e in watch.events if e["event"] == "trial_ended" and e["trial"] == of_a_lost_worker]
    assert ends == ["lost", "completed"]


def test_trials_start_in_the_plans_order_and_one_at_a_time(outcome):
    _, watch = outcome
    started = [event["trial"] for event in watch.events if event["event"] == "trial_started"]
    assert list(dict.fromkeys(started)) == [work.trial.trial_id for work in watch.todo]
    running = 0
    for event in watch.events:
        running += {"trial_started": 1, "trial_ended": -1}.get(event["event"], 0)
        assert 0 <= running <= 1, "a CPU trial owns its node"


def test_every_attempt_had_a_process_of_its_own_at_full_priority(outcome):
    result, watch = outcome
    opened = [event for event in watch.events if event["event"] == "trial_started"]
    assert len({event["host"]["pid"] for event in opened}) == 9
    assert {event["runtime_conditions"]["niceness"] for event in opened} == {os.nice(0)}
    assert {event["runtime_conditions"]["exclusive"] for event in opened} == {True}
    for attempt in result.latest.values():
        if attempt.ledger:
            assert sum(attempt.ledger.values()) == pytest.approx(attempt.wall, abs=max(0.005, 0.01 * attempt.wall))


def test_output_and_traceback_are_in_files_of_their_own(outcome):
    result, _ = outcome
    failed = by_rate(result)[0.2]
    folder = result.folder / "trials" / failed.trial / "attempt-1"
    assert "no such thing" in (folder / "error.txt").read_text()
    hung = by_rate(result)[0.3]
    assert (result.folder / "trials" / hung.trial / "attempt-1" / "output.log").read_text() == "about to hang\n"


def test_no_process_of_a_trial_is_left(outcome):
    _, watch = outcome
    assert all_gone([event["host"]["pid"] for event in watch.events if event["event"] == "trial_started"], 20)


@pytest.mark.mlflow
@pytest.mark.parametrize("times", [1, pytest.param(2, marks=pytest.mark.exhaustive)])
def test_ctrl_c_ends_what_runs_and_keeps_what_is_done(tmp_path, mlflow_results, times):
    shutil.copy(TROUBLES, tmp_path / "troubles.py")
    (tmp_path / "g.yaml").write_text("name: stop\nworkload: troubles.py:stopping\nbatch_size: 16\nrepeats: 2\n")
    results, raybench = mlflow_results, [sys.executable, "-m", "raybench"]
    command = [*raybench, "grid", str(tmp_path / "g.yaml"), "--results", str(results), "--no-checks"]
    environ = {**os.environ, **dict([MARK.split("=")])}
    driver = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=environ, start_new_session=True
    )
    journal = results / "stop" / "journal.jsonl"
    deadline = time.monotonic() + 300
    while not (journal.exists() and journal.read_text().count("trial_started") == 2):
        assert time.monotonic() < deadline, "the second trial has not started"
        assert driver.poll() is None, driver.stdout.read()
        time.sleep(0.1)
    for _ in range(times):
        os.killpg(driver.pid, signal.SIGINT)  # as a terminal does, to all that run in front
        time.sleep(0.3)
    said, _ = driver.communicate(timeout=120)
    assert driver.returncode == 130, said
    assert "Traceback" not in said
    deadline = time.monotonic() + 30
    while processes() and time.monotonic() < deadline:
        time.sleep(0.1)
    assert processes() == [], "of all that the command started"
    told = [json.loads(line) for line in journal.read_text().splitlines()]
    ends = [(event["event"], event.get("status")) for event in told if event["event"] not in UNTOLD]
    assert ends[:3] == [("trial_started", None), ("trial_ended", "completed"), ("trial_started", None)]
    if times == 1:
        assert ends[3:] == [("trial_ended", "killed"), ("grid_ended", None)]
        assert "Stopped. Run the same command again to continue." in said
    else:
        subprocess.run([*raybench, "sync", "--results", str(results)], env=environ, check=True, capture_output=True)
    with contextlib.closing(sqlite3.connect(results / "mlflow.db")) as store:
        states = dict(store.execute("select status, count(*) from runs group by status").fetchall())
    if times == 1:
        assert states == {"FINISHED": 1, "KILLED": 2}
    else:
        # Chance decides how far the second Ctrl-C lets it come. Ray may also end before the first one is handled; then
        # the trial that ran is lost, and its next attempt is the one that is stopped.
        started = sum(event["event"] == "trial_started" for event in told)
        assert states["FINISHED"] == 1 and states.keys() <= {"FINISHED", "KILLED", "FAILED"}, "nothing stays open"
        assert sum(states.values()) == started + 1, "every attempt, and the grid"
