from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
import torch
from support.published import MODELS, Known
from torch import nn

from raybench import datasets, workloads
from raybench.engines.torch import flops
from raybench.engines.torch.losses import cross_entropy


@pytest.fixture(params=MODELS)
def known(request: pytest.FixtureRequest) -> Known:
    return MODELS[request.param]


def tensor(values: npt.NDArray[Any]) -> torch.Tensor:
    """Inputs as the engine gives them to a model: pictures with their channels first."""
    return torch.from_numpy(np.moveaxis(values, -1, 1).copy() if values.ndim == 4 else values)


def loss_of(known: Known, outputs: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
    return (workloads.get(known.name).loss_for("torch") or cross_entropy)(outputs, targets).mean()


def build(name: str) -> nn.Module:
    torch.manual_seed(0)
    model = workloads.get(name).build_model("torch")
    assert isinstance(model, nn.Module)
    return model


def sizes(model: nn.Module, kind: type[nn.Module], *shape: int) -> list[tuple[int, ...]]:
    """The output shape of every layer of a kind, in the order they run."""
    found: list[tuple[int, ...]] = []
    for layer in model.modules():
        if isinstance(layer, kind):
            layer.register_forward_hook(lambda _layer, _inputs, out: found.append(tuple(out.shape[1:])))
    model.eval()(torch.zeros(1, *shape))
    return found


def test_every_workload_is_tested() -> None:
    assert sorted(MODELS) == list(workloads.names())


def test_parameters_flops_and_outputs_as_published(known: Known) -> None:
    model = build(known.name)
    assert sum(p.numel() for p in model.parameters() if p.requires_grad) == known.trained
    running = [b for key, b in model.named_buffers() if not key.endswith("num_batches_tracked")]
    assert sum(b.numel() for b in running) == known.statistics
    out = model.eval()(tensor(known.inputs(3)))
    assert out.shape == (3, *known.outputs)
    assert out.dtype == torch.float32
    assert torch.isfinite(out).all()
    if known.megaflops:
        found = flops.count(model.train(), tensor(known.inputs(1)).numpy())
        assert found["flops"] == pytest.approx(known.megaflops * 1e6, rel=0.01)
        assert found["parameters"] == known.trained


SMALL = ["digits_cnn", "mnist_cnn", "katnoria_cnn", "imdb_cnn"]
MIDDLE = ["davidnet", "imdb_bilstm"]
LARGE = [name for name in MODELS if name not in SMALL + MIDDLE]


@pytest.mark.parametrize(
    "name",
    [
        *SMALL,
        *(pytest.param(name, marks=pytest.mark.slow) for name in MIDDLE),
        *(pytest.param(name, marks=pytest.mark.exhaustive) for name in LARGE),
    ],
)
def test_loss_falls_on_a_fixed_batch(name: str) -> None:
    known = MODELS[name]
    model = build(name).train()
    examples = 2 if known.slow else 8
    inputs, targets = tensor(known.inputs(examples)), torch.from_numpy(known.targets(examples))
    optimizer = torch.optim.Adam([p for p in model.parameters() if p.requires_grad], 1e-3)
    losses = []
    for _ in range(12):
        loss = loss_of(known, model(inputs), targets)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert min(losses[6:]) < 0.9 * losses[0]


@pytest.mark.parametrize("known", [known for known in MODELS.values() if not known.words], ids=lambda known: known.name)
def test_both_memory_formats_agree(known: Known) -> None:
    model = build(known.name).eval()
    inputs = tensor(known.inputs(2))
    plain = model(inputs)
    turned = model.to(memory_format=torch.channels_last)(inputs.contiguous(memory_format=torch.channels_last))
    torch.testing.assert_close(turned, plain, rtol=1e-4, atol=1e-4)


# DavidNet


def test_davidnet_batch_norm_and_scaled_logits() -> None:
    model = build("davidnet")
    norms = [layer for layer in model.modules() if isinstance(layer, nn.BatchNorm2d)]
    assert {(norm.eps, norm.momentum) for norm in norms} == {(1e-5, 0.1)}
    assert all((norm.weight == 1).all() and (norm.bias == 0).all() for norm in norms)
    inputs = torch.randn(4, 3, 32, 32)
    head = model[8]
    assert isinstance(head, nn.Linear)
    torch.testing.assert_close(model.eval()(inputs), 0.125 * head(model[:8](inputs)))


# Keras's models


def test_katnoria_logits_are_positive() -> None:
    assert build("katnoria_cnn").eval()(torch.randn(64, 3, 32, 32)).min() == 0


@pytest.mark.parametrize("name", ["katnoria_cnn", "mnist_cnn", "resnet63"])
def test_keras_defaults(name: str) -> None:
    for layer in build(name).modules():
        if isinstance(layer, (nn.BatchNorm1d, nn.BatchNorm2d)):
            assert (layer.eps, layer.momentum) == (1e-3, 0.01)
        if isinstance(layer, (nn.Conv2d, nn.Linear)):
            receptive = layer.weight[0, 0].numel()
            limit = math.sqrt(6 / (receptive * (layer.weight.shape[0] + layer.weight.shape[1])))
            assert 0.9 * limit < layer.weight.abs().max() <= limit
            assert layer.bias is None or (layer.bias == 0).all()


def test_resnet63_layers() -> None:
    model = build("resnet63")
    found = sizes(model, nn.Conv2d, 3, 32, 32)
    assert len([layer for layer in model.modules() if isinstance(layer, nn.Conv2d)]) == 63
    assert {size: found.count(size) for size in dict.fromkeys(found)} == {
        (64, 32, 32): 21,
        (128, 16, 16): 21,
        (256, 8, 8): 21,
    }


def test_resnet63_padding_as_in_tensorflow() -> None:
    """TensorFlow's SAME, unlike torch's padding of 1: the first row and column are read once less."""
    block = build("resnet63").eval().blocks[10]
    inputs = torch.zeros(1, 64, 32, 32)
    inputs[..., 0, :] = 1.0
    first = torch.nn.functional.conv2d(torch.nn.functional.pad(inputs, (0, 1, 0, 1)), block.first.weight, stride=2)
    first = block.first_norm(first + block.first.bias[:, None, None]).relu()
    wanted = (block.second_norm(block.second(first)) + block.project_norm(block.project(inputs))).relu()
    torch.testing.assert_close(block(inputs), wanted)


# The U-net


def test_resunet_with_concatenated_skips() -> None:
    model = workloads.get("resunet").with_options({"skip": "concat"}).build_model("torch")
    assert sum(p.numel() for p in model.parameters()) == 39_847_052
    with torch.no_grad():
        assert model.eval()(torch.zeros(1, 6, 32, 32)).shape == (1, 2, 32, 32)


def test_resunet_iou_and_loss_by_hand() -> None:
    workload = workloads.get("resunet")
    targets = torch.zeros(2, 2, 4, 4, dtype=torch.uint8)
    targets[0, 0, :2] = 255
    outputs = torch.full((2, 2, 4, 4), -1.0)
    outputs[0, 0, 1:3] = 1.0
    assert workload.metrics_for("torch")(outputs, targets)["mask_iou"].tolist() == [pytest.approx(4 / 12), 1.0]
    right, wrong = math.log1p(math.exp(-1)), math.log1p(math.e)
    losses = workload.loss_for("torch")(outputs, targets).tolist()
    assert losses == pytest.approx([(right + wrong) / 2 + 2 * right, 3 * right])


# Recipes


def test_defaults_fit_the_data() -> None:
    for name in workloads.names():
        workload = workloads.get(name)
        assert workload.name == name
        dataset = datasets.get(str(workload.dataset))
        assert workload.defaults["batch_size"] <= dataset.examples["train"] - workload.held_out
        assert len(workload.mean) in (1, MODELS[name].shape[-1])
        assert len(workload.std) in (1, MODELS[name].shape[-1])
