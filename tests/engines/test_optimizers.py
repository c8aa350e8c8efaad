"""The optimizers of PyTorch with one definition of weight decay: what is left alone, and what a gradient scaler skips.

The check of weight decay (`tests/checks/test_weight_decay.py`) compares their decay with its closed form.
"""

import math
from itertools import product

import pytest
import torch

from raybench.core.settings import Settings
from raybench.engines.torch.optimizers import build_optimizer

DECAY = 0.05
SETTINGS = {name: Settings(optimizer=name, learning_rate=0.1).optimizer_settings for name in ("sgd", "adam", "adamw")}
SGD = SETTINGS["sgd"]
EVERY_RULE = list(product(SETTINGS, ("coupled", "decoupled")))


def test_frozen_weights_stay():
    frozen = torch.nn.Parameter(torch.ones(2), requires_grad=False)
    moving = torch.nn.Parameter(torch.ones(2))
    optimizer = build_optimizer([frozen, moving], SGD, DECAY, "coupled")
    moving.grad = torch.zeros(2)
    optimizer.step()
    assert (frozen == 1).all()
    assert (moving < 1).all()


@pytest.mark.parametrize("fused", [True, False])
@pytest.mark.parametrize(("name", "decay"), EVERY_RULE)
def test_skipped_step_does_not_decay(name, decay, fused):
    weight = torch.nn.Parameter(torch.ones(3))
    optimizer = build_optimizer([weight], SETTINGS[name], DECAY, decay, fused)
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
