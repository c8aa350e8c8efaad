"""How busy other programs keep the cores, with made-up counters and with real processes."""

import os
import queue
import subprocess
import sys
import threading
from pathlib import Path
from types import SimpleNamespace

import pytest

from raybench.monitoring import host_load
from raybench.monitoring.host import CoreTimes
from raybench.monitoring.host_load import HostLoad, LoadMeter, LoadWatch, measure_load
from raybench.monitoring.processes import family_cpu_s

LINUX = pytest.mark.skipif(not Path("/proc/self").is_dir(), reason="needs /proc")


@pytest.mark.parametrize(
    ("busy", "cores", "high"),
    [(0.19, 2, False), (0.21, 2, True), (0.11, 1, True), (0.45, 16, False), (0.55, 16, True), (0.0, 4, False)],
)
def test_threshold_of_host_load(busy, cores, high):
    assert HostLoad(busy, cores).high is high


@pytest.fixture
def counters(monkeypatch):
    """Sets the clock, the processor seconds of all processes and those of our own."""
    waits = []

    def set_to(clock, busy, own=0.0):
        monkeypatch.setattr(host_load, "time", SimpleNamespace(monotonic=lambda: clock, sleep=waits.append))
        monkeypatch.setattr(host_load.host, "core_times", lambda cores: busy and CoreTimes(busy, 0.0))
        monkeypatch.setattr(host_load, "family_cpu_s", lambda root: own)

    set_to.waits = waits
    return set_to


@pytest.mark.parametrize(
    ("clock", "busy", "own", "load"),
    [
        (12.0, 103.5, 8.0, HostLoad(0.25, 2)),
        (11.0, 100.5, 5.6, HostLoad(0.0, 2)),
        (11.0, 100.5, 1.0, HostLoad(0.5, 2)),
        (11.0, None, None, None),
    ],
    ids=["others", "own only", "own process ended unseen", "no counters"],
)
def test_own_processor_time_does_not_count(counters, clock, busy, own, load):
    counters(10.0, 100.0, 5.0)
    meter = LoadMeter([0, 1])
    counters(clock, busy, own)
    assert meter.read() == load


@LINUX
def test_processor_time_of_children_is_our_own():
    before = family_cpu_s(os.getpid())
    code = "import time\nwhile time.process_time() < 0.2: pass\nprint(flush=True)\ninput()"
    child = subprocess.Popen([sys.executable, "-S", "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    child.stdout.readline()
    running = family_cpu_s(os.getpid())
    child.communicate(b"\n")
    assert running - before >= 0.15
    assert family_cpu_s(os.getpid()) - before >= 0.15
    assert family_cpu_s(2**30) is None, "no such process"


@LINUX
@pytest.mark.slow
def test_a_program_that_keeps_a_core_busy():
    # Its parent ends at once, so that it is not a child of this process.
    code = "import os, time\nif os.fork(): os._exit(0)\nend = time.time() + 10\nwhile time.time() < end: pass"
    subprocess.run([sys.executable, "-S", "-c", code], check=True)
    load = measure_load()
    assert load.busy > 0.3 and load.high


def test_an_earlier_meter_shortens_the_wait(counters):
    counters(10.0, 100.0)
    meter = LoadMeter([0, 1])
    counters(10.7, 101.4)
    assert measure_load(1.0, meter) == HostLoad(pytest.approx(2.0), 2)
    counters(30.0, 110.0)
    measure_load(1.0, meter)  # a mean over twenty seconds is not the present load
    assert counters.waits == [pytest.approx(0.3), 1.0]


def test_a_watch_reports_until_it_is_left(monkeypatch):
    monkeypatch.setattr(LoadMeter, "read", lambda self: HostLoad(1.0, 2))
    reported = queue.Queue()
    with LoadWatch(reported.put, every=0.001):
        assert reported.get(timeout=60) == HostLoad(1.0, 2)
    assert not any(thread.name == "raybench-load" for thread in threading.enumerate())
