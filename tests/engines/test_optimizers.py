"""Weight decay means one thing: ten steps without a loss gradient, against the closed form of the declared rule."""

import itertools
import math

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


def test_closed_forms_differ():
    forms = [form(START) for form in {id(form): form for form in CLOSED.values()}.values()]
    assert all(not torch.allclose(a, b, rtol=1e-3) for a, b in itertools.combinations(forms, 2))


def test_frozen_weights_stay():
    frozen = torch.nn.Parameter(torch.ones(2), requires_grad=False)
    moving = torch.nn.Parameter(torch.ones(2))
    optimizer = build_optimizer([frozen, moving], SGD, DECAY, "coupled")
    moving.grad = torch.zeros(2)
    optimizer.step()
    assert (frozen == 1).all()
    assert (moving < 1).all()


@pytest.mark.parametrize("fused", [True, False])
@pytest.mark.parametrize(("name", "decay"), CLOSED)
def test_skipped_step_does_not_decay(name, decay, fused):
    weight = torch.nn.Parameter(torch.ones(3))
    settings = SGD if name == "sgd" else {"name": name, **MOMENTS}
    optimizer = build_optimizer([weight], settings, DECAY, decay, fused)
    scaler = torch.amp.GradScaler("cpu", init_scale=4.0)
    for gradient, moves in ((0.0, True), (math.inf, False), (0.0, True), (math.nan, False)):
        before = weight.detach().clone()
        scaler.scale(torch.zeros(()))  # creates the scale
        weight.grad = torch.full_like(weight, gradient)
        scaler.step(optimizer)
        scaler.update()
        assert bool((weight < before).all()) == moves
        assert moves or torch.equal(weight, before)


@pytest.mark.parametrize("decay", ["coupled", "decoupled"])
def test_skipped_first_step_leaves_no_momentum(decay):
    unset = [torch.full((1000,), 1e9) for _ in range(50)]
    del unset  # memory that a momentum without values would get
    ends = []
    for gradients in ((math.inf, 0.5, 0.5), (0.5, 0.5)):
        weight = torch.nn.Parameter(torch.ones(1000))
        optimizer = build_optimizer([weight], SGD, DECAY, decay, fused=True)
        scaler = torch.amp.GradScaler("cpu", init_scale=4.0)
        for gradient in gradients:
            scale = float(scaler.scale(torch.ones(())))
            weight.grad = torch.full_like(weight, gradient * scale)
            scaler.step(optimizer)
            scaler.update()
        ends.append(weight.detach())
    torch.testing.assert_close(*ends)


def test_fused_rule_equals_the_plain_one():
    ends = []
    for fused in (True, False):
        weight = torch.nn.Parameter(torch.tensor([1.0, -2.0]))
        optimizer = build_optimizer([weight], SGD, DECAY, "decoupled", fused)
        scaler = torch.amp.GradScaler("cpu", init_scale=4.0)
        for _ in range(3):
            scaler.scale(torch.zeros(()))
            weight.grad = torch.full_like(weight, 0.5)
            scaler.step(optimizer)
            scaler.update()
        ends.append(weight.detach())
    torch.testing.assert_close(*ends)
