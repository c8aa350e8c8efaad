"""Memory really exhausted, under a limit on the trial's process: what the trial comes to, and what it tells."""

import sys
from dataclasses import replace

import pytest
from support.jobs import make_job
from support.workloads.hungry import EXAMPLES, MIB

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(sys.platform != "linux", reason="only Linux keeps a limit on memory"),
]

GIB = 1 << 30
FEW = {"batch_size": 250, "epochs": 2}


@pytest.fixture
def run(template, tmp_path):
    """Runs a workload of hungry.py under a limit, and returns its events."""

    def run(attribute, limit, **settings):
        job = make_job(tmp_path / f"{attribute}{limit}", attribute, file="hungry.py", **FEW | {"threads": 1} | settings)
        return list(template.run(replace(job, memory_limit=limit)))

    return run


def test_too_large_training_batch_is_a_result(run):
    *_, last = run("in_training", GIB, batch_size=EXAMPLES)
    error = last["error"]
    assert (last["status"], error["phase"], error["asked_bytes"]) == ("oom", "train", EXAMPLES * MIB)
    assert error["limit_bytes"] == GIB
    assert 0 < error["peak_bytes"] < GIB
    assert last["warnings"] == []
    assert run("in_training", GIB)[-1]["status"] == "completed", "a smaller batch is another cell, and fits"


def test_too_large_evaluation_batch_is_a_result(run):
    *_, last = run("in_evaluation", GIB, evaluation_batch_size=EXAMPLES)
    assert (last["status"], last["error"]["phase"], last["error"]["asked_bytes"]) == ("oom", "evaluate", EXAMPLES * MIB)
    assert run("in_evaluation", GIB)[-1]["status"] == "completed", "what fits in training fits in evaluation"


def test_limit_below_the_frameworks_own_memory(run, template):
    # A second thread needs a stack; so small a model alone may live on what the framework has left over.
    assert run("content", 100 * MIB, threads=2)[-1]["status"] == "oom"
    assert template.alive
    assert run("content", 0)[-1]["status"] == "completed", "the limit was the other process's"


def test_limit_is_for_all_processes_together(run):
    *_, last = run("in_orphans", 500 * MIB, timeout=120)
    assert (last["status"], last["error"]["limit_bytes"]) == ("oom", 500 * MIB), last["error"]
    assert last["error"]["message"].startswith("its processes together used")
