"""The TensorFlow engine does what a plain loop does, with torch's draws and the same account of its time."""

import numpy as np
import pytest
import torch
from support.declared import part
from support.frameworks import call, remember
from support.small_training import MEAN, STD

from raybench.devices import Assignment, open_device
from raybench.engines.batch_order import Augmentation, BatchSampler
from raybench.engines.images import reflect
from raybench.engines.torch.images import AugmentationDraws, ImageAugmenter, steps_of

pytestmark = [pytest.mark.slow, pytest.mark.tensorflow]

STEPS = 6


def train(**how):
    """The same training is done once, however many tests look at it."""
    return remember("tensorflow", "tensorflow_side:trained", **how)


def losses(found):
    return [epoch["metrics"][f"{split}/loss"] for epoch in found["epochs"] for split in ("train", "val")]


def same_weights(found, wanted, tolerance):
    assert found.keys() == wanted.keys()
    for name, value in wanted.items():
        np.testing.assert_allclose(found[name], value, rtol=0, atol=tolerance, err_msg=name)


def test_epoch_equals_a_plain_loop():
    found, wanted = train(), call("tensorflow", "tensorflow_side:plain_loop")
    for epoch, steps in zip(found["epochs"], (slice(0, STEPS), slice(STEPS, None)), strict=True):
        assert epoch["metrics"]["train/loss"] == pytest.approx(np.mean(wanted["losses"][steps]), rel=1e-4)
        assert (epoch["steps"], epoch["examples"]) == (STEPS, STEPS * 32)
    loss, right = wanted["val"]
    wanted_metrics = {"loss": pytest.approx(loss, rel=1e-4), "accuracy": pytest.approx(right)}
    assert part(found["epochs"][-1]["metrics"], "val") == wanted_metrics
    same_weights(found["weights"], wanted["weights"], 1e-4)


@pytest.mark.parametrize("batch", [7, pytest.param(1000, marks=pytest.mark.exhaustive)])
def test_evaluation_counts_every_example_once(batch):
    whole, padded = (train(epochs=1, evaluation_batch_size=size) for size in (70, batch))
    assert padded["epochs"][-1]["metrics"] == pytest.approx(whole["epochs"][-1]["metrics"], rel=1e-4)


def test_first_evaluation_of_one_batch_is_compilation():
    first, second = (epoch["ledger"] for epoch in train()["epochs"])
    assert first["compile_evaluate"] > first["evaluate"]
    assert "compile_evaluate" not in second


AUGMENTED = ["flip", {"crop": 2}, {"cutout": 3}]


@pytest.mark.parametrize("augmentation", [AUGMENTED, pytest.param([], marks=pytest.mark.exhaustive)], ids=str)
def test_host_and_device_input_train_alike(augmentation):
    host, device = (train(input=where, augmentation=augmentation) for where in ("host", "device"))
    assert losses(host) == pytest.approx(losses(device), rel=1e-4)


def test_slow_loader_is_input_wait():
    """The sleep is real, once a batch."""
    found = call("tensorflow", "tensorflow_side:trained_from_a_slow_loader", seconds=0.05)
    spent = found["ledger"]
    assert spent["input_wait"] >= STEPS * 0.05
    assert spent["train"] + spent["compile"] <= found["wall"] - STEPS * 0.05


EVERY_AUGMENTATION = {"crop": 2, "flip": True, "cutout": 3}
ALONE = [{}, {"flip": True}, {"crop": 2}, {"cutout": 3}]


@pytest.mark.parametrize(
    ("augmentation", "normalized"),
    [
        (EVERY_AUGMENTATION, False),
        (EVERY_AUGMENTATION, True),
        *(pytest.param(augmentation, True, marks=pytest.mark.exhaustive) for augmentation in ALONE),
    ],
    ids=str,
)
def test_augmentation_equals_torch(augmentation, normalized):
    """TensorFlow divides by multiplying with the reciprocal, which is another last bit."""
    inputs = np.random.default_rng(0).integers(0, 256, (20, 8, 8, 3), dtype=np.uint8)
    what = Augmentation(**augmentation)
    mean, std = (MEAN, STD) if normalized else ((0.0,), (1.0,))
    order = BatchSampler(20, 20, None, (8, 8), what, seed=0).epoch()
    here = torch.device("cpu")
    (drawn,) = steps_of(AugmentationDraws.on(order, open_device("cpu", "torch", Assignment([], [], 1))))
    made = ImageAugmenter(mean, std, (8, 8), what, here, channels_last=True)
    wanted = made.finish(made.gather(torch.from_numpy(reflect(inputs, what.crop)), drawn.indices, drawn), drawn)
    drawn = {name: value.tolist() if isinstance(value, np.ndarray) else value for name, value in vars(order).items()}
    found = call(
        "tensorflow",
        "tensorflow_side:augmented",
        inputs=inputs.tolist(),
        augmentation=augmentation,
        order=drawn,
        mean=mean,
        std=std,
    )
    np.testing.assert_allclose(found, wanted.permute(0, 2, 3, 1).numpy(), rtol=2e-7 if normalized else 0, atol=0)


def test_compiled_equals_eager():
    how = {"input": "host", "augmentation": AUGMENTED}
    assert losses(train(compile=True, **how)) == pytest.approx(losses(train(**how)), rel=1e-3)


def test_only_the_first_epoch_traces():
    moving = {"name": "piecewise_linear", "points": [[0, 0.0], [1, 1.0], [3, 0.0]], "stretch": False}
    found = train(epochs=3, schedule=moving)["epochs"]
    assert [epoch["recompiles"] for epoch in found] == [2, 0, 0]
    assert found[0]["ledger"]["compile"] > 0
    assert [epoch["ledger"]["compile"] for epoch in found[1:]] == [0.0, 0.0]
    assert losses({"epochs": found}) != pytest.approx(losses(train(epochs=3)), rel=1e-3)


def test_layer_that_cannot_be_compiled():
    said = call("tensorflow", "tensorflow_side:refused_compilation")
    assert said == "Keras cannot compile slow (Dense) on this device; set compile: false"


@pytest.mark.parametrize("kind", ["floats", "words"])
def test_inputs_that_are_not_images(kind):
    assert call("tensorflow", "tensorflow_side:classified", kind=kind) > 0.9


def test_own_loss_and_metrics():
    found = call("tensorflow", "tensorflow_side:own_loss", shape="examples")
    assert found.keys() == {"loss", "distance"}
    assert found["distance"] ** 2 <= found["loss"]
    said = call("tensorflow", "tensorflow_side:own_loss", shape="mean")
    assert said == "loss has the shape []: return one number an example, [2]"
