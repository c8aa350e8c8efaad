"""Whole grids on the real data sets: what is trained learns what it is known to learn."""

import pytest

from raybench.execution.inline import InlineExecutor
from raybench.run import Options, run_grid
from raybench.spec import load_grid


@pytest.fixture
def train(real_data, tmp_path, monkeypatch):
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)

    def run(text):
        (tmp_path / "grid.yaml").write_text(text)
        outcome = run_grid(load_grid(tmp_path / "grid.yaml"), InlineExecutor(), options=Options(tmp_path / "results"))
        assert {row.status for row in outcome.rows} == {"1/1 completed"}
        return list(outcome.latest.values())

    return run


def test_mnist_reaches_98_percent_within_three_epochs(train):
    target = "target: {metric: val/accuracy, at_least: 0.98}\nstop_at_target: true\n"
    (run,) = train(f"name: mnist\nworkload: mnist_cnn\nepochs: 3\n{target}")
    assert run.cell["data"]["examples"] == {"train": 60000, "val": 10000}
    assert run.epochs[-1].metrics["val/accuracy"] >= 0.98


def test_cifar_10_is_learned_from_raw_pixels(train):
    runs = train(
        "name: cifar\nworkload: katnoria_cnn\nepochs: 2\nexamples: {train: 12800, val: 2000}\n"
        "axes: {batch_size: [64], weight_decay: [5.0e-4]}\n"
    )
    for run in runs:
        assert run.epochs[-1].metrics["val/accuracy"] > 0.3, "guessing gives 0.1"
        assert run.epochs[-1].metrics["train/loss"] < run.epochs[0].metrics["train/loss"]


def test_davidnet_runs_through_with_everything_it_augments(train):
    (run,) = train(
        "name: david\nworkload: davidnet\nepochs: 2\nbatch_size: 64\nprecision: bf16\n"
        "examples: {train: 640, val: 256}\n"
    )
    assert run.cell["settings"]["augmentation"] == [{"crop": 4}, "flip", {"cutout": 8}]
    assert run.epochs[-1].metrics["train/loss"] < run.epochs[0].metrics["train/loss"]


def test_airbench94_learns_in_forty_steps(train):
    """Its whole recipe, but for a rate that fits small batches."""
    (run,) = train(
        "name: air\nworkload: airbench94\nepochs: 1.25\nbatch_size: 64\nlearning_rate: 0.2\n"
        "examples: {train: 2048, val: 250}\n"
    )
    assert [epoch.steps for epoch in run.epochs] == [32, 8]
    assert run.epochs[-1].metrics["val/accuracy"] > 0.25, "guessing gives 0.1"
    assert run.epochs[-1].metrics["train/loss"] < run.epochs[0].metrics["train/loss"]
    assert run.decay_proof["passed"]
