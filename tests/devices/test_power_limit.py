"""Power limits, on a made-up NVML that other processes see, too."""

import json
import os
import signal
import subprocess
import sys
from dataclasses import replace

import psutil
import pytest
from support.jobs import make_job
from support.processes import eventually

from raybench.devices.power_limit import PowerLimitError, power_limit_problem, power_limited

PYNVML = """
import json, os, pathlib
STATE = pathlib.Path(os.environ["MADE_UP_GPUS"])
class NVMLError(Exception): pass
def nvmlInit(): pass
def nvmlShutdown(): pass
def nvmlDeviceGetCount(): return 2
def nvmlDeviceGetHandleByIndex(index): return index
def nvmlDeviceGetPowerManagementLimitConstraints(gpu): return 100_000, 400_000
def nvmlDeviceGetPowerManagementLimit(gpu): return json.loads(STATE.read_text())["limits"][gpu]
def nvmlDeviceSetPowerManagementLimit(gpu, milliwatts):
    state = json.loads(STATE.read_text())
    if not state["allowed"]:
        raise NVMLError("Insufficient Permissions")
    state["limits"][gpu] = milliwatts
    new = STATE.with_suffix(".new")
    new.write_text(json.dumps(state))
    new.replace(STATE)
"""


@pytest.fixture
def gpus(tmp_path, monkeypatch):
    """Makes two GPUs with these limits; returns a function that reads the limits."""
    (tmp_path / "pynvml.py").write_text(PYNVML)
    monkeypatch.setenv("MADE_UP_GPUS", str(tmp_path / "state.json"))
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "pynvml", raising=False)

    def make(allowed=True, limits=(400_000, 350_000)):
        (tmp_path / "state.json").write_text(json.dumps({"allowed": allowed, "limits": list(limits)}))
        return lambda: json.loads((tmp_path / "state.json").read_text())["limits"]

    yield make
    sys.modules.pop("pynvml", None)


def test_limits_hold_during_a_trial_and_are_restored(gpus):
    limits = gpus()
    with power_limited(250, ["1"]):
        assert limits() == [400_000, 250_000]
    assert limits() == [400_000, 350_000]
    with pytest.raises(RuntimeError), power_limited(250, ["0", "1"]):
        assert limits() == [250_000, 250_000]
        raise RuntimeError
    assert limits() == [400_000, 350_000]


def test_limits_are_restored_if_the_supervisor_is_killed(gpus):
    limits = gpus()
    program = "import time; from raybench.devices.power_limit import power_limited as limited\n"
    program += "with limited(200, ['0']): time.sleep(60)"
    process = subprocess.Popen([sys.executable, "-c", program], env={**os.environ})
    eventually(lambda: limits()[0] == 200_000)
    process.send_signal(signal.SIGKILL)
    process.wait()
    eventually(lambda: limits() == [400_000, 350_000])


def test_limits_are_restored_if_the_process_that_set_them_is_killed(gpus):
    limits = gpus()
    with power_limited(250, ["0", "1"]):
        children = psutil.Process().children()
        (setter,) = [child for child in children if "raybench.devices.power_limit" in child.cmdline()]
        setter.kill()
        assert limits() == [250_000, 250_000]
    assert limits() == [400_000, 350_000]


@pytest.mark.parametrize(
    ("kind", "watts", "made", "problem"),
    [
        ("cuda", 250, {}, ""),
        ("cuda", 250, {"allowed": False}, "let one run `sudo nvidia-smi --power-limit=250`"),
        ("cuda", 250, {"allowed": False, "limits": (250_000, 250_000)}, ""),
        ("cuda", 500, {}, "this GPU takes 100 to 400 W"),
        ("cpu", 250, {}, "power_limit needs an NVIDIA GPU"),
    ],
)
def test_why_it_cannot_be_set(gpus, kind, watts, made, problem):
    limits = gpus(**made)
    before = limits()
    found = power_limit_problem(kind, watts)
    assert problem in found and bool(found) == bool(problem) and limits() == before


def test_refused_limit_of_a_trial_is_an_error(gpus):
    gpus(allowed=False)
    with pytest.raises(PowerLimitError, match="Insufficient Permissions"), power_limited(250, ["0"]):
        pass


@pytest.mark.slow
def test_trial_does_not_run_without_its_limit(fork_server, tmp_path):
    job = make_job(tmp_path / "job", "content", file="hungry.py", epochs=1)
    job = replace(job, cell=replace(job.cell, device=replace(job.cell.device, power_limit=250)))
    (end,) = fork_server("torch").run(job)
    assert (end["status"], end["error"]["type"]) == ("failed", "PowerLimitError") and "NVML" in end["error"]["message"]
