"""The TensorFlow engine does what a plain loop does, with torch's draws and the same account of its time."""

import numpy as np
import pytest
import torch
from support.frameworks import call, remember

from raybench.devices import Assignment, open_device
from raybench.engines.batch_order import Augmentation, BatchSampler
from raybench.engines.images import reflect
from raybench.engines.torch.images import AugmentationDraws, ImageAugmenter, steps_of

pytestmark = [pytest.mark.slow, pytest.mark.tensorflow]

MEAN, STD = (120.0, 125.0, 130.0), (60.0, 61.0, 62.0)
STEPS = 6


def train(**how):
    """The same training is done once, however many tests look at it."""
    return remember("tensorflow", "tensorflow_side:trained", **how)


def losses(found):
    return [epoch[split]["loss"] for epoch in found["epochs"] for split in ("train", "val")]


def same_weights(found, wanted, tolerance):
    assert found.keys() == wanted.keys()
    for name, value in wanted.items():
        np.testing.assert_allclose(found[name], value, rtol=0, atol=tolerance, err_msg=name)


def test_an_epoch_is_what_a_plain_loop_does():
    found, wanted = train(), call("tensorflow", "tensorflow_side:plain_loop")
    for epoch, part in zip(found["epochs"], (slice(0, STEPS), slice(STEPS, None)), strict=True):
        assert epoch["train"]["loss"] == pytest.approx(np.mean(wanted["losses"][part]), rel=1e-4)
        assert (epoch["steps"], epoch["examples"]) == (STEPS, STEPS * 32)
    loss, right = wanted["val"]
    assert found["epochs"][-1]["val"] == {"loss": pytest.approx(loss, rel=1e-4), "accuracy": pytest.approx(right)}
    same_weights(found["weights"], wanted["weights"], 1e-4)


@pytest.mark.parametrize("batch", [7, 1000])
def test_evaluation_counts_every_example_once_whatever_its_batch(batch):
    whole, padded = (train(epochs=1, evaluation_batch_size=size) for size in (70, batch))
    assert padded["epochs"][-1]["val"] == pytest.approx(whole["epochs"][-1]["val"], rel=1e-4)


def test_the_first_evaluation_of_one_batch_is_compiled_before_it():
    first, second = (epoch["ledger"] for epoch in train()["epochs"])
    assert first["compile_evaluate"] > first["evaluate"]
    assert "compile_evaluate" not in second


AUGMENTED = ["flip", {"crop": 2}, {"cutout": 3}]


@pytest.mark.parametrize(
    ("steps", "augmentation"),
    [
        (4, AUGMENTED),
        pytest.param(1, [], marks=pytest.mark.exhaustive),
        pytest.param(4, [], marks=pytest.mark.exhaustive),
        pytest.param(1, AUGMENTED, marks=pytest.mark.exhaustive),
    ],
)
def test_host_and_device_input_train_alike_however_many_steps_a_call_has(augmentation, steps):
    wanted = train(augmentation=augmentation)
    for where in ("device", "host"):
        found = train(input=where, augmentation=augmentation, steps_per_execution=steps)
        assert losses(found) == pytest.approx(losses(wanted), rel=1e-4)
        assert (found["epochs"][0]["ledger"]["input_wait"] > 0) == (where == "host")


def test_batches_of_the_host_are_copied_to_the_device_in_advance():
    found = call("tensorflow", "tensorflow_side:prefetched_to_another_device")
    assert found == {"devices": ["CPU:1"], "equal": True, "tensors": 12}


def test_a_slow_loader_is_input_wait():
    """The sleep is real, once a batch."""
    found = call("tensorflow", "tensorflow_side:trained_from_a_slow_loader", seconds=0.05)
    spent = found["ledger"]
    assert spent["input_wait"] >= STEPS * 0.05
    assert spent["train"] + spent["compile"] <= found["wall"] - STEPS * 0.05


EVERY_AUGMENTATION = {"crop": 2, "flip": True, "cutout": 3}
ALONE = [{}, {"flip": True}, {"crop": 2}, {"cutout": 3}]


@pytest.mark.parametrize(
    ("augmentation", "normalised"),
    [
        (EVERY_AUGMENTATION, False),
        (EVERY_AUGMENTATION, True),
        *(pytest.param(augmentation, True, marks=pytest.mark.exhaustive) for augmentation in ALONE),
    ],
    ids=str,
)
def test_augmentation_is_torchs_pixel_for_pixel(augmentation, normalised):
    """TensorFlow divides by multiplying with the reciprocal, which is another last bit."""
    inputs = np.random.default_rng(0).integers(0, 256, (20, 8, 8, 3), dtype=np.uint8)
    what = Augmentation(**augmentation)
    mean, std = (MEAN, STD) if normalised else ((0.0,), (1.0,))
    order = BatchSampler(20, 20, None, (8, 8), what, seed=0).epoch()
    here = torch.device("cpu")
    (drawn,) = steps_of(AugmentationDraws.on(order, open_device("cpu", "torch", Assignment([], [], 1))))
    made = ImageAugmenter(mean, std, (8, 8), what, here, channels_last=True)
    wanted = made.finish(made.gather(torch.from_numpy(reflect(inputs, what.crop)), drawn.index, drawn), drawn)
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
    np.testing.assert_allclose(found, wanted.permute(0, 2, 3, 1).numpy(), rtol=2e-7 if normalised else 0, atol=0)


def test_a_compiled_step_computes_what_a_plain_one_does():
    how = {"input": "host", "steps_per_execution": 4, "augmentation": AUGMENTED}
    assert losses(train(compile=True, **how)) == pytest.approx(losses(train(**how)), rel=1e-3)


@pytest.mark.exhaustive
@pytest.mark.parametrize("steps", [1, 4])
@pytest.mark.parametrize("where", ["device", "host"])
def test_a_compiled_step_is_compiled_once(steps, where):
    """XLA would compile anew for each place in an epoch that it takes for a constant; only the time shows that."""
    found = train(compile=True, input=where, steps_per_execution=steps, augmentation=["flip", {"crop": 2}])
    plain = train(input=where, augmentation=["flip", {"crop": 2}])
    assert losses(found) == pytest.approx(losses(plain), rel=1e-3)
    first = found["epochs"][0]["ledger"]
    assert first["compile"] > 0.5 * first["train"], "later calls are as slow as the first"


def test_a_moving_rate_and_later_epochs_cost_no_trace():
    moving = {"name": "piecewise_linear", "points": [[0, 0.0], [1, 1.0], [3, 0.0]], "stretch": False}
    found = train(epochs=3, schedule=moving)["epochs"]
    assert [epoch["new_shapes"] for epoch in found] == [2, 0, 0]
    assert found[0]["ledger"]["compile"] > 0
    assert [epoch["ledger"]["compile"] for epoch in found[1:]] == [0.0, 0.0]
    assert losses({"epochs": found}) != pytest.approx(losses(train(epochs=3)), rel=1e-3)


def test_an_epoch_of_one_call_takes_one_step_first_to_tell_compile_by():
    one, single = train(epochs=2, steps_per_execution=8), train(epochs=2)
    assert losses(one) == pytest.approx(losses(single), rel=1e-6)
    spent = [epoch["ledger"] for epoch in one["epochs"]]
    assert spent[0]["compile"] > spent[0]["train"] > 0 == spent[1]["compile"]


def test_an_epoch_of_one_step_has_no_median_to_tell_compile_by():
    (epoch,) = train(epochs=1, steps_per_epoch=1, evaluation_batch_size=70)["epochs"]
    assert epoch["ledger"]["compile"] == 0.0
    assert epoch["ledger"]["train"] > 0


def test_a_layer_that_cannot_be_compiled_is_named_before_the_first_step():
    said = call("tensorflow", "tensorflow_side:refused_compilation")
    assert said == "Keras cannot compile slow (Dense) on this device; set compile: false"


@pytest.mark.parametrize(
    ("steps", "epochs", "batches", "peak"), [(6, 2, 3, 300), (6, 1, 1, 300), (1, 2, 1, 300), (1, 1, 3, 1000)]
)
def test_peak_memory_is_without_the_search_for_algorithms_if_more_steps_follow(steps, epochs, batches, peak):
    found = call("tensorflow", "tensorflow_side:peak_with_a_search", steps=steps, epochs=epochs, batches=batches)
    assert found == [peak, [steps > 1 or epochs == 1, True][:epochs]]


def test_low_precision_learns():
    found = train(epochs=6, precision="bf16")["epochs"]
    assert found[-1]["train"]["loss"] < 0.7 * found[0]["train"]["loss"]


def test_low_precision_is_another_computation():
    low, full = (train(epochs=1, precision=precision)["epochs"][0]["train"]["loss"] for precision in ("bf16", "fp32"))
    assert low == pytest.approx(full, rel=0.05)
    assert low != pytest.approx(full, rel=1e-5)


@pytest.mark.parametrize("kind", ["floats", "words"])
def test_what_is_no_pictures_reaches_the_model_as_it_is(kind):
    assert call("tensorflow", "tensorflow_side:classified", kind=kind) > 0.9


def test_augmentation_is_for_pictures():
    said = call("tensorflow", "tensorflow_side:refused", floats=True, augmentation=["flip"])
    assert said.startswith("ValueError: augmentation is for pictures")


def test_a_loss_and_metrics_of_ones_own():
    found = call("tensorflow", "tensorflow_side:own_loss", shape="examples")
    assert found.keys() == {"loss", "distance"}
    assert found["distance"] ** 2 <= found["loss"]
    said = call("tensorflow", "tensorflow_side:own_loss", shape="mean")
    assert said == "loss has the shape []: return one number an example, [2]"


def test_the_published_trap_is_that_many_times_the_decay():
    trap = train(replicas=4, replication="grouped", weight_decay=0.01, decay_rule="sum_over_replicas")
    same_weights(trap["weights"], train(replicas=4, replication="grouped", weight_decay=0.04)["weights"], 1e-6)
