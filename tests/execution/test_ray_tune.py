"""Real Ray, real Tune: each trial in a fresh process, in the plan's order, whatever becomes of the others."""

import contextlib
import os
import shutil
import signal
import sqlite3
import stat
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import psutil
import pytest
from support import ROOT, WORKLOADS
from support.outcomes import RecordingListener
from support.processes import LOOPBACK, all_gone, listening

from raybench.config import load_grid
from raybench.results.folder import ATTEMPTS, event_files, read_events
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
- {when: {learning_rate: 0.3}, set: {timeout: 2s}}
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
    assert {event["runtime_conditions"]["exclusive"] for event in opened} == {True}
    for attempt in result.latest.values():
        if attempt.ledger:
            assert sum(attempt.ledger.values()) == pytest.approx(attempt.wall, abs=max(0.005, 0.01 * attempt.wall))


def test_no_process_of_a_trial_is_left(outcome):
    _, watch = outcome
    assert all_gone([event["host"]["pid"] for event in watch.events if event["event"] == "trial_started"], 20)


def start(folder, text, **environment):
    """Start the command on a grid of workloads in troubles.py; each run has the mark in its environment."""
    shutil.copy(TROUBLES, folder / "troubles.py")
    (folder / "g.yaml").write_text(text)
    command = [sys.executable, "-m", "raybench", "grid", "g.yaml", "--results", "results", "--no-checks"]
    environ = {**os.environ, **dict([MARK.split("=")]), **environment}
    output = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True, "umask": 0}
    return subprocess.Popen(command, cwd=folder, env=environ, start_new_session=True, **output)


def events(folder, kind):
    found = [event for path in event_files(folder, ATTEMPTS) for event in read_events(path, [])]
    return sorted((event for event in found if event["event"] == kind), key=lambda event: event["t"])


def wait_for(what, driver):
    deadline = time.monotonic() + 300
    while not what():
        assert time.monotonic() < deadline
        assert driver.poll() is None, driver.stdout.read()
        time.sleep(0.1)


def wait_until_nothing_runs():
    deadline = time.monotonic() + 30
    while processes() and time.monotonic() < deadline:
        time.sleep(0.1)
    assert processes() == [], "of all that the command started"


LITTLE_MEMORY = """import sys
if "raybench.execution.ray_process" in sys.orig_argv:
    import ray._private.utils
    ray._private.utils.estimate_available_memory = lambda: 150_000_000
"""
"""Makes a Ray believe that its machine has little memory now, as a virtual machine whose memory grows with its use."""


@pytest.fixture
def short_folder():
    """A folder of temporary files with a short name, for Ray's sockets."""
    folder = Path(tempfile.mkdtemp(prefix="rbt"))
    yield folder
    shutil.rmtree(folder, ignore_errors=True)


@pytest.mark.mlflow
def test_running_grid_is_private_and_ctrl_c_keeps_finished(tmp_path, mlflow_results, short_folder):
    """It cannot be reached from other machines, nor its files by other users."""
    (tmp_path / "sitecustomize.py").write_text(LITTLE_MEMORY)
    python_path = os.pathsep.join([str(tmp_path), str(ROOT)])
    environment = {"PYTHONPATH": python_path, "RAY_AUTH_MODE": "disabled", "TMPDIR": str(short_folder)}
    text = "name: stop\nworkload: troubles.py:stopping\nbatch_size: 16\nrepeats: 2\n"
    driver = start(tmp_path, text, **environment)
    wait_for(lambda: len(events(tmp_path / "results" / "stop", "trial_started")) == 2, driver)
    process = psutil.Process(driver.pid)
    places = listening(process)
    assert places and all(place.ip.startswith(LOOPBACK) for place in places)
    folders = list(short_folder.iterdir())
    assert folders and {stat.S_IMODE(folder.lstat().st_mode) for folder in folders} == {0o700}
    tokens = [token.read_text() for token in short_folder.rglob("token")]
    lines = [" ".join(each.cmdline()) for each in process.children(recursive=True) if each.is_running()]
    assert tokens and not any(token in line for token in tokens for line in lines)
    os.killpg(driver.pid, signal.SIGINT)  # as a terminal does, to all that run in front
    output, _ = driver.communicate(timeout=120)
    assert driver.returncode == 130, output
    assert "Traceback" not in output
    wait_until_nothing_runs()
    ends = events(tmp_path / "results" / "stop", "trial_ended")
    assert [event["status"] for event in ends] == ["completed", "killed"]
    with contextlib.closing(sqlite3.connect(tmp_path / "results" / "mlflow.db")) as store:
        states = dict(store.execute("select status, count(*) from runs group by status").fetchall())
    assert states.keys() == {"FINISHED", "KILLED"}


@pytest.mark.parametrize(
    ("name", "reported"),
    [
        ("raylet", "Ray's raylet ended"),
        pytest.param("gcs_server", "Ray's GCS server ended", marks=pytest.mark.exhaustive),
        pytest.param("raybench.execution.ray_process", "ended by SIGKILL", marks=pytest.mark.exhaustive),
    ],
)
def test_death_of_ray_ends_command_with_remedy(tmp_path, mlflow_results, name, reported):
    driver = start(tmp_path, "name: gone\nworkload: troubles.py:hanging\nbatch_size: 16\n")
    wait_for(lambda: events(tmp_path / "results" / "gone", "trial_started"), driver)
    for process in psutil.Process(driver.pid).children(recursive=True):
        if process.name() == name or name in process.cmdline():
            process.kill()
            break
    output, _ = driver.communicate(timeout=60)
    words = " ".join(output.split())
    assert driver.returncode == 1, output
    assert reported in words and "run the same command again" in words and "Traceback" not in words
    wait_until_nothing_runs()
    (end,) = events(tmp_path / "results" / "gone", "trial_ended")
    assert (end["status"], end["error"]["type"]) == ("lost", "RayGone")
