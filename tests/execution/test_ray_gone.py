"""A Ray whose own processes end in the middle of a grid: noticed, started again, given up at the third time."""

import os
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from contextlib import suppress
from types import SimpleNamespace

import psutil
import pytest
from raybench.execution.ray_tune import RESTARTS, RayTuneExecutor
from raybench.execution.ray_watch import RayGoneError, RayWatch
from support import WORKLOADS
from support.cells import resolved_cell

from raybench.core.status import TrialStatus
from raybench.devices import Hardware
from raybench.errors import ExecutionError
from raybench.execution import ray_watch
from raybench.execution.base import TemporaryMessage
from raybench.execution.scheduler import Dispatcher
from raybench.planning.node import Node
from raybench.planning.placement import Placement
from raybench.planning.plan import Trial, WorkItem
from raybench.results.journal import read

pytestmark = [pytest.mark.slow, pytest.mark.ray]

GRID = "name: g\nworkload: mine.py:slow\nbatch_size: 16\nepochs: 8\nthreads: 1\nretries: 1\nrepeats: 3\n"
SLOW = """

def takes_a_moment():
    time.sleep(0.05)


slow = Workload(model=lambda: Trouble(takes_a_moment), data=data)
"""

PROGRAMS = {"raylet": "/raylet/raylet", "agent": "ray::DashboardAgent", "GCS server": "/gcs/gcs_server"}
"""How the command lines of Ray's own processes begin, up to their options: the end of that."""


def find(driver, program):
    for process in psutil.Process(driver).children(recursive=True):
        try:
            if process.cmdline()[:1] and process.cmdline()[0].strip().endswith(program):
                return process.pid
        except psutil.Error:
            continue
    raise AssertionError(f"no {program}")


@pytest.mark.parametrize(
    "name",
    [
        "raylet",
        pytest.param("GCS server", marks=pytest.mark.exhaustive),
        pytest.param("agent", marks=pytest.mark.exhaustive),
    ],
)
def test_a_grid_goes_on_with_a_new_ray(tmp_path, name):
    (tmp_path / "mine.py").write_text((WORKLOADS / "troubles.py").read_text() + SLOW)
    (tmp_path / "g.yaml").write_text(GRID)
    command = [
        sys.executable,
        "-m",
        "raybench",
        "grid",
        "g.yaml",
        "--no-checks",
        "--no-tracking",
        "--results",
        "results",
    ]
    driver = subprocess.Popen(
        command, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, start_new_session=True
    )
    journal = tmp_path / "results" / "g" / "journal.jsonl"
    while not (journal.exists() and journal.read_text().count("trial_started") == 2):
        assert driver.poll() is None, driver.stdout.read()
        time.sleep(0.05)
    os.kill(find(driver.pid, PROGRAMS[name]), signal.SIGKILL)
    said, _ = driver.communicate(timeout=300)
    assert driver.returncode == 0, said
    gone = "raylet" if name == "agent" else name
    words = " ".join(said.split())
    assert f"warning: Ray's {gone} was ended" in words
    assert "Ray is restarted" in words
    assert "Traceback" not in said
    assert "Raylet is terminated" not in said  # a page of Ray's own logs
    ends = [event for event in read(journal) if event["event"] == "trial_ended"]
    assert [event["status"] for event in ends] == ["completed", "lost", "completed", "completed"]
    assert [event["attempt"] for event in ends] == [1, 1, 2, 1]
    assert f"Ray's {gone}" in ends[1]["error"]["message"]


def test_a_ray_that_goes_on_ending_ends_the_grid(monkeypatch):
    """After two restarts the command ends with status 1; what ran is lost, not left open."""
    fit = Placement(Hardware("cpu", "EPYC", 2, ids=("0", "1")), ("box",), 2, 0, "2.13")
    trials = [Trial(resolved_cell(name, fit=fit), 0, 0) for name in "ab"]
    dispatcher = Dispatcher([WorkItem(trial) for trial in trials], [Node("box", (fit.hardware,))], retries=1)
    executor, told, sunk = RayTuneExecutor(), [], []

    def run(dispatcher, *arguments):
        assert dispatcher.next()
        raise RayGoneError("Ray's raylet was ended by SIGKILL")

    monkeypatch.setattr(executor, "_connect", lambda tell: None)
    monkeypatch.setattr("raybench.execution.ray_tune.HeadWatch", lambda *arguments: SimpleNamespace(close=list))
    monkeypatch.setattr("ray.get_runtime_context", lambda: SimpleNamespace(gcs_address=""))
    monkeypatch.setattr(executor, "_run", run)
    with pytest.raises(ExecutionError, match=r"raylet .* after 2 restarts .* run the same command again"):
        executor.run(dispatcher, None, sunk.append, told.append)
    assert len(told) == RESTARTS
    assert [(event["trial"], event["attempt"], event["status"]) for event in sunk] == [
        ("a-r0", 1, TrialStatus.LOST),
        ("a-r0", 2, TrialStatus.LOST),
        ("b-r0", 1, TrialStatus.LOST),
    ]
    assert not dispatcher.running


@pytest.fixture
def ray_of_sleepers(monkeypatch):
    """Two processes that stand for Ray's, and the commands that were started in their place."""
    sleepers = {name: subprocess.Popen(["sleep", "600"]) for name in ray_watch.PROGRAMS}
    node = SimpleNamespace(
        all_processes={name: [SimpleNamespace(process=process)] for name, process in sleepers.items()},
    )
    monkeypatch.setattr(ray_watch.worker, "_global_node", node)
    yield sleepers
    for process in sleepers.values():
        process.kill()
        process.wait()


def test_a_ray_that_is_up_is_left_alone(ray_of_sleepers, tmp_path):
    watch = RayWatch(tmp_path, print)
    watch.ray_is_up()
    watch.check()
    watch.expect_shutdown()
    for process in ray_of_sleepers.values():
        process.kill()
        process.wait()
    watch.check()  # Ray's own shutdown is no fault
    watch.close()


@pytest.mark.parametrize(("name", "names"), ray_watch.PROGRAMS.items())
def test_a_process_that_ended_is_named_with_how_it_ended(ray_of_sleepers, monkeypatch, tmp_path, name, names):
    started = []
    monkeypatch.setattr(RayWatch, "_start_another_gcs", lambda self: started.append("gcs_server"))
    watch = RayWatch(tmp_path, print)
    watch.ray_is_up()
    ray_of_sleepers[name].terminate()
    with pytest.raises(RayGoneError, match=f"Ray's {names[0]} was ended by SIGTERM"):
        for _ in range(100):
            time.sleep(0.1)
            watch.check()
    watch.close()
    assert started == (["gcs_server"] if name == "gcs_server" else [])


def test_the_shutdown_of_a_ray_without_raylet_does_not_wait_for_a_gcs_that_ends_now(
    ray_of_sleepers, monkeypatch, tmp_path
):
    started = threading.Event()
    monkeypatch.setattr(RayWatch, "_start_another_gcs", lambda self: started.set())
    watch = RayWatch(tmp_path, print)
    watch.ray_is_up()
    ray_of_sleepers["raylet"].kill()
    with pytest.raises(RayGoneError, match="raylet"):
        watch.check_soon()
    watch.expect_shutdown()
    ray_of_sleepers["gcs_server"].kill()
    assert started.wait(30)
    watch.close()


def test_a_start_that_takes_long_is_no_silence(tmp_path, monkeypatch):
    monkeypatch.setattr(ray_watch, "SLOW_START", 0.2)
    monkeypatch.setattr(ray_watch.worker, "_global_node", None)
    told = []
    watch = RayWatch(tmp_path, told.append)
    for _ in range(100):
        if told:
            break
        time.sleep(0.05)
    watch.close()
    assert told and "has not started after 0.2 s" in told[0] and isinstance(told[0], TemporaryMessage)


def test_a_clusters_head_that_no_longer_answers_is_named():
    told = []
    with socket.create_server(("127.0.0.1", 0)) as server:
        address = f"127.0.0.1:{server.getsockname()[1]}"
        watch = ray_watch.HeadWatch(address, told.append, every=0.05)
        time.sleep(0.3)
        assert told == []
    for _ in range(100):
        if told:
            break
        time.sleep(0.05)
    watch.close()
    assert len(told) == 1
    assert told[0].startswith(f"The head of the Ray cluster at {address} does not answer.")


ASKED_TO_END = """
import os, signal, time
from raybench.execution.ray_tune import RayTuneExecutor

signal.signal(signal.SIGTERM, signal.default_int_handler)
executor = RayTuneExecutor()
for action in (executor.nodes, executor.close):
    action()
    try:
        os.kill(os.getpid(), signal.SIGTERM)
        time.sleep(60)
    except KeyboardInterrupt:
        print("interrupted")
time.sleep(4)  # Ray's own handler would abort the process after 3 s
"""


def test_a_ray_leaves_sigterm_to_this_process():
    """Also the Ray that is started after one that ended in the middle of a grid."""
    done = subprocess.run([sys.executable, "-c", ASKED_TO_END], capture_output=True, text=True, timeout=120)
    assert (done.stdout, done.returncode) == ("interrupted\ninterrupted\n", 0), done.stderr
    assert "SIGTERM received" not in done.stderr


def test_a_gcs_of_the_ray_before_is_not_that_of_the_ray_that_starts(tmp_path):
    """The end of the new one is reported, although the one that was started for calls to the old one goes on."""
    server = tmp_path / "gcs" / "gcs_server"
    server.parent.mkdir()
    shutil.copy("/bin/sleep", server)
    of_before = subprocess.Popen([str(server), "60"])
    messages = []
    watch = RayWatch(tmp_path / "r", messages.append)
    own = subprocess.Popen([str(server), "60"])
    try:
        deadline = time.monotonic() + 30
        while "gcs_server" not in watch._pids and time.monotonic() < deadline:
            time.sleep(0.02)
        own.kill()
        while not messages and time.monotonic() < deadline:
            time.sleep(0.02)
        assert "Ray's GCS server was ended while Ray started" in str(messages)
    finally:
        watch.close()
        for child in psutil.Process().children():
            with suppress(psutil.Error):
                if child.pid == of_before.pid or child.cmdline()[:1] == [str(server)]:
                    child.kill()
        of_before.wait(), own.wait()
