"""The example airbench94, and the published algorithm written a second time."""

from __future__ import annotations

import inspect
import math
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

from raybench import datasets
from raybench.datasets.splits import Split
from raybench.engines.torch import flops

EXAMPLE = SimpleNamespace(**runpy.run_path(str(ROOT / "examples/airbench94/train.py")))
BATCH, EPOCHS, EXAMPLES, VAL_EXAMPLES = 16, 3.3, 6 * 16, 50
STEPS = 20
"""Three epochs of six steps and one of two: the bias of the first layer is trained in 18 of them."""


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


def test_batch_norms_stay_in_float32() -> None:
    types = {name: value.dtype for name, value in EXAMPLE.build(dtype=torch.float16).named_parameters()}
    assert {dtype for name, dtype in types.items() if "norm" in name} == {torch.float32}
    assert {dtype for name, dtype in types.items() if "norm" not in name} == {torch.float16}


def test_convolutions_begin_as_the_identity(network: nn.Sequential) -> None:
    inputs = torch.randn(2, 64, 8, 8)
    outputs = network.get_submodule("group2.conv1")(inputs)
    torch.testing.assert_close(outputs[:, :64], inputs)
    assert outputs[:, 64:].std() > 0.1


@pytest.mark.slow
@torch.no_grad()
def test_first_layer_whitens_the_images(network: nn.Sequential, real_data) -> None:
    data = EXAMPLE.read(real_data / "cifar-10-batches-bin", ["data_batch_1.bin"], 1000)
    images, _ = EXAMPLE.on_device(data, "cpu", torch.float32)
    EXAMPLE.whiten(network, images)
    weight = network.get_parameter("whitening.weight")
    outputs = functional.conv2d(EXAMPLE.normalise(images), weight).transpose(0, 1).flatten(1)
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


# The published algorithm, on arrays of float64: only the initial weights and the random draws come from the function


class Published:
    """The algorithm from its description: functions of a dictionary of weights, and an optimizer by hand."""

    def __init__(self, train_set: Split, val_set: Split) -> None:
        torch.manual_seed(3)
        self.weights = {name: value.double() for name, value in EXAMPLE.build().state_dict().items() if value.ndim}
        self.slow = {name: value.clone() for name, value in self.weights.items()}
        self.images, self.val_images = self.normalised(train_set), self.normalised(val_set)
        self.classes, self.val_classes = torch.from_numpy(train_set.targets), torch.from_numpy(val_set.targets)
        self.velocity: dict[str, torch.Tensor] = {}
        self.losses: list[float] = []
        self.step = 0

    @staticmethod
    def normalised(split: Split) -> torch.Tensor:
        colours = split.inputs / 255.0
        mean, std = np.array([0.4914, 0.4822, 0.4465]), np.array([0.2470, 0.2435, 0.2616])
        return torch.from_numpy(np.moveaxis((colours - mean) / std, -1, 1).copy())

    def whiten(self) -> None:
        """24 filters of 2×2: eigenvectors of the patches' covariance over the root of their variance, and negatives."""
        patches = np.concatenate(
            [
                self.images[:, :, top : top + 31, left : left + 31].numpy()[:, :, None]
                for top, left in [(0, 0), (0, 1), (1, 0), (1, 1)]
            ],
            axis=2,
        )  # [images, colours, places in the patch, height, width]
        rows = np.moveaxis(patches, (0, 3, 4), (2, 3, 4)).reshape(12, -1)
        variances, vectors = torch.linalg.eigh(torch.from_numpy(rows @ rows.T / rows.shape[1]), UPLO="U")
        filters = [vectors[:, at].reshape(3, 2, 2) / math.sqrt(variances[at] + 5e-4) for at in reversed(range(12))]
        self.weights["whitening.weight"] = torch.stack([*filters, *(-each for each in filters)])

    def normalise_batch(self, name: str, x: torch.Tensor, training: bool) -> torch.Tensor:
        mean, variance = self.weights[f"{name}.running_mean"], self.weights[f"{name}.running_var"]
        if training:
            count = x.numel() / x.shape[1]
            mean, variance = x.mean((0, 2, 3)), x.var((0, 2, 3), correction=0)
            for kind, now in (("mean", mean), ("var", variance * count / (count - 1))):
                self.weights[f"{name}.running_{kind}"] = 0.6 * self.weights[f"{name}.running_{kind}"] + 0.4 * now.data
        columns = (1, -1, 1, 1)
        return (x - mean.view(columns)) / torch.sqrt(variance.view(columns) + 1e-12) + self.weights[
            f"{name}.bias"
        ].view(columns)

    def logits(self, x: torch.Tensor, training: bool) -> torch.Tensor:
        weights = self.weights
        x = functional.gelu(functional.conv2d(x, weights["whitening.weight"], weights["whitening.bias"]))
        for block in ("group1", "group2", "group3"):
            x = functional.max_pool2d(functional.conv2d(x, weights[f"{block}.conv1.weight"], padding=1), 2)
            x = functional.gelu(self.normalise_batch(f"{block}.norm1", x, training))
            x = functional.conv2d(x, weights[f"{block}.conv2.weight"], padding=1)
            x = functional.gelu(self.normalise_batch(f"{block}.norm2", x, training))
        return functional.max_pool2d(x, 3).flatten(1) @ weights["head.weight"].T / 9

    def batches(self) -> Any:
        """Two pixels of reflection, random crops, and each image the other way round in every second epoch."""
        padded = np.pad(self.images.numpy(), ((0, 0), (0, 0), (2, 2), (2, 2)), "reflect")
        mirrored = torch.rand(EXAMPLES) < 0.5
        for epoch in range(math.ceil(EPOCHS)):
            corners = torch.randint(0, 5, (EXAMPLES, 2)).tolist()
            order = torch.randperm(EXAMPLES).tolist()
            for at in range(0, EXAMPLES, BATCH):
                images = []
                for index in order[at : at + BATCH]:
                    top, left = corners[index]
                    image = padded[index, :, :, ::-1] if mirrored[index] else padded[index]
                    image = image[:, top : top + 32, left : left + 32]
                    images.append(image[:, :, ::-1] if epoch % 2 else image)
                yield epoch, torch.from_numpy(np.stack(images)), self.classes[order[at : at + BATCH]]

    def take_step(self, epoch: int, images: torch.Tensor, classes: torch.Tensor) -> None:
        frozen = {"whitening.weight"} | ({"whitening.bias"} if epoch >= 3 else set())
        trained = [name for name in self.weights if "norm" not in name or name.endswith(".bias")]
        trained = [name for name in trained if name not in frozen]
        for name in trained:
            self.weights[name] = self.weights[name].detach().requires_grad_(True)
        probabilities = functional.log_softmax(self.logits(images, training=True), 1)
        wanted = 0.8 * functional.one_hot(classes, 10) + 0.02
        loss = -(wanted * probabilities).sum()
        gradients = torch.autograd.grad(loss, [self.weights[name] for name in trained])
        self.losses.append(loss.item() / BATCH)
        # Published in the decoupled form: 11.5 and 0.0153 per 1,024 examples, without the factor of the momentum.
        scale = 1024 * (1 + 1 / (1 - 0.85))
        peak = int(0.23 * STEPS)
        factor = float(np.interp(self.step, [0, peak, STEPS], [0.2, 1.0, 0.07]))
        for name, gradient in zip(trained, gradients, strict=True):
            rate = 11.5 / scale * (64 if "norm" in name else 1)
            decay = 0.0153 * BATCH / scale / rate
            value = self.weights[name].detach()
            gradient = gradient + decay * value
            velocity = self.velocity[name] = 0.85 * self.velocity.get(name, 0.0) + gradient
            self.weights[name] = value - rate * factor * (gradient + 0.85 * velocity)
        self.step += 1
        if self.step % 5 == 0:
            self.average(0.95**5 * (self.step / STEPS) ** 3)
        if self.step == STEPS:
            self.average(1.0)

    def average(self, kept: float) -> None:
        for name, value in self.weights.items():
            self.slow[name] = kept * self.slow[name] + (1 - kept) * value.detach()
            self.weights[name] = self.slow[name].clone()

    def accuracy(self, six_views: bool) -> float:
        x = self.val_images
        padded = functional.pad(x, (1, 1, 1, 1), "reflect")
        views = {0.5: [x], 0.25: [padded[:, :, 0:32, 0:32], padded[:, :, 2:34, 2:34]]}
        with torch.no_grad():
            outputs = (
                sum(
                    weight * 0.5 * (self.logits(view, False) + self.logits(view.flip(3), False))
                    for weight, some in views.items()
                    for view in some
                )
                if six_views
                else self.logits(x, False)
            )
        assert isinstance(outputs, torch.Tensor)
        return (outputs.argmax(1) == self.val_classes).double().mean().item()

    def train(self) -> dict[int, float]:
        """Train; return the accuracy after each epoch."""
        batches = self.batches()
        accuracies = {}
        self.whiten()
        for number, (epoch, images, classes) in zip(range(STEPS), batches, strict=False):
            self.take_step(epoch, images, classes)
            if (number + 1) % 6 == 0 or number + 1 == STEPS:
                accuracies[epoch] = self.accuracy(six_views=number + 1 == STEPS)
        return accuracies


@pytest.mark.slow
def test_twenty_steps_equal_the_published_algorithm(real_data, monkeypatch) -> None:
    losses: list[float] = []

    def cross_entropy(*args: Any, original: Any = functional.cross_entropy, **settings: Any) -> torch.Tensor:
        result: torch.Tensor = original(*args, **settings)
        losses.append(result.detach().mean().item())
        return result

    monkeypatch.setattr(functional, "cross_entropy", cross_entropy)
    epochs = run(real_data)
    monkeypatch.undo()
    data = datasets.get("cifar10").load(real_data)
    published = Published(data.train.first(EXAMPLES), data.val.first(VAL_EXAMPLES))
    accuracies = published.train()
    assert len(losses) == STEPS
    assert losses == pytest.approx(published.losses, abs=2e-3)
    assert losses[:5] == pytest.approx(published.losses[:5], abs=1e-4)
    found = [fields["metrics"]["val/accuracy"] for fields in epochs]
    assert found == pytest.approx(list(accuracies.values()), abs=0.02)
    assert [fields["steps"] for fields in epochs] == [6, 6, 6, 2]


@pytest.mark.slow
def test_compiled_networks_train_as_the_plain_one(real_data, monkeypatch) -> None:
    compiled: list[nn.Module] = []

    def compile_(network: nn.Module, *, mode: str, original: Any = torch.compile) -> nn.Module:
        assert mode == "max-autotune"
        compiled.append(original(network, backend="eager"))
        return compiled[-1]

    plain = run(real_data)
    monkeypatch.setattr(torch, "compile", compile_)
    twice = run(real_data, compile=True)
    assert len(compiled) == 2
    assert [compiled[at].get_parameter("_orig_mod.whitening.bias").requires_grad for at in (0, 1)] == [True, False]
    for one, other in zip(plain, twice, strict=True):
        assert one["metrics"]["train/loss"] == pytest.approx(other["metrics"]["train/loss"], abs=2e-3)
    assert sum(fields["recompiles"] for fields in twice) == 0, "all is compiled before the first epoch"
