"""The closed forms of weight decay against torch's own optimizers, and what can be told from measured weights."""

from itertools import product

import numpy as np
import pytest
import torch

from raybench.checks.weight_decay import DECAY, RATE, STEPS, DecayFit, in_words, judge, weights

SGD = {"name": "sgd", "learning_rate": RATE, "momentum": 0.9, "nesterov": True}
MOMENTUM = SGD | {"nesterov": False}
PLAIN = SGD | {"momentum": 0.0, "nesterov": False}
ADAM = {"name": "adam", "learning_rate": RATE, "betas": [0.9, 0.999], "eps": 1e-8}
OPTIMIZERS = [SGD, MOMENTUM, PLAIN, ADAM, ADAM | {"eps": 1e-3, "betas": [0.8, 0.95]}]
START = np.array([1.0, -1.5, 5e-7, -1.5e-6], np.float32).astype(np.float64)


def brute_force(rule, optimizer, decay):
    """The weights after each step of torch's optimizer, in double precision."""
    weight = torch.nn.Parameter(torch.from_numpy(START.copy()))
    settings = {"lr": RATE, "weight_decay": decay}
    if "momentum" in optimizer:
        steps = torch.optim.SGD([weight], momentum=optimizer["momentum"], nesterov=optimizer["nesterov"], **settings)
    else:
        kind = torch.optim.Adam if rule == "coupled" else torch.optim.AdamW
        steps = kind([weight], betas=optimizer["betas"], eps=optimizer["eps"], **settings)
    found = []
    for _ in range(STEPS):
        weight.grad = torch.zeros_like(weight)
        steps.step()
        found.append(weight.detach().numpy().copy())
    return np.stack(found)


def test_coupled_decay_is_what_torch_does():
    for optimizer, decay in product(OPTIMIZERS, [DECAY, 8 * DECAY]):
        formed, wanted = weights("coupled", optimizer, START, decay, STEPS), brute_force("coupled", optimizer, decay)
        np.testing.assert_allclose(formed, wanted, rtol=1e-9, atol=1e-18, err_msg=f"{optimizer}, {decay}")


def test_decoupled_decay_is_a_power_whatever_the_optimizer():
    power = START * (1 - RATE * DECAY) ** np.arange(1, STEPS + 1)[:, None]
    for optimizer in OPTIMIZERS:
        assert np.allclose(weights("decoupled", optimizer, START, DECAY, STEPS), power, rtol=1e-12)
    assert np.allclose(brute_force("decoupled", ADAM, DECAY), power, rtol=1e-9)


def test_several_strengths_at_once():
    strengths = DECAY * np.array([0.0, 1.0, 8.0])
    together = weights("coupled", SGD, START, strengths[:, None], STEPS)
    for place, strength in enumerate(strengths):
        assert np.array_equal(together[:, place], weights("coupled", SGD, START, strength, STEPS))


RULES = ("coupled", "decoupled")
FACTORS = (1.0, 2.0, 8.0, 64.0, 0.5, 0.125, 0.0, -1.0)


def test_rule_and_factor_are_found():
    """Without decay both rules leave the weights alone: then the declared rule is named."""
    wrong = []
    for case in product([SGD, MOMENTUM, *OPTIMIZERS[3:]], RULES, RULES, FACTORS):
        optimizer, real, declared, factor = case
        measured = weights(real, optimizer, START, factor * DECAY, STEPS).astype(np.float32)
        verdict = judge(measured, START, declared, optimizer, DECAY)
        expected = (real == declared and factor == 1, real if factor else declared)
        right = verdict.factor == pytest.approx(factor, rel=2e-4, abs=2e-4)
        if (verdict.passed, verdict.follows) != expected or not right:
            wrong.append((case, verdict))
    assert wrong == []


def test_without_momentum_the_two_rules_are_one():
    measured = weights("decoupled", PLAIN, START, DECAY, STEPS)
    verdict = judge(measured, START, "coupled", PLAIN, DECAY)
    assert verdict.passed
    assert verdict.follows == "coupled"


def test_ten_steps_reveal_a_wrong_rule():
    like_one_step = weights("decoupled", SGD, START, 1.9 * DECAY, STEPS)
    assert judge(like_one_step[:1], START, "coupled", SGD, DECAY).passed
    verdict = judge(like_one_step, START, "coupled", SGD, DECAY)
    assert (verdict.passed, verdict.follows) == (False, "decoupled")
    assert verdict.factor == pytest.approx(1.9)


def test_only_the_expected_factor_passes():
    measured = weights("coupled", SGD, START, 8 * DECAY, STEPS)
    assert judge(measured, START, "coupled", SGD, DECAY, expected=8.0).passed
    assert not judge(measured, START, "coupled", SGD, DECAY, expected=4.0).passed


def test_weights_that_follow_no_rule():
    measured = weights("coupled", SGD, START, DECAY, STEPS)
    measured[:, 1] = START[1]  # one of them is spared
    verdict = judge(measured, START, "coupled", SGD, DECAY)
    assert (verdict.passed, verdict.follows) == (False, None)


@pytest.mark.parametrize(
    ("passed", "factor", "follows", "expected", "says"),
    [
        (True, 0.99999, "coupled", 1, "passed"),
        (True, 7.99998, "coupled", 8, "passed: acts as 8 × λ, as declared"),
        (False, 7.99998, "coupled", 1, "failed: acts as 8 × λ"),
        (False, 1, "coupled", 8, "failed: acts as 1 × λ, declared 8 × λ"),
        (False, 1, "decoupled", 1, "failed: declared coupled, acts decoupled"),
        (False, 8, "decoupled", 1, "failed: declared coupled, acts decoupled with 8 × λ"),
        (False, 0.3, None, 1, "failed: follows neither rule; coupled with 0.3 × λ comes nearest"),
    ],
)
def test_fit_in_words(passed, factor, follows, expected, says):
    assert in_words(DecayFit(passed, 0.0, factor, follows), "coupled", expected) == says
