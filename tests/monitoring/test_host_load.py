"""How busy other programs keep the cores, with made-up counters and with real processes."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from raybench.monitoring import host
from raybench.monitoring.host import HostLoad, LoadMeter, Usage, family_usage

LINUX = pytest.mark.skipif(not Path("/proc/self").is_dir(), reason="needs /proc")


@pytest.mark.parametrize(
    ("busy", "cores", "high"),
    [(0.19, 2, False), (0.21, 2, True), (0.11, 1, True), (0.45, 16, False), (0.55, 16, True), (0.0, 4, False)],
)
def test_threshold_of_host_load(busy, cores, high):
    assert HostLoad(busy, cores).high is high


@LINUX
def test_processor_time_of_children_is_our_own():
    before = family_usage(os.getpid()).cpu_s
    code = "import time\nwhile time.process_time() < 0.2: pass\nprint(flush=True)\ninput()"
    child = subprocess.Popen([sys.executable, "-S", "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    child.stdout.readline()
    running = family_usage(os.getpid()).cpu_s
    child.communicate(b"\n")
    assert running - before >= 0.15
    assert family_usage(os.getpid()).cpu_s - before >= 0.15
    assert family_usage(2**30) is None, "no such process"


def test_load_without_our_own(monkeypatch):
    busy_s, own_s, now_s = iter([100.0, 107.0]), iter([40.0, 43.0]), iter([0.0, 2.0, 2.0])
    monkeypatch.setattr(host, "core_times", lambda cores: {"busy_s": next(busy_s)})
    monkeypatch.setattr(host, "family_usage", lambda root: Usage(next(own_s), False))
    monkeypatch.setattr(host.time, "monotonic", lambda: next(now_s))
    assert LoadMeter().read().busy == (7 - 3) / 2


@LINUX
@pytest.mark.slow
def test_a_program_that_keeps_a_core_busy():
    # Its parent ends at once, so that it is not a child of this process.
    code = "import os\nif pid := os.fork(): print(pid, flush=True); os._exit(0)\nos.close(1)\nwhile True: pass"
    done = subprocess.run([sys.executable, "-S", "-c", code], check=True, stdout=subprocess.PIPE)
    load = LoadMeter().read()
    os.kill(int(done.stdout), signal.SIGKILL)
    assert load.busy > 0.3 and load.high
