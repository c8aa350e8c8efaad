"""The known ways to misread a training time, each really set: whether raybench says so, and only then."""

import os
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from importlib import metadata

import pytest
import torch
from support import WORKLOADS
from support.cells import make_cell

from raybench.analysis.findings.conditions import BUSY
from raybench.analysis.findings.finding import findings
from raybench.core.job import Job
from raybench.core.settings import DEFAULTS
from raybench.devices.cpu import Cpu
from raybench.devices.cuda import Cuda
from raybench.devices.host import model_name, usable_cores
from raybench.engines.torch.engine import TorchEngine
from raybench.monitoring.host import core_times
from raybench.results import timing
from raybench.results.attempt import attempts
from raybench.trial import run as trial
from raybench.workloads import read_workload

pytestmark = pytest.mark.exhaustive  # it measures

HERE = WORKLOADS
LOADING = 0.08
"""Seconds that the slow loader of traps.py takes for a batch."""

CORE = usable_cores()[-1]


def make_job(folder, attribute, kind="cpu", model=None, **settings):
    """A trial on one core, with one thread."""
    info = read_workload(f"traps.py:{attribute}", HERE)
    cell = make_cell(
        workload=info.identity(),
        data={"name": info.name, "digest": None, "examples": {"train": None, "val": None}},
        device={"kind": kind, "model": model or model_name(), "count": 1, "replicas": 1, "threads": 1},
        engine={"name": "torch", "version": 1, "framework_version": metadata.version("torch")[:4]},
        resolved={**DEFAULTS, "framework": "torch", "epochs": 6, "batch_size": 8, **settings},
    )
    return Job("t-r0", 1, 0, 0, cell, info.to_json(), str(folder), str(folder / "attempt"), [CORE], timeout=300)


@pytest.fixture
def template(fork_server):
    return fork_server("torch")


def told(events):
    """The one attempt that events tell of, and its findings by their codes."""
    (attempt,) = attempts(events).values()
    assert attempt.status == "completed", attempt.error
    return attempt, {finding.code: finding for finding in findings(attempt)}


def test_steps_that_get_quicker_after_the_warm_up_are_told(template, tmp_path):
    _, found = told(template.run(make_job(tmp_path, "quicker_later")))
    assert found["short_warmup"].too_long > 0.2


def test_a_slow_first_step_is_compile_and_no_finding(template, tmp_path):
    attempt, found = told(template.run(make_job(tmp_path, "slow_first_step", warmup_epochs=0)))
    assert attempt.epochs[0].ledger["compile"] > 0.8 > timing.steady(attempt)
    # On a machine that others use, times may really fall for another reason.
    assert "short_warmup" not in found or "busy_host" in found


def test_a_loader_that_sleeps_is_input_wait_and_told(template, tmp_path):
    attempt, found = told(template.run(make_job(tmp_path, "slow_loader", input="host")))
    waited = sum(epoch.ledger["input_wait"] for epoch in attempt.epochs)
    assert "input_bound" in found and waited > 0.5 * sum(epoch.steps for epoch in attempt.epochs) * LOADING
    _, quick = told(template.run(make_job(tmp_path / "quick", "steady", input="host")))
    assert "input_bound" not in quick


def busy(seconds=0.5):
    """The part of the time in which anything ran on the trial's core."""
    before = core_times([CORE])
    time.sleep(seconds)
    return (core_times([CORE]).busy - before.busy) / seconds


@pytest.mark.skipif(sys.platform != "linux", reason="what other processes use comes from /proc")
def test_a_process_that_burns_a_core_beside_a_trial_is_told(template, tmp_path):
    with subprocess.Popen([sys.executable, "-c", "while True: pass"]) as burner:
        try:
            os.sched_setaffinity(burner.pid, [CORE])
            attempt, found = told(template.run(make_job(tmp_path, "computing")))
        finally:
            burner.kill()
    assert attempt.audit["within"] == "epochs"
    assert found["busy_host"].degree > BUSY


@pytest.mark.skipif(sys.platform != "linux", reason="what other processes use comes from /proc")
def test_a_trial_that_is_alone_on_its_core_is_not_called_disturbed(template, tmp_path):
    for number in range(10):
        if busy() > BUSY / 2:
            continue
        _, found = told(template.run(make_job(tmp_path / str(number), "computing")))
        if busy() < BUSY / 2:  # nobody came meanwhile
            assert "busy_host" not in found
            return
    pytest.skip("others keep this machine busy: no trial is alone here")


class Later:
    """Does work in its own time, one thing after another, as an accelerator does."""

    def __init__(self):
        self._worker, self._waiting = ThreadPoolExecutor(1), []

    def put(self, work):
        self._waiting.append(self._worker.submit(work))

    def wait(self):
        """Wait for all work; its first error is raised."""
        while self._waiting:
            self._waiting.pop(0).result()


class Asynchronous(Cpu):
    """A device that returns before its work is done, and waits for it when asked to."""

    synchronous = False

    def __init__(self, assignment):
        super().__init__(assignment)
        self.later = Later()

    def synchronize(self):
        self.later.wait()


class Hasty(Asynchronous):
    """The same, except that it does not wait."""

    def synchronize(self):
        pass


class Engine(TorchEngine):
    """Hands each step over; only what copies a weight to the host has to wait for it."""

    def _train_step(self, inputs, targets, sums, check):
        step = super()._train_step
        aside = type(sums)(self._device, self._together)
        self._device.later.put(lambda: step(inputs, targets, aside, check))
        sums.add({"loss": torch.ones(len(targets)), "accuracy": torch.ones(len(targets))})

    def settle(self):
        self._device.later.wait()
        super().settle()


@pytest.mark.parametrize("device", [Hasty, Asynchronous])
def test_a_clock_that_does_not_wait_for_an_asynchronous_device_is_told(tmp_path, monkeypatch, device):
    # The tests' own process keeps its cores and threads.
    monkeypatch.setattr(Cpu, "hide_others", lambda self: None)
    monkeypatch.setattr(Cpu, "set_threads", lambda self, count: None)
    monkeypatch.setattr(trial, "open_device", lambda kind, framework, assignment: device(assignment))
    monkeypatch.setattr(trial, "open_engine", lambda framework, parts: Engine(parts))
    job = replace(make_job(tmp_path, "steady"), cores=[])
    attempt, found = told(trial.run(job))
    if device is Hasty:
        seen = found["unsynchronised_clock"]
        assert seen.evidence["settle_s"] > 5 * seen.evidence["section_s"], "it saw none of eight steps of 20 ms"
    else:
        assert "unsynchronised_clock" not in found
        assert timing.steady(attempt) > 8 * 0.02


class HonestGpu(Cuda):
    """A GPU in the tests' own process, which keeps its cores and what it sees."""

    def hide_others(self):
        pass


class HastyGpu(HonestGpu):
    """The same, except that it does not wait."""

    def synchronize(self):
        pass


class OnAStream(TorchEngine):
    """Trains on a stream of its own, so that copying sums from the usual one does not wait for it by the way."""

    def _train_step(self, inputs, targets, sums, check):
        self._stream = getattr(self, "_stream", None) or torch.cuda.Stream()
        self._stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self._stream):
            super()._train_step(inputs, targets, type(sums)(self._device, self._together), check)
        sums.add({"loss": torch.ones_like(inputs[:, 0]), "accuracy": torch.ones_like(inputs[:, 0])})

    def settle(self):
        with torch.cuda.stream(self._stream):
            super().settle()


@pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no GPU")
@pytest.mark.parametrize("device", [HastyGpu, HonestGpu])
def test_a_clock_that_does_not_wait_for_a_gpu_is_told(tmp_path, monkeypatch, device):
    monkeypatch.setattr(trial, "open_device", lambda kind, framework, assignment: device(assignment))
    monkeypatch.setattr(trial, "open_engine", lambda framework, parts: OnAStream(parts))
    monkeypatch.setattr(torch, "set_num_threads", lambda count: None)
    job = make_job(tmp_path, "queued", kind="cuda", model=torch.cuda.get_device_properties(0).name)
    _, found = told(trial.run(replace(job, cores=[])))
    assert ("unsynchronised_clock" in found) == (device is HastyGpu)
