"""TensorFlow's optimizers are torch's, step for step."""

import itertools

import numpy as np
import pytest
import torch
from support.frameworks import call

from raybench.engines.torch.optimizers import build_optimizer

pytestmark = [pytest.mark.slow, pytest.mark.tensorflow]

SGD = {"name": "sgd", "learning_rate": 0.1, "momentum": 0.9, "nesterov": True}
ADAMW = {"name": "adamw", "learning_rate": 0.1, "betas": [0.9, 0.999], "eps": 1e-8}
RATES = [0.1, 0.2, 0.3, 0.3, 0.25, 0.2, 0.1, 0.05, 0.01, 0.0]
PLAIN = {"name": "sgd", "learning_rate": 0.1, "momentum": 0.0, "nesterov": False}
HEAVY = {"name": "sgd", "learning_rate": 0.1, "momentum": 0.8, "nesterov": False}
ADAM = {"name": "adam", "learning_rate": 0.1, "betas": [0.8, 0.99], "eps": 1e-3}


@pytest.mark.parametrize(
    ("settings", "decay"),
    [
        (SGD, "coupled"),
        (ADAM, "decoupled"),
        *(
            pytest.param(settings, decay, marks=pytest.mark.exhaustive)
            for settings, decay in [
                (SGD, "decoupled"),
                (ADAM, "coupled"),
                *itertools.product([PLAIN, HEAVY, ADAMW], ["coupled", "decoupled"]),
            ]
        ),
    ],
)
def test_steps_equal_torch_with_a_moving_rate(settings, decay):
    random = np.random.default_rng(0)
    start = [random.normal(size=shape).astype(np.float32) for shape in ((4, 3), (3,))]
    gradients = [[random.normal(size=value.shape).astype(np.float32) for value in start] for _ in RATES]
    weights = [torch.nn.Parameter(torch.from_numpy(value.copy())) for value in start]
    optimizer = build_optimizer(weights, settings, 0.05, decay)
    found = call(
        "tensorflow",
        "tensorflow_side:moving_steps",
        settings=settings,
        weight_decay=0.05,
        decay=decay,
        start=[value.tolist() for value in start],
        gradients=[[value.tolist() for value in step] for step in gradients],
        rates=RATES,
    )
    for step, rate in enumerate(RATES):
        for weight, gradient in zip(weights, gradients[step], strict=True):
            weight.grad = torch.from_numpy(gradient)
        optimizer.param_groups[0]["lr"] = rate
        optimizer.step()
        for weight, value in zip(weights, found[step], strict=True):
            np.testing.assert_allclose(value, weight.detach().numpy(), rtol=2e-6, atol=2e-7, err_msg=f"step {step}")


def test_weights_without_a_gradient_stay():
    still, moving = call("tensorflow", "tensorflow_side:left_alone")
    assert still == [1.0, 1.0]
    assert moving == pytest.approx([1 - 0.1 * 0.5, 1 - 0.1 * 1.5])
