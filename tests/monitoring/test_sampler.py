"""The sampler, looking at real processes."""

import os
import subprocess
import sys
import time

import psutil
import pytest
from support.monitored import BUSY, IDLE, Process, audited, make_job
from support.processes import eventually

from raybench.core import events
from raybench.devices.host import usable_cores
from raybench.monitoring import Monitor
from raybench.monitoring.host import family_usage
from raybench.monitoring.summary import moment, summarize

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the numbers of processes come from /proc")


@pytest.fixture
def core():
    return usable_cores()[-1]


@pytest.mark.slow
@pytest.mark.parametrize("trial_is_busy", [True, False])
def test_processor_time_of_the_trial_and_others(tmp_path, core, trial_is_busy):
    with Process(IDLE, core) as idle, Process(BUSY, core) as busy:
        before = busy.cpu_seconds()
        audit = audited(make_job(tmp_path, core), (busy if trial_is_busy else idle).pid, 1.5)
        used = busy.cpu_seconds() - before
    host = audit["host"]
    assert audit["event"] == "trial_audited" and audit["within"] == "trial"
    if trial_is_busy:
        assert host["own_cpu_s"] == pytest.approx(used, abs=0.25)
        assert host["other_cpu_s"] <= audit["seconds"] - used + 0.3, "the rest of the core, at most"
    else:
        assert host["own_cpu_s"] < 0.3
        assert host["other_cpu_s"] > 0.7 * used > 0
        assert host["other_cpu_s"] + host["own_cpu_s"] <= 1.1 * audit["seconds"], "a core has no more time"


CHILDREN = """
import subprocess, sys, time
ended = "import time; end = time.process_time() + .4\\nwhile time.process_time() < end: pass"
subprocess.run([sys.executable, "-c", ended])
living = "b = bytearray(80 << 20); print(len(b), flush=True); import time; time.sleep(60)"
process = subprocess.Popen([sys.executable, "-c", living])
time.sleep(60)
"""


@pytest.mark.slow
def test_children_count(tmp_path, core):
    with Process(CHILDREN, core) as trial:
        audit = audited(make_job(tmp_path, core), trial.pid, 1.2, trial.process.stdout.readline)
    assert audit["host"]["own_cpu_s"] >= 0.4


def test_only_the_time_of_epochs_counts(tmp_path, core):
    with Process(IDLE, core) as trial, Monitor(make_job(tmp_path, core)) as audit:
        audit.begin(trial.pid)
        time.sleep(0.9)
        audit.see(events.epoch_ended("t-r0", 1, epoch=1, ledger={"train": 0.5, "evaluate": 0.1}))
        summary = audit.end()
    assert summary["within"] == "epochs"
    assert summary["seconds"] == pytest.approx(0.6, abs=0.15)


def test_a_sample_counts_by_its_part_in_the_epochs():
    sample = {"t": "2026-01-01T00:00:10Z", "seconds": 10.0, "busy_s": 12.0, "own_cpu_s": 9.0}
    host = summarize([sample], (moment(sample["t"]) - 5, moment(sample["t"]) + 5))["host"]
    assert host == {"busy_s": 6.0, "own_cpu_s": 4.5, "other_cpu_s": 1.5}


STOPS = """
import os, signal, subprocess, sys, threading, time
from pathlib import Path
from support.monitored import IDLE, Process, audited, make_job
from raybench.monitoring import sampler

sampler.LATE_S = 1.5
with Process(IDLE, 0) as trial:
    stopped = trial.pid if sys.argv[1] == "trial" else os.getpid()
    resume = f"import os, signal, time; time.sleep({sys.argv[3]}); os.kill({stopped}, signal.SIGCONT)"
    subprocess.Popen([sys.executable, "-c", resume])
    threading.Timer(0.5, os.kill, (stopped, signal.SIGSTOP)).start()
    print(audited(make_job(Path(sys.argv[2]), 0), trial.pid, float(sys.argv[3]) + 1)["host"].get("stopped_s"))
"""


@pytest.mark.slow
@pytest.mark.parametrize("whom", ["trial", "machine"])
def test_stopped_trial_or_machine_is_noticed(tmp_path, whom):
    command = [sys.executable, "-c", STOPS, whom, str(tmp_path), "3"]
    environ = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run(command, capture_output=True, text=True, env=environ, check=True)
    assert float(done.stdout) == pytest.approx(2, abs=1.5)


def test_children_in_own_sessions_belong_to_the_trial():
    # As torchrun starts its workers.
    program = "import subprocess, sys; subprocess.Popen([sys.executable, '-c', sys.argv[1]], start_new_session=True)"
    program += ".wait()"
    leader = subprocess.Popen([sys.executable, "-c", program, BUSY], start_new_session=True)
    try:
        eventually(lambda: family_usage(leader.pid).cpu_s >= 1)
    finally:
        for child in psutil.Process(leader.pid).children():
            child.kill()
        leader.wait()
