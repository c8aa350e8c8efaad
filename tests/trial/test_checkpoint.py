"""A trial that was lost goes on from its last checkpoint, as if nothing had been."""

import os
import shutil
from pathlib import Path

import pytest
import torch
from support.attempts import attempts
from support.frameworks import call
from support.sides import checkpoint_side

from raybench.trial.checkpoint import FOLDER

ADAM = {
    "optimizer": "adamw",
    "learning_rate": 0.003,
    "schedule": {"name": "piecewise_linear", "points": [[0, 0.2], [2, 1], [6, 0]]},
}
PART = {"epochs": 5.5, "augmentation": ["crop", "flip"], "label_smoothing": 0.1}
TENSORFLOW, XLA = [pytest.mark.slow, pytest.mark.tensorflow], [pytest.mark.slow, pytest.mark.xla]
CASES = [
    pytest.param("torch", {}, id="torch-sgd"),
    pytest.param("torch", {"input": "host", "steps_per_epoch": 5}, id="torch-streamed"),
    pytest.param("torch", ADAM | PART | {"precision": "bf16"}, id="torch-part"),
    pytest.param("tensorflow", {"input": "host"}, id="tf-streamed", marks=TENSORFLOW),
    pytest.param("tensorflow", ADAM | PART, id="tf-part", marks=[*TENSORFLOW, pytest.mark.exhaustive]),
    pytest.param("torch_xla", ADAM, id="xla-adamw", marks=XLA),
]


def attempt(framework, folder, number=1, lost_in=None, **how):
    """The events of an attempt: in this process by PyTorch, in a process of its own by other frameworks."""
    arguments = {"job": checkpoint_side.job(framework, str(folder), number, **how).to_json(), "folder": str(folder)}
    if framework == "torch":
        return checkpoint_side.attempt(**arguments, lost_in=lost_in)
    return call(framework, "checkpoint_side:attempt", **arguments, lost_in=lost_in)


@pytest.fixture(autouse=True, scope="module")
def keep_threads():
    """A trial sets how many threads PyTorch uses."""
    threads = torch.get_num_threads()
    yield
    torch.set_num_threads(threads)


def losses(found):
    return {e["epoch"]: (e["metrics"]["train/loss"], e["metrics"]["val/loss"]) for e in epochs(found)}


def epochs(found):
    return [event for event in found["told"] if event["event"] == "epoch_ended"]


def end(found):
    (last,) = [event for event in found["told"] if event["event"] == "trial_ended"]
    return last


@pytest.mark.parametrize(("framework", "how"), CASES)
def test_resumed_losses_are_equal_bit_for_bit(framework, how, tmp_path):
    whole = attempt(framework, tmp_path / "whole", every=0, **how)
    assert (end(whole)["status"], whole["files"]) == ("completed", [])
    lost = attempt(framework, tmp_path / "lost", lost_in=4, **how)
    assert lost["files"] == ["epoch-000002.rank-0", "epoch-000003.rank-0"]
    assert losses(lost) == {epoch: value for epoch, value in losses(whole).items() if epoch <= 4}
    again = attempt(framework, tmp_path / "lost", 2, resume=4, **how)
    assert losses(again) == losses(whole)
    assert (end(again)["status"], end(again)["warnings"], again["files"]) == ("completed", [], [])
    assert not (tmp_path / "lost" / FOLDER).exists()
    assert [e["event"] for e in again["told"][:3]] == ["trial_started", "trial_resumed", "epoch_ended"]
    assert again["told"][1]["epoch"] == 3
    assert [e.get("of_attempt") for e in epochs(again)] == [1, 1, 1, None, None, None]


@pytest.fixture(scope="module")
def lost(tmp_path_factory):
    """A trial in PyTorch that was lost in its fourth epoch, and what it would have come to."""
    folder = tmp_path_factory.mktemp("checkpoints")
    whole = attempt("torch", folder / "whole", every=0)
    return folder / "lost", attempt("torch", folder / "lost", lost_in=4), whole


@pytest.fixture
def left(lost, tmp_path):
    """A copy of what it left."""
    return Path(shutil.copytree(lost[0], tmp_path / "trial"))


def test_the_ledger_is_right_across_the_gap(lost, left):
    first, again = lost[1], attempt("torch", left, 2, resume=4)
    over = end(again)
    assert sum(over["ledger"].values()) == pytest.approx(over["wall"], abs=max(0.005, 0.01 * over["wall"]))
    assert epochs(again)[:3] == [{**e, "attempt": 2, "of_attempt": 1} for e in epochs(first)[:3]]
    for name in ("train", "evaluate", "compile"):
        told = sum(event["ledger"].get(name, 0.0) for event in epochs(again))
        assert over["ledger"][name] == pytest.approx(told, abs=2e-5), name
    assert over["ledger"]["checkpoint"] > 0


def test_lost_again_and_again(lost, left):
    attempt("torch", left, 2, resume=4, lost_in=5)
    again = attempt("torch", left, 3, resume=5)
    assert losses(again) == losses(lost[2])
    resumed = again["told"][1]
    assert (resumed["epoch"], resumed["gaps"], resumed["of_attempt"]) == (4, [3, 4], 2)
    assert [event.get("of_attempt") for event in epochs(again)] == [1, 1, 1, 2, None, None]
    assert [e.epoch for e in attempts(again["told"])[("t-r0", 3)].timed] == [2, 3, 6]


def test_afresh_uses_none_and_leaves_none(lost, left):
    again = attempt("torch", left, 2, resume=None)
    assert [event["event"] for event in again["told"][:2]] == ["trial_started", "epoch_ended"]
    assert losses(again) == losses(lost[2])
    assert again["files"] == []


@pytest.mark.parametrize("name", ["about.json", "state"])
def test_damaged_checkpoint_falls_back_to_the_previous(name, lost, left):
    path = left / FOLDER / "epoch-000003.rank-0" / name
    os.truncate(path, 0)
    again = attempt("torch", left, 2, resume=4)
    assert again["told"][1]["epoch"] == 2
    (warning,) = end(again)["warnings"]
    assert warning.startswith("checkpoint of epoch 3 not used: ")
    assert losses(again) == losses(lost[2])


def test_missing_checkpoint_starts_again(lost, left):
    shutil.rmtree(left / FOLDER)
    again = attempt("torch", left, 2, resume=4)
    (warning,) = end(again)["warnings"]
    assert warning == f"no checkpoint of epoch 4 on {os.uname().nodename}; restarted from epoch 1"
    assert losses(again) == losses(lost[2])


def test_one_that_cannot_be_written_ends_nothing(lost, tmp_path):
    (tmp_path / FOLDER).write_text("in the way")
    found = attempt("torch", tmp_path)
    assert end(found)["status"] == "completed"
    assert len(end(found)["warnings"]) == 5
    assert end(found)["warnings"][0].startswith("checkpoint of epoch 1 not written: ")
    assert losses(found) == losses(lost[2])
