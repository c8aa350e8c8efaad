"""The sampler, looking at real processes."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from raybench.core import events
from raybench.core.cell import Cell, CellDevice
from raybench.core.job import Job
from raybench.devices.host import usable_cores
from raybench.monitoring import SAMPLES, Monitor
from raybench.monitoring.processes import Session
from raybench.monitoring.sampler import MANY, pause

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the numbers of processes come from /proc")

BUSY = "while True: pass"
IDLE = "import time; time.sleep(60)"
MIB = 1024 * 1024


class Process:
    """A Python program in a session of its own, on one core."""

    def __init__(self, program, core):
        self.process = subprocess.Popen([sys.executable, "-c", program], start_new_session=True, stdout=subprocess.PIPE)
        self.pid = self.process.pid
        os.sched_setaffinity(self.pid, [core])

    def __enter__(self):
        return self

    def __exit__(self, *_):
        os.killpg(self.pid, signal.SIGKILL)
        self.process.wait()
        self.process.stdout.close()


@pytest.fixture
def core():
    return usable_cores()[-1]


def make_job(folder, core):
    return Job("t-r0", 1, 0, 0, Cell(device=CellDevice("cpu")), {}, "", str(folder), [core])


def audited(job, leader, seconds):
    with Monitor(job) as audit:
        audit.begin(leader)
        time.sleep(seconds)
        return audit.end()


@pytest.mark.slow
def test_a_busy_loop_on_the_trials_core_is_other_peoples_time(tmp_path, core):
    with Process(IDLE, core) as trial, Process(BUSY, core) as other:
        before = cpu_seconds(other.pid)
        told = audited(make_job(tmp_path, core), trial.pid, 1.5)
        used = cpu_seconds(other.pid) - before
    host = told["host"]
    assert told["event"] == "trial_audited" and told["within"] == "trial"
    assert host["own_cpu_s"] < 0.3, "it slept"
    assert host["other_cpu_s"] > 0.7 * used > 0, "what the loop used is among what others used"
    assert host["other_cpu_s"] + host["own_cpu_s"] <= 1.1 * told["seconds"], "a core has no more time than there is"


@pytest.mark.slow
def test_a_busy_trial_is_not_taken_for_somebody_else(tmp_path, core):
    with Process(IDLE, core), Process(BUSY, core) as trial:
        before = cpu_seconds(trial.pid)
        told = audited(make_job(tmp_path, core), trial.pid, 1.5)
        used = cpu_seconds(trial.pid) - before
    assert told["host"]["own_cpu_s"] == pytest.approx(used, abs=0.25)
    assert told["host"]["other_cpu_s"] <= told["seconds"] - used + 0.3, "what is left of the core, at most"


def cpu_seconds(pid):
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2].split()
    return sum(map(int, fields[11:13])) / os.sysconf("SC_CLK_TCK")


CHILDREN = """
import subprocess, sys, time
ended = "import time; end = time.process_time() + .4\\nwhile time.process_time() < end: pass"
subprocess.run([sys.executable, "-c", ended])
living = "b = bytearray(80 << 20); print(len(b), flush=True); import time; time.sleep(60)"
process = subprocess.Popen([sys.executable, "-c", living])
time.sleep(60)
"""


@pytest.mark.slow
def test_the_children_of_a_trial_are_the_trial_living_or_ended(tmp_path, core):
    with Process(CHILDREN, core) as trial, Monitor(make_job(tmp_path, core)) as audit:
        audit.begin(trial.pid)
        assert trial.process.stdout.readline(), "the living child has its memory"
        time.sleep(1.2)
        told = audit.end()
    assert told["host"]["own_cpu_s"] >= 0.4, "an ended child's time is kept"
    assert told["process"]["peak_rss_bytes"] > 80 * MIB, "a living child's memory is counted"


@pytest.mark.slow
def test_a_peak_between_two_samples_is_found(tmp_path, core):
    program = "import time; time.sleep(.5); b = bytearray(150 << 20); del b; print(flush=True); time.sleep(60)"
    with Process(program, core) as trial, Monitor(make_job(tmp_path, core)) as audit:
        audit.begin(trial.pid)
        assert trial.process.stdout.readline()
        time.sleep(1.2)
        told = audit.end()
        samples = [json.loads(line) for line in (tmp_path / SAMPLES).read_text().splitlines()]
    assert samples[-1]["rss_bytes"] < 100 * MIB, "it is given back by now"
    assert told["process"]["peak_rss_bytes"] > 150 * MIB


def test_samples_are_on_disk_and_add_up_to_the_event(tmp_path, core):
    with Process(BUSY, core) as trial:
        told = audited(make_job(tmp_path, core), trial.pid, 0.6)
    samples = [json.loads(line) for line in (tmp_path / SAMPLES).read_text().splitlines()]
    assert told["samples"] == len(samples) >= 3, "a trial of less than a second has samples too"
    assert sum(sample["own_cpu_s"] for sample in samples) == pytest.approx(told["host"]["own_cpu_s"], abs=1e-3)
    assert samples[-1]["at"] == pytest.approx(sum(sample["seconds"] for sample in samples), abs=0.01)
    assert samples[-1]["at"] >= 0.5, "the end is in it"
    assert told["cost_cpu_s"] < 0.5
    assert told["missing"] == []


@pytest.mark.parametrize("ahead", [0.0, 0.1])
def test_a_wall_clock_that_goes_too_fast_is_seen(tmp_path, core, monkeypatch, ahead):
    wall, begun = time.time, time.perf_counter()
    monkeypatch.setattr("raybench.monitoring.sampler.time.time", lambda: wall() + ahead * (time.perf_counter() - begun))
    with Process(IDLE, core) as trial:
        told = audited(make_job(tmp_path, core), trial.pid, 0.6)
    assert told["clock"]["seconds"] >= 0.5
    assert told["clock"]["drift_s"] == pytest.approx(ahead * told["clock"]["seconds"], abs=0.02)


@pytest.mark.slow
def test_a_trial_that_goes_away_ends_the_sampling(tmp_path, core):
    with Monitor(make_job(tmp_path, core)) as audit:
        with Process(BUSY, core) as trial:
            audit.begin(trial.pid)
            time.sleep(0.5)
        time.sleep(1.1)
        told = audit.end()
    assert told["missing"] == []
    assert all(sample.get("own_cpu_s", 0) >= 0 for sample in map(json.loads, (tmp_path / SAMPLES).open()))


def test_only_the_time_of_epochs_counts(tmp_path, core):
    with Process(IDLE, core) as trial, Monitor(make_job(tmp_path, core)) as audit:
        audit.begin(trial.pid)
        time.sleep(0.9)
        audit.see(events.epoch_ended("t-r0", 1, ledger={"train": 0.5, "evaluate": 0.1}))
        told = audit.end()
    assert told["within"] == "epochs"
    assert told["seconds"] == pytest.approx(0.6, abs=0.05)


def test_without_a_process_there_is_nothing_to_tell(tmp_path, core):
    with Monitor(make_job(tmp_path, core)) as audit:
        assert audit.end() is None


def test_a_sampler_that_fails_says_so_and_harms_nobody(tmp_path, core, monkeypatch):
    def broken(cores):
        raise ValueError("a counter of another world")

    monkeypatch.setattr("raybench.monitoring.host.core_times", broken)
    told = audited(make_job(tmp_path, core), os.getpid(), 0.1)
    assert told["missing"] == ["sampling stopped: ValueError: a counter of another world"]
    assert told["samples"] == 0


def test_samples_are_many_enough_and_not_too_many():
    at, times = 0.0, []
    while at < 24 * 3600:
        at += pause(at)
        times.append(at)
    assert len([t for t in times if t < 1]) >= 4
    assert pause(60) == 1.0
    assert MANY < len(times) < 10 * MANY


def test_a_child_in_a_session_of_its_own_belongs_to_the_trial():
    # As torchrun starts its workers.
    program = "import subprocess, sys; subprocess.Popen([sys.executable, '-c', sys.argv[1]], start_new_session=True)"
    program += ".wait()"
    leader = subprocess.Popen([sys.executable, "-c", program, BUSY], start_new_session=True)
    session = Session(leader.pid)
    try:
        deadline = time.monotonic() + 30
        while session.read().cpu_s < 1 and time.monotonic() < deadline:
            time.sleep(0.1)
        assert session.read().cpu_s >= 1
    finally:
        for child in psutil.Process(leader.pid).children():
            child.kill()
        leader.wait()
