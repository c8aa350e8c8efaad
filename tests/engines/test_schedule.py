"""Schedules of the learning rate, those of the shipped workloads as they were published."""

import math

import pytest

from raybench import workloads
from raybench.engines.learning_rate import schedule

DAVIDNET, MNIST = (workloads.get(name).defaults for name in ("davidnet", "mnist_cnn"))


def test_davidnets_learning_rate_as_published():
    factor = schedule(DAVIDNET["schedule"], 97, 97 * DAVIDNET["epochs"])
    rates = [DAVIDNET["learning_rate"] * factor(step) for step in (0, 97 * 5 - 1, 97 * 14 + 48, 97 * 24 - 1)]
    assert rates == pytest.approx([0.4 / (97 * 5), 0.4, 0.4 * (24 - (97 * 14 + 49) / 97) / 19, 0.0])


def test_stretch_keeps_the_shape_for_another_length():
    factor = schedule(DAVIDNET["schedule"], 10, 480)
    assert factor(10 * 10 - 1) == pytest.approx(1.0)
    unstretched = schedule({**DAVIDNET["schedule"], "stretch": False}, 10, 480)
    assert unstretched(10 * 5 - 1) == pytest.approx(1.0)
    assert unstretched(10 * 30) == 0.0


def test_mnists_learning_rate_as_published():
    factor = schedule(MNIST["schedule"], 234, 234 * MNIST["epochs"])
    for step in (0, 1, 2000, 5615):
        assert MNIST["learning_rate"] * factor(step) == pytest.approx(1e-4 + 1e-2 * math.exp(-step / 2000), rel=1e-12)


def test_constant():
    assert schedule("constant", 1, 1)(10**6) == 1.0


def test_cosine_with_warmup():
    factor = schedule({"name": "cosine", "warmup_ratio": 0.2, "floor": 0.1}, 10, 50)
    assert [factor(step) for step in (0, 9, 29, 49, 99)] == pytest.approx([0.1, 1.0, 0.55, 0.1, 0.1])
    assert schedule({"name": "cosine", "warmup_ratio": 0.0, "floor": 0.0}, 4, 4)(1) == pytest.approx(0.5)
