"""Settings of training and evaluation beyond the plain loop, each against what it is said to be."""

from functools import partial

import numpy as np
import pytest
import torch
from support.frameworks import call
from support.torch_training import training

from raybench.datasets.splits import Data, Split
from raybench.engines.torch.losses import cross_entropy
from raybench.workloads.base import Workload

# Epochs that are no whole number


TENSORFLOW = pytest.param("tensorflow", marks=[pytest.mark.slow, pytest.mark.tensorflow])


@pytest.mark.parametrize("framework", ["torch", TENSORFLOW])
@pytest.mark.parametrize("where", ["device", "host"])
def test_fractional_last_epoch_is_shorter(framework, where):
    """2.4 epochs of 6 steps are 14.4, which is 15: two of 6 and one of 3; the same steps as those of 2.5 epochs."""
    if framework == "torch":
        told = [[epoch["steps"], epoch["examples"]] for epoch in training(epochs=2.4, input=where).epochs()]
    else:
        told = call("tensorflow", "tensorflow_side:a_fraction", epochs=2.4, input=where)
    assert told == [[6, 192], [6, 192], [3, 96]]


# Clipped gradients

SMALL = 1 / 1024
"""Of a gradient that no loss scaling carries beyond what fp16 has."""


def ten_steps(example, loss, **changes):
    """How far ten steps move the two weights of a model, each with the same gradient."""
    workload = Workload(
        model=partial(torch.nn.Linear, 2, 1, bias=False),
        data=lambda _: None,
        loss=loss,
        metrics=lambda outputs, targets: {},
        name="ten_steps",
    )
    inputs = Split(np.tile(np.array(example, np.float32), (320, 1)), np.zeros(320, int))
    how = {"epochs": 1, "weight_decay": 0.0, "momentum": 0.0, "nesterov": False, "learning_rate": 1.0}
    made = training(workload, Data(inputs, inputs), **(how | changes))
    begun = made.model.weight.detach().clone()
    made.losses()
    return (begun - made.model.weight.detach()).flatten() / 10


@pytest.mark.parametrize(
    ("clipping", "moved"), [(SMALL, (0.6, 0.8)), (2.5 * SMALL, (1.5, 2.0)), (10.0, (3.0, 4.0)), (None, (3.0, 4.0))]
)
@pytest.mark.parametrize("how", [{}, {"precision": "fp16"}], ids=["fp32", "scaled"])
def test_clipping_follows_its_closed_form(clipping, moved, how):
    """Of the mean loss's gradient, also if it is scaled so that fp16 can hold it."""
    found = ten_steps([3.0, 4.0], lambda outputs, _: outputs[:, 0] * SMALL, gradient_clipping=clipping, **how)
    assert (found / SMALL).tolist() == pytest.approx(moved, rel=5e-3)


@pytest.mark.slow
@pytest.mark.tensorflow
def test_tensorflow_clips_as_torch():
    for clipping, moved in ((SMALL, [0.6, 0.8]), (10.0, [3.0, 4.0])):
        found = call("tensorflow", "tensorflow_side:three_and_four", clipping=clipping, small=SMALL)
        assert found == pytest.approx(moved, rel=1e-3)


@pytest.mark.slow
@pytest.mark.tensorflow
def test_clipping_of_an_embedding():
    """All of a batch's examples look up one row: its gradient is 5, and that of one example alone a part of it."""
    assert call("tensorflow", "tensorflow_side:looked_up", clipping=1.0) == pytest.approx([10.0, 0.0], rel=1e-4)


# Gradient accumulation


def accumulated(framework, parts):
    settings = {"gradient_accumulation": parts, "gradient_clipping": 0.1, "batch_size": 64, "weight_decay": 0.01}
    if framework != "torch":
        return call(framework, f"accumulation_side:{framework}", **settings)
    split = Split(np.random.default_rng(0).normal(size=(320, 3)), np.arange(320) % 2)
    workload = Workload(model=partial(torch.nn.Linear, 3, 2), data=lambda _: None, name="accumulated")
    made = training(workload, Data(split, split), **settings)
    return made.losses(), made.model.weight.tolist()


@pytest.mark.parametrize(
    "framework",
    [
        "torch",
        pytest.param("tensorflow", marks=[pytest.mark.slow, pytest.mark.tensorflow]),
        pytest.param("torch_xla", marks=[pytest.mark.slow, pytest.mark.xla]),
    ],
)
def test_accumulated_parts_equal_their_batch(framework):
    (whole, weights), (parts, others) = accumulated(framework, 1), accumulated(framework, 4)
    assert parts == pytest.approx(whole, rel=1e-5)
    np.testing.assert_allclose(others, weights, rtol=1e-4, atol=1e-6)
    assert whole[-1] != whole[0]


# Label smoothing


def smoothed(outputs, targets, smoothing):
    """Cross-entropy with the target 1 - s + s / K at the class and s / K elsewhere."""
    log = outputs - np.log(np.exp(outputs).sum(1, keepdims=True))
    wanted = np.full_like(outputs, smoothing / outputs.shape[1])
    wanted[np.arange(len(targets)), targets] += 1 - smoothing
    return -(wanted * log).sum(1)


@pytest.mark.parametrize("smoothing", [0.0, 0.2, 0.9])
def test_label_smoothing_follows_its_formula(smoothing):
    random = np.random.default_rng(0)
    outputs, targets = random.normal(0, 3, (50, 10)), random.integers(0, 10, 50)
    found = cross_entropy(torch.from_numpy(outputs), torch.from_numpy(targets), smoothing)
    np.testing.assert_allclose(found.numpy(), smoothed(outputs, targets, smoothing), rtol=1e-10)


@pytest.mark.slow
@pytest.mark.tensorflow
def test_label_smoothing_in_tensorflow():
    random = np.random.default_rng(0)
    outputs, targets = random.normal(0, 3, (50, 10)), random.integers(0, 10, 50)
    how = {"outputs": outputs.tolist(), "targets": targets.tolist(), "smoothing": 0.2}
    found = call("tensorflow", "tensorflow_side:cross_entropy_of", **how)
    np.testing.assert_allclose(found, smoothed(outputs, targets, 0.2), rtol=1e-5)


def test_evaluation_has_no_label_smoothing():
    """Logits of 3 and -3 and nothing but the first class: log(1 + e⁻⁶), and half of the other's 6 more with 0.5."""

    def decided():
        model = torch.nn.Linear(4, 2)
        model.weight.data.zero_()
        model.bias.data = torch.tensor([3.0, -3.0])
        return model

    first = Split(np.zeros((64, 4)), np.zeros(64, int))
    workload = Workload(model=decided, data=lambda _: None, name="decided")
    (epoch,) = training(workload, Data(first, first), label_smoothing=0.5, learning_rate=1e-12, epochs=1).epochs()
    alone = np.log1p(np.exp(-6.0))
    assert epoch["metrics"]["train/loss"] == pytest.approx(alone + 0.5 * 6.0 / 2, rel=1e-5)
    assert epoch["metrics"]["val/loss"] == pytest.approx(alone, rel=1e-4)
