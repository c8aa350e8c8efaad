"""Whole trials on kind xla_cpu: a fork template of the other interpreter, and what its events say."""

import pytest
from support.jobs import job_of

from raybench.workloads import read_workload

pytestmark = [pytest.mark.slow, pytest.mark.xla]

GREEDY = """
import numpy as np
import torch

from raybench.datasets.splits import Data, Split
from raybench.workloads.base import Workload


class Greedy(torch.nn.Linear):
    def forward(self, inputs):
        column = torch.ones(1 << 20, 1).to(inputs.device)
        return super().forward(inputs) + (column @ column.t() * 2).cumsum(1)[0, 0]


def data(root):
    split = Split(np.ones((64, 4), np.float32), np.zeros(64, np.int64))
    return Data(split, split)


greedy = Workload(model=lambda: Greedy(4, 2), data=data)
"""


@pytest.fixture(scope="module")
def template(fork_server):
    return fork_server("torch_xla")


def run(template, folder, reference, device=None, **more):
    more = {"framework": "torch_xla", "threads": 1, "epochs": 3, "batch_size": 32, "timeout": 300.0, **more}
    job = job_of(read_workload(reference, folder), folder, device=device, **more)
    return [event for event in template.run(job) if event["event"] != "trial_audited"]


def named(told, name):
    return [event for event in told if event["event"] == name]


def test_a_trial_completes_and_its_ledger_adds_up(template, tmp_path):
    told = run(template, tmp_path, "digits_cnn", batch_size=256)
    (started,), epochs, (ended,) = (named(told, name) for name in ("trial_started", "epoch_ended", "trial_ended"))
    assert ended["status"] == "completed", ended["error"]
    assert started["cell"]["device"]["kind"] == "xla_cpu"
    assert started["versions"]["torch_xla"].startswith("2.9") and started["versions"]["torch"].startswith("2.9")
    assert started["runtime_conditions"]["threads"] == 1
    assert [epoch["recompiles"] for epoch in epochs] == [2, 0, 0]
    assert epochs[-1]["metrics"]["train/loss"] < epochs[0]["metrics"]["train/loss"]
    assert ended["ledger"]["compile"] == epochs[0]["ledger"]["compile"] > 0
    assert sum(ended["ledger"].values()) == pytest.approx(ended["wall"], abs=max(0.005, 0.01 * ended["wall"]))
    for section in ("compile", "train", "evaluate"):
        assert sum(epoch["ledger"][section] for epoch in epochs) == pytest.approx(ended["ledger"][section], abs=1e-5)


FUNCTION = """
def train(trial, *, spreads: bool):
    import torch
    from torch_xla import runtime

    if spreads:
        runtime.use_spmd()
    assert runtime.global_runtime_device_count() == 2
    for _ in trial.epochs():
        for batch in trial.steps([torch.ones(4)]):
            batch.to(trial.device).sum()
"""


@pytest.mark.parametrize(("spreads", "status"), [(True, "completed"), (False, "failed")])
def test_function_leaves_no_device_idle(template, tmp_path, spreads, status):
    (tmp_path / "mine.py").write_text(FUNCTION)
    ended = run(template, tmp_path, "mine.py:train", device={"devices": 2}, params={"spreads": spreads})[-1]
    assert (ended["status"], "used one device" in str(ended["error"])) == (status, not spreads), ended["error"]


def test_running_out_of_memory_is_a_result(template, tmp_path):
    (tmp_path / "mine.py").write_text(GREEDY)
    ended = run(template, tmp_path, "mine.py:greedy")[-1]
    assert (ended["status"], ended["error"]["phase"]) == ("oom", "train"), ended["error"]
    assert "Out of memory" in ended["error"]["message"]
