"""Whose a run is: what a driver that died has left is closed, and what another one drives is left alone."""

import subprocess
import sys
import time
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from tracked import ended, epoch, eventually, runs, started

from raybench.analysis.results import attempts
from raybench.tracking import projection as p
from raybench.tracking import writer as writing
from raybench.tracking.abandoned import STALE
from raybench.tracking.driver import this_driver
from raybench.tracking.mlflow import MlflowClient, Runs
from raybench.tracking.projection import Summary
from raybench.tracking.store import resolve
from raybench.tracking.writer import LONGEST_PAUSE, MlflowWriter

DRIVE = """
import sys
from pathlib import Path
sys.path.insert(0, sys.argv[4])
from tracked import ended, epoch, started
from raybench.tracking.projection import Summary
from raybench.tracking.store import at
from raybench.tracking.writer import MlflowWriter

uri, grid, name = sys.argv[1:4]
writer = MlflowWriter(at(uri), grid, Path(), execution=f"of {name}", interval=0.05)
writer.put(started(name))
writer.put(epoch(name, 1))
print("begun", flush=True)
sys.stdin.readline()
writer.put(ended(name))
writer.put_summary(Summary(f"of {name}", {}, {"completed": 1}))
print(writer.close(), flush=True)
"""


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    folder = tmp_path_factory.mktemp("store")
    store = resolve(folder, f"sqlite:///{folder}/mlflow.db")
    MlflowWriter(store, "first", folder).close()
    return store


@pytest.fixture
def drive(store):
    """Starts drivers of their own, each in the middle of a trial that has its name."""
    processes = []

    def start(grid, name):
        command = [sys.executable, "-c", DRIVE, store.uri, grid, name, str(Path(__file__).parent)]
        process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        processes.append(process)
        return process

    yield start
    for process in processes:
        process.kill()
        process.communicate()


def statuses(store, grid):
    return {name: run.info.status for name, run in runs(store, grid, by="raybench.trial_id").items()}


def test_what_a_killed_driver_left_is_closed_at_the_next_start_and_nothing_else(store, drive, tmp_path):
    grid = "owners"
    dead, living = drive(grid, "dead-r0"), drive(grid, "living-r0")
    both = {"dead-r0": "RUNNING", "living-r0": "RUNNING", "of dead-r0": "RUNNING", "of living-r0": "RUNNING"}
    eventually(lambda: statuses(store, grid) == both, 120)
    dead.kill()
    dead.wait()
    mine = MlflowWriter(store, grid, tmp_path, execution="of mine")
    assert mine.wait_open()
    assert statuses(store, grid) == both | {"dead-r0": "FAILED", "of dead-r0": "FAILED", "of mine": "RUNNING"}
    tags = runs(store, grid, by="raybench.trial_id")["dead-r0"].data.tags
    assert (tags[p.STATUS], tags[p.CLOSED_BY]) == ("lost", str(this_driver()))
    tags = runs(store, grid, by="raybench.trial_id")["living-r0"].data.tags
    assert (tags[p.STATUS], tags.get(p.CLOSED_BY)) == ("running", None)
    mine.put_summary(Summary("of mine", {}, {}))
    assert mine.close() == 0
    assert living.communicate("go on\n", timeout=120)[0].split() == ["begun", "0"]
    found = statuses(store, grid)
    assert (found["living-r0"], found["of living-r0"], found["of mine"]) == ("FINISHED",) * 3


def elsewhere(store, grid, seconds_ago):
    """A run of a driver on another host that was heard of last so many seconds ago, and its execution's."""
    runs = Runs(store, grid, "of another")
    runs.execution.begin()
    (attempt,) = attempts([started("c-r0", host="node-7"), epoch("c-r0", 1)]).values()
    trial = runs.write(attempt)
    client, own = MlflowClient(store.uri), runs.execution._own.run_id
    client.set_tag(own, p.DRIVER, replace(this_driver(), host="node-7", boot="another").to_json())
    heard = datetime.now(UTC) - timedelta(seconds=seconds_ago)
    client.set_tag(own, p.HEARTBEAT, heard.isoformat(timespec="milliseconds"))
    return attempt, trial


@pytest.mark.parametrize(("seconds", "status"), [(STALE - 120, "RUNNING"), (STALE + 5, "FAILED")])
def test_a_driver_on_another_host_is_judged_by_its_last_sign_of_life(store, tmp_path, seconds, status):
    grid = f"elsewhere {status}"
    elsewhere(store, grid, seconds)
    writer = MlflowWriter(store, grid, tmp_path, execution="of mine")
    assert writer.wait_open()
    assert statuses(store, grid) == {"c-r0": status, "of another": status, "of mine": "RUNNING"}
    writer.close()
    assert statuses(store, grid)["of mine"] == "KILLED", "it came to no end of its own"


def test_a_store_that_comes_back_has_heard_of_a_driver_before_it_is_given_up():
    assert STALE > 2 * LONGEST_PAUSE


def test_a_driver_that_was_taken_for_gone_takes_its_runs_back(store, tmp_path, monkeypatch):
    grid = "back"
    monkeypatch.setattr(writing, "HEARTBEAT", 0.2)
    writer = MlflowWriter(store, grid, tmp_path, execution="of mine", interval=0.05)
    assert writer.wait_open()
    writer.put(started("c-r0"))
    eventually(lambda: "c-r0" in statuses(store, grid))
    client = MlflowClient(store.uri)
    for run in runs(store, grid).values():
        client.set_tag(run.info.run_id, p.CLOSED_BY, "another")
        client.set_terminated(run.info.run_id, "FAILED")

    def taken_back():
        writer._beaten = 0.0  # the machine was asleep
        return statuses(store, grid)["of mine"] == "RUNNING"

    eventually(taken_back)
    writer.put(epoch("c-r0", 1))
    eventually(lambda: statuses(store, grid)["c-r0"] == "RUNNING")
    writer.put(ended("c-r0"))
    writer.put_summary(Summary("of mine", {}, {}))
    assert writer.close() == 0
    assert statuses(store, grid) == {"c-r0": "FINISHED", "of mine": "FINISHED"}
    assert not any(p.CLOSED_BY in run.data.tags for run in runs(store, grid).values())


def test_a_driver_shows_that_it_lives(store, tmp_path, monkeypatch):
    monkeypatch.setattr(writing, "HEARTBEAT", 0.1)
    writer = MlflowWriter(store, "beats", tmp_path, execution="of mine")
    assert writer.wait_open()
    first = runs(store, "beats")["grid beats"].data.tags
    assert p.milliseconds(first[p.HEARTBEAT]) == pytest.approx(time.time() * 1000, abs=60_000)
    eventually(lambda: runs(store, "beats")["grid beats"].data.tags[p.HEARTBEAT] > first[p.HEARTBEAT])
    writer.close()


def test_two_machines_with_the_same_trials_have_each_their_runs(store, tmp_path):
    grid = "twice"
    writers = [MlflowWriter(store, grid, tmp_path, execution=f"of {host}") for host in ("a", "b")]
    for host, writer in zip(("a", "b"), writers, strict=True):
        assert writer.wait_open()
        for event in (started("c-r0", host=host), epoch("c-r0", 1), ended("c-r0")):
            writer.put(event)
        writer.put_summary(Summary(f"of {host}", {}, {}))
    assert [writer.close() for writer in writers] == [0, 0]
    found = runs(store, grid, by="mlflow.runName", all_of_them=True)
    assert sorted(run.info.run_name for run in found) == ["c-r0", "c-r0", "grid twice", "grid twice"]
    assert {run.data.tags["raybench.host"] for run in found if "raybench.host" in run.data.tags} == {"a", "b"}
    assert {run.info.status for run in found} == {"FINISHED"}
