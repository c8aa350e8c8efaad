"""Real Ray, real Tune: each trial in a fresh process, in the plan's order, whatever becomes of the others."""

import contextlib
import json
import os
import queue
import shutil
import signal
import sqlite3
import stat
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import psutil
import pytest
from ray import tune
from ray.exceptions import RayActorError
from support import ROOT
from support.grid_files import events_of
from support.outcomes import RecordingListener
from support.processes import LOOPBACK, all_gone, listening
from support.project import run_trials

import raybench
from raybench.core.ledger import training_s
from raybench.execution.tune_grid import PlanSearcher, innermost

pytestmark = [pytest.mark.slow, pytest.mark.ray]

GRID = """
name: troubles
workload: mine.py:train
epochs: 2
retries: 1
axes: {learning_rate: [0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7]}
overrides:
- {when: {learning_rate: 0.3}, set: {timeout: 2s}}
"""

TRAIN = """
import json, os, signal, time
from pathlib import Path


def kill(*generations):
    pid = os.getpid()
    for _ in generations:
        pid = int(Path(f"/proc/{pid}/stat").read_text().rsplit(") ")[1].split()[1])
    os.kill(pid, signal.SIGKILL)
    time.sleep(600)


def train(trial, *, learning_rate: float):
    attempts = trial.output_dir.parents[1].glob("*.jsonl")
    for epoch in trial.epochs():
        if learning_rate == 0.2:
            raise KeyError("no such thing")
        if learning_rate == 0.3:
            time.sleep(600)
        if learning_rate == 0.4:
            kill()
        if learning_rate == 0.5:
            bytearray(1 << 60)
        if learning_rate == 0.7 and len(list(attempts)) == 1:
            kill("fork server", "worker")
        for _ in trial.steps((time.sleep(0.01) for _ in range(2)), examples=1):
            pass
        trial.log({"train/loss": float("nan") if learning_rate == 0.6 else 1.0})
"""


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


class Results(tune.Callback):
    """A user's callback, which runs in the process of Ray."""

    def __init__(self, path):
        self.path = path

    def on_trial_result(self, iteration, trials, trial, result, **info):
        with self.path.open("a") as file:
            file.write(json.dumps([trial.config["learning_rate"], result.get("epoch"), result.get("status")]) + "\n")


@pytest.fixture(scope="module")
def outcome(tmp_path_factory, ray_executor):
    """One grid in which each cell ends in its own way."""
    folder = tmp_path_factory.mktemp("ray")
    ray_executor.callbacks = [Results(folder / "seen.jsonl")]
    (folder / "mine.py").write_text(TRAIN)
    watch = RecordingListener()
    yield run_trials(folder, GRID, ray_executor, watch), watch
    ray_executor.callbacks = ()


def test_each_trial_is_one_of_tune(outcome):
    """Those who know Ray find the trials of the grid: in the callbacks of Tune, and in its record of the experiment."""
    result, watch = outcome
    lines = (result.folder.parents[1] / "seen.jsonl").read_text().splitlines()
    seen = [(rate, epoch) for rate, epoch, status in map(json.loads, lines) if status is None]
    epochs = [event for event in watch.events if event["event"] == "epoch_ended"]
    rates = {attempt.trial: rate for rate, attempt in by_rate(result).items()}
    assert seen == [(rates[event["trial"]], event["epoch"]) for event in epochs]

    analysis = tune.ExperimentAnalysis(str(result.folder / "tune"))
    last = analysis.dataframe().set_index("config/learning_rate")
    of_first = [event["ledger"] for event in epochs if rates[event["trial"]] == 0.1]
    assert last.loc[0.1, "epoch"] == 2 and last.loc[0.1, "train/loss"] == 1
    assert last.loc[0.1, "epoch_s"] == training_s(of_first[-1]) > of_first[-1]["train"]
    assert {trial.config["learning_rate"] for trial in analysis.trials} == {*rates.values()}
    assert {trial.config["learning_rate"] for trial in analysis.trials if trial.status == "ERROR"} == {0.2, 0.4, 0.7}
    assert {trial.config["device"] for trial in analysis.trials} == {"cpu"}


def by_rate(result):
    return {attempt.cell.settings.learning_rate: attempt for attempt in result.latest.values() if attempt.cell}


def test_statuses_of_all_trials(outcome):
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


def test_tune_waits_for_a_trial_only_while_none_runs():
    waiting = queue.SimpleQueue()
    searcher = PlanSearcher(waiting)
    for config in ({"number": 1}, {"number": 2}):
        threading.Timer(0.1, waiting.put, [config]).start()
        assert searcher.suggest("a") == config and searcher.suggest("b") is None
        searcher.on_trial_complete("a")
    waiting.put(None)
    assert searcher.suggest("c") == "FINISHED"


def caused(error, cause):
    error.__cause__ = cause
    return error


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (caused(RuntimeError("of Tune"), caused(ValueError("of Ray"), KeyError("mine\nmore"))), "'mine\\nmore'"),
        (caused(RuntimeError("of Tune"), RayActorError()), ""),
        (ValueError(""), "ValueError"),
        (None, ""),
    ],
)
def test_an_error_of_tune_is_its_root_cause_unless_an_actor_is_lost(error, said):
    assert innermost(error) == said


def test_trials_start_in_the_plans_order(outcome):
    _, watch = outcome
    started = [event["trial"] for event in watch.events if event["event"] == "trial_started"]
    assert list(dict.fromkeys(started)) == [work.trial.trial_id for work in watch.todo]
    running = 0
    for event in watch.events:
        running += {"trial_started": 1, "trial_ended": -1}.get(event["event"], 0)
        assert 0 <= running <= 1, "a CPU trial owns its node"


def test_attempts_have_own_processes_at_full_priority(outcome):
    result, watch = outcome
    opened = [event for event in watch.events if event["event"] == "trial_started"]
    assert len({event["host"]["pid"] for event in opened}) == 9
    assert {event["runtime_conditions"]["niceness"] for event in opened} == {os.nice(0)}
    for attempt in result.latest.values():
        if attempt.ledger:
            assert sum(attempt.ledger.values()) == pytest.approx(attempt.wall, abs=max(0.005, 0.01 * attempt.wall))


def test_no_process_of_a_trial_is_left(outcome):
    _, watch = outcome
    assert all_gone([event["host"]["pid"] for event in watch.events if event["event"] == "trial_started"], 20)


LONG = """
import time


def train(trial):
    folder, state = trial.output_dir.parents[1], [0]
    attempt = len(list(folder.glob("*.jsonl")))
    trial.checkpoint(lambda path: path.write_text(str(state[0])), lambda path: state.insert(0, int(path.read_text())))
    for epoch in trial.epochs():
        if epoch == attempt + 1 or folder.name.endswith("-r1"):
            time.sleep(600)
        state[0] += epoch
        trial.log({"train/loss": state[0]})
"""
"""Waits in the third epoch of its first attempt, in the fourth of its second, and in each of its second repeat."""

LITTLE_MEMORY = """import sys
if "raybench.execution.ray_process" in sys.orig_argv:
    import ray._private.utils
    ray._private.utils.estimate_available_memory = lambda: 150_000_000
"""
"""Makes a Ray believe that its machine has little memory now, as a virtual machine whose memory grows with its use."""


CHECKPOINT = "attempts/*/checkpoints/epoch-00000{}.rank-0"


class Command:
    """`raybench grid` in a folder, to be watched and killed; what it starts has the mark in its environment."""

    def __init__(self, folder, temporary):
        self.results, self._folder = folder / "results" / "long", folder
        (folder / "long.py").write_text(LONG)
        (folder / "g.yaml").write_text(
            "name: long\nworkload: long.py:train\nepochs: 4\nrepeats: 2\ncheckpoint_every: 1\n"
        )
        (folder / "sitecustomize.py").write_text(LITTLE_MEMORY)
        path = os.pathsep.join([str(folder), str(ROOT)])
        own = {"PYTHONPATH": path, "RAY_AUTH_MODE": "disabled", "TMPDIR": str(temporary)}
        self._environ = os.environ | dict([MARK.split("=")]) | own

    def start(self):
        command = [sys.executable, "-m", "raybench", "grid", "g.yaml", "--results", "results", "--no-checks"]
        how = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True, "umask": 0}
        self.process = subprocess.Popen(command, cwd=self._folder, env=self._environ, start_new_session=True, **how)

    def events(self, kind):
        return [event for event in events_of(self.results) if event["event"] == kind]

    def wait_for(self, attempts, there="attempts"):
        """Wait until so many attempts have begun and something is in the grid's folder."""
        deadline = time.monotonic() + 300
        while len(self.events("trial_started")) < attempts or not any(self.results.glob(there)):
            assert time.monotonic() < deadline
            assert self.process.poll() is None, self.process.stdout.read()
            time.sleep(0.1)

    def ended(self, status):
        """Its output, after it has ended with this status and nothing that it started runs any more."""
        output, _ = self.process.communicate(timeout=120)
        assert self.process.returncode == status, output
        assert "Traceback" not in output
        deadline = time.monotonic() + 30
        while processes() and time.monotonic() < deadline:
            time.sleep(0.1)
        assert processes() == [], "of all that the command started"
        return " ".join(output.split())


@pytest.fixture
def short_folder():
    """A folder of temporary files with a short name, for Ray's sockets."""
    folder = Path(tempfile.mkdtemp(prefix="rbt"))
    yield folder
    shutil.rmtree(folder, ignore_errors=True)


def check_privacy(process, folder):
    """A running grid cannot be reached from other machines, nor its files by other users."""
    places = listening(process)
    assert places and all(place.ip.startswith(LOOPBACK) for place in places)
    folders = list(folder.iterdir())
    assert folders and {stat.S_IMODE(each.lstat().st_mode) for each in folders} == {0o700}
    tokens = [token.read_text() for token in folder.rglob("token")]
    lines = [" ".join(each.cmdline()) for each in process.children(recursive=True) if each.is_running()]
    assert tokens and not any(token in line for token in tokens for line in lines)


@pytest.mark.mlflow
@pytest.mark.parametrize(
    ("name", "reported"),
    [
        ("raylet", "Ray's raylet ended"),
        pytest.param("gcs_server", "Ray's GCS server ended", marks=pytest.mark.exhaustive),
        pytest.param("raybench.execution.ray_process", "ended by SIGKILL", marks=pytest.mark.exhaustive),
    ],
)
def test_killed_commands_continue_and_ctrl_c_keeps_finished(tmp_path, mlflow_results, short_folder, name, reported):
    """The same command three times: it is killed amid an epoch, then Ray is, and at last it is stopped by a person."""
    command = Command(tmp_path, short_folder)
    command.start()
    command.wait_for(1, CHECKPOINT.format(2))
    command.process.kill()
    command.ended(-signal.SIGKILL)

    command.start()
    command.wait_for(2, CHECKPOINT.format(3))
    for process in psutil.Process(command.process.pid).children(recursive=True):
        if process.name() == name or name in process.cmdline():
            process.kill()
            break
    words = command.ended(1)
    assert reported in words and "run the same command again" in words
    assert command.events("trial_ended")[-1]["error"]["type"] == "ExecutionError"

    command.start()
    command.wait_for(4)
    check_privacy(psutil.Process(command.process.pid), short_folder)
    os.killpg(command.process.pid, signal.SIGINT)  # as a terminal does, to all that run in front
    command.ended(130)
    ends = [(event["attempt"], event["status"]) for event in command.events("trial_ended")]
    assert ends == [(1, "lost"), (2, "lost"), (3, "completed"), (1, "killed")]
    assert [(each["epoch"], each["of_attempt"]) for each in command.events("trial_resumed")] == [(2, 1), (3, 2)]
    losses = [each["metrics"]["train/loss"] for each in command.events("epoch_ended") if each["attempt"] == 3]
    assert losses == [0, 1, 3, 6], "as if nothing had been"
    assert list(command.results.glob("attempts/*/checkpoints")) == [], "finished trials need none"
    with contextlib.closing(sqlite3.connect(tmp_path / "results" / "mlflow.db")) as store:
        states = store.execute("select distinct status from runs").fetchall()
    assert {state for (state,) in states} == {"FINISHED", "FAILED", "KILLED"}
    stored = raybench.load(f"sqlite:///{tmp_path}/results/mlflow.db").trials.set_index("status")
    assert {*stored.index} == {"completed", "killed"}
