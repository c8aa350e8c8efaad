"""The known ways to misread a training time, each really set: whether raybench says so, and only then."""

import os
import subprocess
import sys
from importlib import metadata

import pytest
from support import WORKLOADS
from support.cells import make_cell

from raybench.analysis.findings.conditions import BUSY
from raybench.analysis.findings.finding import findings
from raybench.core.job import Job
from raybench.core.settings import DEFAULTS
from raybench.devices.host import model_name, usable_cores
from raybench.results import timing
from raybench.results.attempt import attempts
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


def test_steps_quicker_after_warmup_are_reported(template, tmp_path):
    _, found = told(template.run(make_job(tmp_path, "quicker_later")))
    assert found["short_warmup"].too_long > 0.2


def test_slow_first_step_is_compilation(template, tmp_path):
    attempt, found = told(template.run(make_job(tmp_path, "slow_first_step", warmup_epochs=0)))
    assert attempt.epochs[0].ledger["compile"] > 0.8 > timing.steady(attempt)
    # On a machine that others use, times may really fall for another reason.
    assert "short_warmup" not in found or "busy_host" in found


def test_slow_loader_is_input_wait(template, tmp_path):
    attempt, found = told(template.run(make_job(tmp_path, "slow_loader", input="host")))
    waited = sum(epoch.ledger["input_wait"] for epoch in attempt.epochs)
    assert "input_bound" in found and waited > 0.5 * sum(epoch.steps for epoch in attempt.epochs) * LOADING
    _, quick = told(template.run(make_job(tmp_path / "quick", "steady", input="host")))
    assert "input_bound" not in quick


@pytest.mark.skipif(sys.platform != "linux", reason="what other processes use comes from /proc")
def test_process_on_the_trials_core_is_reported(template, tmp_path):
    with subprocess.Popen([sys.executable, "-c", "while True: pass"]) as burner:
        try:
            os.sched_setaffinity(burner.pid, [CORE])
            attempt, found = told(template.run(make_job(tmp_path, "computing")))
        finally:
            burner.kill()
    assert attempt.audit["within"] == "epochs"
    assert found["busy_host"].degree > BUSY
