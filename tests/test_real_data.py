"""Whole grids on the real data sets: what is trained learns what it is known to learn."""

import math

import pytest
from support import ROOT
from support.outcomes import run_counts
from support.project import run_trials

pytestmark = pytest.mark.slow


@pytest.fixture
def train(real_data, tmp_path, monkeypatch):
    monkeypatch.setenv("RAYBENCH_DATA", str(real_data))

    def run(text):
        outcome = run_trials(tmp_path, text)
        assert set(run_counts(outcome)) == {(1, 1)}
        return list(outcome.latest.values())

    return run


@pytest.mark.parametrize(
    ("workload", "examples"),
    [
        ("mnist_cnn", {"train": 60_000, "val": 10_000}),
        pytest.param("katnoria_cnn", {"train": 40_000, "val": 10_000}, marks=pytest.mark.exhaustive),
        pytest.param("imdb_cnn", {"train": 25_000, "val": 25_000}, marks=pytest.mark.exhaustive),
    ],
)
def test_data_set_is_read_whole(train, workload, examples):
    (run,) = train(f"name: short\nworkload: {workload}\nepochs: 2\nsteps_per_epoch: 2\nbatch_size: 32\n")
    assert vars(run.cell.data.examples) == examples
    assert [epoch.steps for epoch in run.epochs] == [2, 2]
    assert all(math.isfinite(epoch.metrics["train/loss"]) for epoch in run.epochs)


@pytest.mark.exhaustive
def test_mnist_reaches_90_percent(train):
    settings = "epochs: 3\nstop_at_target: true\nexamples: {train: 10000, val: 1000}\n"
    (run,) = train(f"name: mnist\nworkload: mnist_cnn\ntarget: {{metric: val/accuracy, at_least: 0.9}}\n{settings}")
    assert run.epochs[-1].metrics["val/accuracy"] >= 0.9


@pytest.mark.exhaustive
def test_airbench94_learns(train):
    """Its whole recipe, but for a rate that fits small batches."""
    (run,) = train(
        f"name: air\nworkload: {ROOT}/examples/airbench94/train.py:train\nepochs: 1.25\nbatch_size: 64\n"
        "learning_rate: 0.2\nparams: {train_examples: 2048, val_examples: 250}\n"
    )
    assert [epoch.steps for epoch in run.epochs] == [32, 8]
    assert run.epochs[-1].metrics["val/accuracy"] > 0.25, "guessing gives 0.1"
    assert run.epochs[-1].metrics["train/loss"] < 2.1, "of the last batch; guessing gives 2.3"
