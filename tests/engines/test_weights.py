"""Weights between frameworks: what one model has is what the other takes, and computes the same with."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
import torch
from support.frameworks import call
from torch import nn

from raybench.engines.torch import inspection
from raybench.engines.weights import Mismatch, renamed


def build() -> nn.Module:
    """`keras_layers.build` in torch."""
    return nn.Sequential(
        nn.Sequential(nn.Conv2d(2, 3, (3, 2)), nn.BatchNorm2d(3, eps=1e-3), nn.ReLU()),
        nn.Conv2d(3, 4, 2, stride=2, bias=False),
        nn.Flatten(),
        nn.BatchNorm1d(16),
        nn.Tanh(),
        nn.Dropout(0.5),
        nn.Linear(16, 7),
        WithoutScale(7, eps=1e-3),
        nn.Linear(7, 3, bias=False),
    )


class WithoutScale(nn.BatchNorm1d):
    """Shifts and does not scale, as Keras's `scale=False`."""

    def __init__(self, features: int, eps: float) -> None:
        super().__init__(features, eps)
        self.weight = None


@pytest.fixture
def model() -> nn.Module:
    """No two values of its weights and statistics are alike."""
    torch.manual_seed(0)
    made = build()
    for tensor in made.state_dict().values():
        if tensor.is_floating_point():
            tensor.copy_(torch.rand_like(tensor) + 0.5)
    inspection.without_dropout(made)
    return made


@pytest.mark.slow
@pytest.mark.tensorflow
def test_keras_computes_the_same_with_torch_weights(model: nn.Module, tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    inputs = rng.normal(size=(5, 6, 5, 2)).astype(np.float32)
    weights = inspection.read_weights(model)
    np.savez(tmp_path / "weights.npz", **weights)
    np.save(tmp_path / "inputs.npy", inputs)
    files = {"weights": "weights.npz", "inputs": "inputs.npy", "answers": "answers.npy"}
    told = call("tensorflow", "keras_layers:taken", **{name: f"{tmp_path}/{file}" for name, file in files.items()})
    assert told["exact"], "what was written is read back bit by bit"
    assert told["shapes"] == [list(array.shape) for array in weights.values()]
    assert told["parameters"] == inspection.parameter_count(model)
    outputs = inspection.outputs(model, inputs.transpose(0, 3, 1, 2))
    np.testing.assert_allclose(np.load(tmp_path / "answers.npy"), outputs, rtol=1e-4, atol=1e-5)


@pytest.mark.slow
@pytest.mark.tensorflow
def test_layer_without_a_partner(model: nn.Module, tmp_path: Path) -> None:
    other = nn.Sequential(*model[:6], nn.Linear(16, 8))
    np.savez(tmp_path / "weights.npz", **inspection.read_weights(other))
    said = call("tensorflow", "keras_layers:refused", weights=f"{tmp_path}/weights.npz")
    wanted = r"layer 5 with weights: 6 \(weight 8×16, bias 8\) against dense\w* \(weight 7×16, bias 7\)"
    assert re.search(wanted, said), said


@pytest.mark.slow
@pytest.mark.tensorflow
def test_unknown_kind_of_layer() -> None:
    assert "no torch layer is known for the Keras layer gru (GRU)" in call("tensorflow", "keras_layers:unknown")


# torch's own side


@pytest.mark.parametrize(
    ("like", "message"),
    [
        ({"a.weight": (2, 3)}, r"^2 layers with weights against 1: no partner for norm \(weight 2\)"),
        ({"a.weight": (2, 3), "b.weight": (3,)}, r"^layer 2 with weights: norm \(weight 2\) against b \(weight 3\)"),
        (
            {"a.weight": (2, 3), "a.bias": (2,), "b.weight": (2,)},
            r"conv \(weight 2×3\) against a \(weight 2×3, bias 2\)",
        ),
    ],
)
def test_models_with_different_layers(like: dict[str, tuple[int, ...]], message: str) -> None:
    ours = {"conv.weight": np.zeros((2, 3)), "norm.weight": np.zeros(2)}
    with pytest.raises(Mismatch, match=message):
        renamed(ours, {name: np.empty(shape) for name, shape in like.items()})


def test_weights_are_written_in_place(model: nn.Module) -> None:
    parameter = next(model.parameters())
    before = inspection.read_weights(model)
    inspection.write_weights(model, {name: array + 1 for name, array in before.items()})
    assert next(model.parameters()) is parameter, "the optimizer holds it"
    after = inspection.read_weights(model)
    assert all(np.array_equal(after[name], before[name] + 1) for name in before)
