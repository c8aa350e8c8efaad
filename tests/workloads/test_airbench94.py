"""airbench94's network and recipe, beside what was published of them."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import torch
from torch import nn

from raybench import datasets, workloads
from raybench.engines.batch_order import total_steps
from raybench.engines.learning_rate import schedule
from raybench.trial.predictions import as_given
from raybench.workloads.airbench94.torch import EPSILON, PICTURES, whiten

DEFAULTS = workloads.get("airbench94").defaults
STEPS_PER_EPOCH = 50_000 // DEFAULTS["batch_size"]
STEPS = total_steps(STEPS_PER_EPOCH, DEFAULTS["epochs"])


@pytest.fixture
def model() -> nn.Sequential:
    torch.manual_seed(0)
    built = workloads.get("airbench94").build_model("torch")
    assert isinstance(built, nn.Sequential)
    return built


@pytest.fixture
def rate() -> Callable[[int], float]:
    """The learning rate of the n-th step, from 1."""
    factor = schedule(DEFAULTS["schedule"], STEPS_PER_EPOCH, STEPS / STEPS_PER_EPOCH)
    return lambda step: float(DEFAULTS["learning_rate"] * factor(step - 1))


def patches_of(pictures: torch.Tensor) -> torch.Tensor:
    """Every 2×2 patch of pictures, [patches, 3·2·2]."""
    return nn.functional.unfold(pictures, 2).transpose(1, 2).flatten(0, 1)


def test_the_published_count_has_what_is_frozen(model: nn.Sequential) -> None:
    frozen = {name: p.numel() for name, p in model.named_parameters() if not p.requires_grad}
    assert sum(p.numel() for p in model.parameters()) == 1_972_792
    assert frozen.pop("whitening.weight") == 288
    assert sum(frozen.values()) == 1_152
    assert all(name.endswith(("norm1.weight", "norm2.weight")) for name in frozen)


def test_batch_norms_have_a_bias_alone_and_a_tiny_epsilon(model: nn.Sequential) -> None:
    norms = [layer for layer in model.modules() if isinstance(layer, nn.BatchNorm2d)]
    assert len(norms) == 6
    assert {(norm.eps, norm.momentum) for norm in norms} == {(1e-12, 0.4)}
    assert all(norm.bias.requires_grad and not norm.weight.requires_grad and (norm.weight == 1).all() for norm in norms)


def test_the_first_outputs_of_a_convolution_begin_as_its_inputs(model: nn.Sequential) -> None:
    inputs = torch.randn(2, 64, 8, 8)
    outputs = model.get_submodule("group2.conv1")(inputs)
    torch.testing.assert_close(outputs[:, :64], inputs)
    assert outputs[:, 64:].std() > 0.1


def test_sizes(model: nn.Sequential) -> None:
    found = []
    for layer in model:
        layer.register_forward_hook(lambda _layer, _inputs, out: found.append(tuple(out.shape[1:])))
    model(torch.randn(2, 3, 32, 32))
    assert found == [
        *[(24, 31, 31)] * 2,
        *[(64, 15, 15), (256, 7, 7), (256, 3, 3), (256, 1, 1), (256,), (10,), (10,)],
    ]


@pytest.mark.slow
@torch.no_grad()
def test_the_first_layer_whitens_what_it_was_made_of(model: nn.Sequential, real_data) -> None:
    workload = workloads.get("airbench94")
    stored = datasets.get("cifar10").load(real_data).train.first(1000)
    pictures = torch.from_numpy(as_given(stored.inputs, workload, "torch"))
    asked = []

    def examples(count: int) -> tuple[torch.Tensor, torch.Tensor]:
        asked.append(count)
        return pictures, torch.from_numpy(stored.targets)

    whiten(model, examples)
    assert asked == [PICTURES]
    layer = model.get_submodule("whitening")
    found = nn.functional.conv2d(pictures, layer.weight).transpose(0, 1).flatten(1)
    torch.testing.assert_close(found[12:], -found[:12])
    covariance = (found[:12] @ found[:12].T / found.shape[1]).numpy()
    assert np.abs(covariance - np.diag(np.diag(covariance))).max() < 1e-3
    # Along each direction v ÷ (v + eps) is left: nearly all, but of those that have hardly any variance of their own.
    patches = patches_of(pictures)
    products = (patches.T @ patches / len(patches)).double()
    assert (products[0, 1] / products[0, 0]) > 0.9, "neighbours are alike"
    variances = torch.linalg.eigvalsh(products).numpy()[::-1]
    assert np.diag(covariance) == pytest.approx(variances / (variances + EPSILON), rel=5e-3)
    assert np.diag(covariance)[:6] == pytest.approx(np.ones(6), abs=0.01)


def test_its_steps_and_rates_are_the_published_ones(rate: Callable[[int], float]) -> None:
    assert (STEPS_PER_EPOCH, STEPS) == (48, 476)
    assert rate(1) == pytest.approx(1.5 * (0.2 + 0.8 / (0.23 * 476)))
    peak = max(range(1, STEPS + 1), key=rate)
    assert peak in (109, 110) and rate(peak) == pytest.approx(1.5, rel=0.01)  # 0.23 × 476 = 109.5
    assert rate(STEPS) == pytest.approx(1.5 * 0.07)


def test_its_rate_and_decay_are_those_of_the_summed_loss() -> None:
    """Published: 11.5 and 0.0153 per 1,024 examples, with the momentum's 1 + 1 / (1 - 0.85) taken out."""
    per_example = 11.5 / (1024 * (1 + 1 / (1 - DEFAULTS["momentum"])))
    assert DEFAULTS["learning_rate"] == pytest.approx(1024 * per_example)
    assert DEFAULTS["weight_decay"] == pytest.approx(0.0153 / 11.5, rel=1e-3)
    assert DEFAULTS["lookahead"]["decay"] == pytest.approx(0.95**5, rel=1e-9)
    biases, _ = DEFAULTS["parameter_groups"]
    assert biases["rate_factor"] * biases["decay_factor"] == 1.0
