import math

import pytest

from raybench.engines.learning_rate import schedule

DAVIDNET = {"name": "piecewise_linear", "points": [[0.0, 0.0], [5.0, 1.0], [24.0, 0.0]], "stretch": True}


def test_davidnets_schedule():
    factor = schedule(DAVIDNET, 97, 97 * 24)
    assert factor(0) == pytest.approx(1 / (97 * 5))
    assert factor(97 * 5 - 1) == pytest.approx(1.0)
    assert factor(97 * 24 - 1) == pytest.approx(0.0)
    assert factor(97 * 14 + 48) == pytest.approx((24 - (97 * 14 + 49) / 97) / 19)


def test_stretch_keeps_the_shape_for_another_length():
    factor = schedule(DAVIDNET, 10, 480)
    assert factor(10 * 10 - 1) == pytest.approx(1.0)
    unstretched = schedule({**DAVIDNET, "stretch": False}, 10, 480)
    assert unstretched(10 * 5 - 1) == pytest.approx(1.0)
    assert unstretched(10 * 30) == 0.0


def test_mnist_decays_from_its_first_step():
    factor = schedule({"name": "exponential", "decay_steps": 2000.0, "floor": 0.01}, 234, 234 * 24)
    assert 1e-2 * factor(0) == pytest.approx(1e-4 + 1e-2)
    assert 1e-2 * factor(2000) == pytest.approx(1e-4 + 1e-2 * math.exp(-1))


def test_constant():
    assert schedule("constant", 1, 1)(10**6) == 1.0


def test_cosine_with_warmup():
    factor = schedule({"name": "cosine", "warmup_ratio": 0.2, "floor": 0.1}, 10, 50)
    assert [factor(step) for step in (0, 9, 29, 49, 99)] == pytest.approx([0.1, 1.0, 0.55, 0.1, 0.1])
    assert schedule({"name": "cosine", "warmup_ratio": 0.0, "floor": 0.0}, 4, 4)(1) == pytest.approx(0.5)
