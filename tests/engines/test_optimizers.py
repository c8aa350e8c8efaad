"""Weight decay means one thing: ten steps without a loss gradient, against the closed form of the declared rule."""

import itertools

import pytest
import torch

from raybench.engines.torch.optimizers import build_optimizer

RATE, DECAY, STEPS = 0.1, 0.05, 10
SGD = {"name": "sgd", "learning_rate": RATE, "momentum": 0.9, "nesterov": True}
MOMENTS = {"learning_rate": RATE, "betas": [0.9, 0.999], "eps": 1e-8}


def ten_steps(settings, decay):
    weight = torch.nn.Parameter(torch.tensor([1.0, -2.0, 0.5], dtype=torch.float64))
    optimizer = build_optimizer([weight], settings, DECAY, decay)
    for _ in range(STEPS):
        weight.grad = torch.zeros_like(weight)
        optimizer.step()
    return weight.detach()


def coupled_sgd(weight):
    velocity = torch.zeros_like(weight)
    for _ in range(STEPS):
        gradient = DECAY * weight
        velocity = 0.9 * velocity + gradient
        weight = weight - RATE * (gradient + 0.9 * velocity)
    return weight


def coupled_adam(weight):
    first, second = torch.zeros_like(weight), torch.zeros_like(weight)
    for step in range(1, STEPS + 1):
        gradient = DECAY * weight
        first = 0.9 * first + 0.1 * gradient
        second = 0.999 * second + 0.001 * gradient**2
        weight = weight - RATE * (first / (1 - 0.9**step)) / ((second / (1 - 0.999**step)).sqrt() + 1e-8)
    return weight


def decoupled(weight):
    return weight * (1 - RATE * DECAY) ** STEPS


START = torch.tensor([1.0, -2.0, 0.5], dtype=torch.float64)
CLOSED = {
    ("sgd", "coupled"): coupled_sgd,
    ("sgd", "decoupled"): decoupled,
    ("adam", "coupled"): coupled_adam,
    ("adam", "decoupled"): decoupled,
    ("adamw", "coupled"): coupled_adam,
    ("adamw", "decoupled"): decoupled,
}


@pytest.mark.parametrize(("name", "decay"), CLOSED)
def test_ten_steps_follow_the_closed_form(name, decay):
    settings = SGD if name == "sgd" else {"name": name, **MOMENTS}
    assert torch.allclose(ten_steps(settings, decay), CLOSED[name, decay](START), rtol=1e-10)


def test_the_rules_can_be_told_apart():
    forms = [form(START) for form in (coupled_sgd, coupled_adam, decoupled)]
    assert all(not torch.allclose(a, b, rtol=1e-3) for a, b in itertools.combinations(forms, 2))


def test_frozen_weights_are_left_alone():
    frozen = torch.nn.Parameter(torch.ones(2), requires_grad=False)
    moving = torch.nn.Parameter(torch.ones(2))
    optimizer = build_optimizer([frozen, moving], SGD, DECAY, "coupled")
    moving.grad = torch.zeros(2)
    optimizer.step()
    assert (frozen == 1).all()
    assert (moving < 1).all()


def test_an_unknown_optimizer():
    with pytest.raises(LookupError, match="lion"):
        build_optimizer([torch.nn.Parameter(torch.ones(1))], {"name": "lion", "learning_rate": 1}, 0.0, "coupled")
