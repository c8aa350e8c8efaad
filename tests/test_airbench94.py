"""The example airbench94 is the published network and schedule."""

from __future__ import annotations

import inspect
import runpy
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from support import ROOT
from support.recorded_trial import make_trial
from torch import nn
from torch.nn import functional

from raybench.engines.torch import flops

EXAMPLE = SimpleNamespace(**runpy.run_path(str(ROOT / "examples/airbench94/train.py")))
BATCH, EPOCHS, EXAMPLES, VAL_EXAMPLES = 16, 3.3, 6 * 16, 50


@pytest.fixture
def network() -> nn.Sequential:
    torch.manual_seed(0)
    model: nn.Sequential = EXAMPLE.build()
    return model


def test_parameters_and_flops_as_published(network: nn.Sequential) -> None:
    frozen = {name: p.numel() for name, p in network.named_parameters() if not p.requires_grad}
    assert sum(p.numel() for p in network.parameters()) == 1_972_792
    assert frozen.pop("whitening.weight") == 288
    assert sum(frozen.values()) == 1_152
    assert flops.count(network, np.zeros((1, 3, 32, 32), np.float32))["flops"] == pytest.approx(236.3e6, rel=0.01)


@pytest.mark.slow
@torch.no_grad()
def test_first_layer_whitens_the_images(network: nn.Sequential, real_data) -> None:
    data = EXAMPLE.read(real_data / "cifar-10-batches-bin", ["data_batch_1.bin"], 1000)
    images, _ = EXAMPLE.on_device(data, "cpu", torch.float32)
    EXAMPLE.whiten(network, images)
    weight = network.get_parameter("whitening.weight")
    outputs = functional.conv2d(EXAMPLE.normalize(images), weight).transpose(0, 1).flatten(1)
    torch.testing.assert_close(outputs[12:], -outputs[:12])
    covariance = (outputs[:12] @ outputs[:12].T / outputs.shape[1]).numpy()
    assert np.abs(covariance - np.diag(np.diag(covariance))).max() < 1e-3
    # v / (v + eps) remains of each variance v: nearly 1, except for directions with hardly any variance.
    assert np.diag(covariance)[:6] == pytest.approx(np.ones(6), abs=0.01)
    assert 0 < np.diag(covariance)[-1] < 0.95


def test_schedule_and_defaults_as_published() -> None:
    """Published: 11.5 and 0.0153 per 1,024 examples, with the momentum's 1 + 1 / (1 - 0.85) taken out."""
    factor = EXAMPLE.rate_factors(476)
    assert factor(0) == pytest.approx(0.2)
    assert factor(109) == pytest.approx(1.0), "0.23 × 476 = 109.5"
    assert factor(475) == pytest.approx(0.07 + 0.93 / 367)
    assert max(range(476), key=factor) == 109
    defaults = {name: parameter.default for name, parameter in inspect.signature(EXAMPLE.train).parameters.items()}
    assert defaults["learning_rate"] == pytest.approx(11.5 / (1 + 1 / (1 - defaults["momentum"])))
    assert defaults["weight_decay"] == pytest.approx(0.0153 / 11.5, rel=1e-8)
    assert (defaults["epochs"], defaults["batch_size"], defaults["label_smoothing"]) == (9.9, 1024, 0.2)


def run(root: Path, seed: int = 3, **changes: Any) -> list[dict[str, Any]]:
    """Train for `EPOCHS` small epochs; return the fields of each."""
    trial, kept, _ = make_trial(changes.get("epochs", EPOCHS), "torch", data_dir=root, seed=seed)
    sizes = {"train_examples": EXAMPLES, "val_examples": VAL_EXAMPLES, "batch_size": BATCH, "epochs": EPOCHS}
    EXAMPLE.train(trial, **{**sizes, "learning_rate": 1.5 * BATCH / 1024} | changes)
    trial.finish()
    return kept.epochs


def test_training_depends_on_the_seed_alone(tmp_path) -> None:
    settings = {"epochs": 0.5, "train_examples": 16, "val_examples": 8, "batch_size": 4}
    one, again, other = (run(tmp_path, seed, **settings)[-1] for seed in (0, 0, 1))
    assert one["examples"] == 8, "two of four steps"
    assert one["metrics"]["train/loss"] == again["metrics"]["train/loss"] != other["metrics"]["train/loss"]
