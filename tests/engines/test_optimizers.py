"""Weight decay means one thing: ten steps without a loss gradient, against the closed form of the declared rule."""

import itertools

import pytest
import torch
from support.closed_forms import CLOSED, DECAY, MOMENTS, SGD, START, STEPS

from raybench.engines.torch.optimizers import build_optimizer


def ten_steps(settings, decay):
    weight = torch.nn.Parameter(torch.tensor([1.0, -2.0, 0.5], dtype=torch.float64))
    optimizer = build_optimizer([weight], settings, DECAY, decay)
    for _ in range(STEPS):
        weight.grad = torch.zeros_like(weight)
        optimizer.step()
    return weight.detach()


@pytest.mark.parametrize(("name", "decay"), CLOSED)
def test_ten_steps_follow_the_closed_form(name, decay):
    settings = SGD if name == "sgd" else {"name": name, **MOMENTS}
    assert torch.allclose(ten_steps(settings, decay), CLOSED[name, decay](START), rtol=1e-10)


def test_the_rules_can_be_told_apart():
    forms = [form(START) for form in {id(form): form for form in CLOSED.values()}.values()]
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
