"""Whole trials under TensorFlow, each in a fresh process from a template that has it loaded."""

from importlib import metadata

import pytest
from support import SUPPORT, jobs

from raybench.devices.host import usable_cores

pytestmark = [pytest.mark.slow, pytest.mark.tensorflow]


def make_job(folder, attribute="fine", **more):
    more = {"framework": "tensorflow", "epochs": 3, "batch_size": 64, **more}
    return jobs.make_job(folder, attribute, "keras_workloads.py", root=SUPPORT / "sides", **more)


def epochs_of(events):
    return [event for event in events if event["event"] == "epoch_ended"]


@pytest.fixture(scope="module")
def template(fork_server):
    return fork_server("tensorflow")


@pytest.mark.parametrize(
    "settings",
    [
        pytest.param({"input": "host"}, marks=pytest.mark.exhaustive),
        {"precision": "bf16", "optimizer": "adamw", "compile": True},
    ],
    ids=str,
)
def test_ledger_of_a_trial_adds_up(template, tmp_path, settings):
    events = list(template.run(make_job(tmp_path, **settings)))
    started, epochs, last = events[0], epochs_of(events), events[-1]
    assert last["status"] == "completed", last["error"]
    assert sum(last["ledger"].values()) == pytest.approx(last["wall"], abs=max(0.005, 0.01 * last["wall"]))
    assert started["versions"]["tensorflow"] == metadata.version("tensorflow")
    assert started["versions"]["keras"] == metadata.version("keras")
    assert started["runtime_conditions"]["threads"] == len(usable_cores())
    assert [epoch["recompiles"] for epoch in epochs] == [2, 0, 0]
    assert [epoch["ledger"]["compile"] for epoch in epochs[1:]] == [0.0, 0.0]
    assert epochs[-1]["metrics"]["train/loss"] < epochs[0]["metrics"]["train/loss"]
    assert epochs[0]["memory_peak_bytes"] > 1 << 26


@pytest.mark.parametrize(
    ("attribute", "status", "phase"), [("greedy", "oom", "train"), ("exploding", "diverged", None)]
)
def test_oom_and_divergence(template, tmp_path, attribute, status, phase):
    last = list(template.run(make_job(tmp_path, attribute)))[-1]
    assert (last["status"], last["error"].get("phase")) == (status, phase), last["error"]
