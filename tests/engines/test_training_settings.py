"""Settings of training and evaluation beyond the plain loop, each against what it is said to be."""

import copy
from functools import partial

import numpy as np
import pytest
import torch
from support.frameworks import call
from support.small_training import RECIPE, pictures

from raybench.core.job import Recipe
from raybench.core.ledger import Ledger
from raybench.datasets.splits import Data, Split
from raybench.devices import Assignment, open_device
from raybench.engines import EngineParts, open_engine
from raybench.engines.images import AugmentedViews
from raybench.engines.torch.lookahead import Lookahead
from raybench.engines.torch.losses import cross_entropy
from raybench.engines.torch.test_time_augmentation import averaged, views
from raybench.workloads.base import Workload


def network():
    return torch.nn.Sequential(
        torch.nn.Conv2d(3, 8, 3, padding=1),
        torch.nn.BatchNorm2d(8),
        torch.nn.ReLU(),
        torch.nn.Flatten(),
        torch.nn.Linear(8 * 64, 2),
    )


WORKLOAD = Workload(model=network, dataset="digits", mean=(120.0, 125.0, 130.0), std=(60.0, 61.0, 62.0), name="test")
GROUPS = [
    {"match": "1.bias", "rate_factor": 4.0, "decay_factor": 0.5},
    {"match": "0.*", "rate_factor": 1.0, "decay_factor": 1.0, "epochs": 1},
]


def make_engine(workload=WORKLOAD, data=None, **changes):
    recipe = Recipe(**(RECIPE | changes))
    device = open_device("cpu", "torch", Assignment([], [], torch.get_num_threads()))
    engine = open_engine("torch", EngineParts(recipe, workload, device, Ledger(), seed=3))
    engine.load(data or Data(pictures(), pictures(70, seed=1)))
    engine.build()
    return engine


def state(engine):
    return {name: value.detach().float().numpy().copy() for name, value in engine.model.state_dict().items()}


# Epochs that are no whole number


TENSORFLOW = pytest.param("tensorflow", marks=[pytest.mark.slow, pytest.mark.tensorflow])


@pytest.mark.parametrize("framework", ["torch", TENSORFLOW])
@pytest.mark.parametrize("where", ["device", "host"])
def test_the_last_epoch_of_a_fraction_is_shorter(framework, where):
    """2.4 epochs of 6 steps are 14.4, which is 15: two of 6 and one of 3; the same steps as those of 2.5 epochs."""
    if framework == "torch":
        engine = make_engine(epochs=2.4, input=where)
        found = [engine.train_epoch(epoch) for epoch in (1, 2, 3)]
        told = [[one.steps, one.examples, one.new_shapes] for one in found]
    else:
        told = call("tensorflow", "tensorflow_side:a_fraction", epochs=2.4, input=where, steps_per_execution=4)
    assert told == [[6, 192, 1], [6, 192, 0], [3, 96, 0]]


def test_a_fraction_trains_as_the_same_steps_of_a_longer_run():
    schedule = {"name": "piecewise_linear", "points": [[0, 1.0], [4, 0.0]], "stretch": False}
    short, long = (make_engine(epochs=epochs, schedule=schedule) for epochs in (1.5, 4))
    for epoch in (1, 2):
        short.train_epoch(epoch)
    order = long._order.epoch
    long._order.epoch = lambda: cut(order())

    def cut(epoch, left=iter((6, 3))):  # noqa: B008 - one iterator over both epochs
        steps = next(left)
        values = [None if drawn is None else drawn[:steps] for drawn in vars(epoch).values()]
        return type(epoch)(*values)

    for epoch in (1, 2):
        long.train_epoch(epoch)
    for one, other in zip(state(short).values(), state(long).values(), strict=True):
        np.testing.assert_array_equal(one, other)


def test_a_stretched_schedule_ends_with_the_last_step_of_a_fraction():
    schedule = {"name": "piecewise_linear", "points": [[0, 1.0], [1, 0.25]], "stretch": True}
    engine = make_engine(epochs=2.4, schedule=schedule)
    for epoch in (1, 2, 3):
        engine.train_epoch(epoch)
    assert engine._optimizer.param_groups[0]["lr"] == pytest.approx(0.25 * 0.05)


# Lookahead


def test_lookahead_is_its_formula():
    """Against NumPy: weights of two types and a running statistic, over 7 steps that end between two of its own."""
    random = np.random.default_rng(0)
    model = torch.nn.BatchNorm1d(3)
    model.bias.data = model.bias.data.double()
    fast = {"weight": np.ones(3), "bias": np.zeros(3), "running_mean": np.zeros(3)}
    slow = dict(fast)
    follower = Lookahead(model, {"every": 3, "decay": 0.8, "power": 2.0}, 7)
    for step in range(1, 8):
        for name in fast:
            change = random.normal(size=3)
            fast[name] = fast[name] + change
            with torch.no_grad():
                model.get_buffer(name).add_(torch.from_numpy(change)) if name == "running_mean" else (
                    model.get_parameter(name).add_(torch.from_numpy(change))
                )
        follower.after(step)
        if step % 3 == 0:
            stays = 0.8 * (step / 7) ** 2
            slow = {name: stays * slow[name] + (1 - stays) * fast[name] for name in fast}
            fast = dict(slow)
        if step == 7:
            fast = dict(slow)
        for name, value in model.state_dict().items():
            if name in fast:
                np.testing.assert_allclose(value.numpy(), fast[name], rtol=1e-5, atol=1e-6, err_msg=f"{step} {name}")


def test_the_engine_looks_ahead_after_its_own_steps():
    settings = {"every": 4, "decay": 0.5, "power": 0.0}
    engine = make_engine(epochs=2, lookahead=settings)
    begun = state(engine)
    seen = {}

    def watch(step, after=engine._lookahead.after):
        seen[step] = state(engine)
        after(step)

    engine._lookahead.after = watch
    for epoch in (1, 2):
        engine.train_epoch(epoch)
    assert sorted(seen) == list(range(1, 13))
    slow = begun
    for step in (4, 8, 12):
        slow = {name: 0.5 * slow[name] + 0.5 * seen[step][name] for name in slow}
    ended = state(engine)
    for name in ("0.weight", "4.bias", "1.running_var"):
        np.testing.assert_allclose(ended[name], slow[name], rtol=1e-5, atol=1e-6)
        assert not np.allclose(ended[name], seen[12][name], atol=1e-6)


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
    engine = make_engine(workload=workload, data=Data(inputs, inputs), **(how | changes))
    begun = engine.model.weight.detach().clone()
    engine.train_epoch(1)
    return (begun - engine.model.weight.detach()).flatten() / 10


@pytest.mark.parametrize(
    ("clipping", "moved"), [(SMALL, (0.6, 0.8)), (2.5 * SMALL, (1.5, 2.0)), (10.0, (3.0, 4.0)), (None, (3.0, 4.0))]
)
@pytest.mark.parametrize("how", [{}, {"master_weights": False}, {"precision": "fp16"}], ids=["mean", "sum", "scaled"])
def test_ten_steps_with_clipped_gradients_are_their_closed_form(clipping, moved, how):
    """Of the mean loss's gradient, also where the loss is summed, and where it is scaled so that fp16 can hold it."""
    found = ten_steps([3.0, 4.0], lambda outputs, _: outputs[:, 0] * SMALL, gradient_clipping=clipping, **how)
    assert (found / SMALL).tolist() == pytest.approx(moved, rel=5e-3)


def test_a_norm_that_fp16_cannot_hold_is_clipped_too():
    low = {"precision": "fp16", "master_weights": False, "learning_rate": 0.1}
    found = ten_steps([1875.0, 1875.0], lambda outputs, _: outputs[:, 0], gradient_clipping=1.0, **low)
    assert (found / 0.1).tolist() == pytest.approx([0.7071, 0.7071], rel=0.02)


@pytest.mark.slow
@pytest.mark.tensorflow
def test_tensorflow_clips_gradients_as_torch_does():
    for clipping, moved in ((SMALL, [0.6, 0.8]), (10.0, [3.0, 4.0])):
        found = call("tensorflow", "tensorflow_side:three_and_four", clipping=clipping, small=SMALL)
        assert found == pytest.approx(moved, rel=1e-3)


@pytest.mark.slow
@pytest.mark.tensorflow
def test_rows_of_an_embedding_are_one_gradient():
    """All of a batch's examples look up one row: its gradient is 5, and that of one example alone a part of it."""
    assert call("tensorflow", "tensorflow_side:looked_up", clipping=1.0) == pytest.approx([10.0, 0.0], rel=1e-4)


@pytest.mark.parametrize("groups", [(), GROUPS])
def test_clipping_is_torch_s_own(groups):
    """Two epochs against a plain loop over the same batches."""
    engine, plain = (make_engine(parameter_groups=groups, gradient_clipping=clip) for clip in (0.05, None))
    step, seen = plain._optimizer.step, []

    def clipped(*how):
        seen.append(float(torch.nn.utils.clip_grad_norm_(plain.model.parameters(), 0.05)))
        return step(*how)

    plain._optimizer.step = clipped
    for epoch in (1, 2):
        assert engine.train_epoch(epoch).metrics == plain.train_epoch(epoch).metrics
    assert len(seen) == 12 and min(seen) > 0.05, "every step was clipped"
    for one, other in zip(state(engine).values(), state(plain).values(), strict=True):
        np.testing.assert_array_equal(one, other)


# Parameter groups


def test_groups_have_factors_of_their_own_and_end_with_their_epochs():
    """One step without a loss gradient: w ← w - rate·λ·w·(1 + momentum), with the factors of each group."""
    engine = make_engine(
        workload=Workload(
            model=network, dataset="digits", loss=lambda outputs, targets: outputs[:, 0] * 0.0, name="still"
        ),
        parameter_groups=tuple(GROUPS),
        steps_per_epoch=1,
        epochs=2,
        weight_decay=0.1,
    )
    with torch.no_grad():
        for parameter in engine.model.parameters():
            parameter.fill_(1.0)
    engine.train_epoch(1)
    shrunk = {name: 1 - value.min() for name, value in state(engine).items() if "running" not in name}
    plain = 0.05 * 0.1 * 1.9
    assert shrunk["4.weight"] == pytest.approx(plain, rel=1e-3)
    assert shrunk["1.weight"] == pytest.approx(plain, rel=1e-3), "in no group"
    assert shrunk["1.bias"] == pytest.approx(4.0 * 0.5 * plain, rel=1e-3)
    assert shrunk["0.weight"] == pytest.approx(plain, rel=1e-3), "trained in the first epoch"
    before = state(engine)
    engine.train_epoch(2)
    after = state(engine)
    assert np.array_equal(before["0.weight"], after["0.weight"]) and np.array_equal(before["0.bias"], after["0.bias"])
    assert not np.array_equal(before["4.weight"], after["4.weight"])
    assert engine._smallest is not engine.model.get_parameter("0.bias"), "which no longer tells of the last step"


def test_a_group_without_parameters_is_refused():
    with pytest.raises(ValueError, match=r"'\*\.beta' matches none of 0\.weight, 0\.bias"):
        make_engine(parameter_groups=({"match": "*.beta", "rate_factor": 1.0, "decay_factor": 1.0},))


# Label smoothing


def smoothed(outputs, targets, smoothing):
    """Cross-entropy with the target 1 - s + s / K at the class and s / K elsewhere."""
    log = outputs - np.log(np.exp(outputs).sum(1, keepdims=True))
    wanted = np.full_like(outputs, smoothing / outputs.shape[1])
    wanted[np.arange(len(targets)), targets] += 1 - smoothing
    return -(wanted * log).sum(1)


@pytest.mark.parametrize("smoothing", [0.0, 0.2, 0.9])
def test_label_smoothing_is_its_formula(smoothing):
    random = np.random.default_rng(0)
    outputs, targets = random.normal(0, 3, (50, 10)), random.integers(0, 10, 50)
    found = cross_entropy(torch.from_numpy(outputs), torch.from_numpy(targets), smoothing)
    np.testing.assert_allclose(found.numpy(), smoothed(outputs, targets, smoothing), rtol=1e-10)


@pytest.mark.slow
@pytest.mark.tensorflow
def test_label_smoothing_is_the_same_in_tensorflow():
    random = np.random.default_rng(0)
    outputs, targets = random.normal(0, 3, (50, 10)), random.integers(0, 10, 50)
    how = {"outputs": outputs.tolist(), "targets": targets.tolist(), "smoothing": 0.2}
    found = call("tensorflow", "tensorflow_side:cross_entropy_of", **how)
    np.testing.assert_allclose(found, smoothed(outputs, targets, 0.2), rtol=1e-5)


def test_labels_are_smoothed_in_training_alone():
    """Logits of 3 and -3 and nothing but the first class: log(1 + e⁻⁶), and half of the other's 6 more with 0.5."""

    def decided():
        model = torch.nn.Linear(4, 2)
        model.weight.data.zero_()
        model.bias.data = torch.tensor([3.0, -3.0])
        return model

    first = Split(np.zeros((64, 4)), np.zeros(64, int))
    workload = Workload(model=decided, data=lambda _: None, name="decided")
    engine = make_engine(workload=workload, data=Data(first, first), label_smoothing=0.5, learning_rate=1e-12)
    alone = np.log1p(np.exp(-6.0))
    assert engine.train_epoch(1).metrics["loss"] == pytest.approx(alone + 0.5 * 6.0 / 2, rel=1e-5)
    assert engine.evaluate()[0]["loss"] == pytest.approx(alone, rel=1e-4)


# Test-time augmentation


def test_views_are_the_picture_its_mirror_image_and_both_moved():
    picture = np.arange(25, dtype=np.float32).reshape(1, 1, 5, 5)
    seen = {
        tuple(view.flatten().tolist()): weight
        for weight, view in views(torch.from_numpy(picture), AugmentedViews(True, 1))
    }
    padded = np.pad(picture[0, 0], 1, mode="reflect")
    wanted = {}
    for weight, window in ((0.25, padded[1:6, 1:6]), (0.125, padded[:5, :5]), (0.125, padded[2:, 2:])):
        for image in (window, window[:, ::-1]):
            wanted[tuple(image.ravel().tolist())] = weight
    assert seen == wanted
    assert len(seen) == 6 and sum(seen.values()) == 1.0


@pytest.mark.parametrize("layout", [torch.channels_last, torch.contiguous_format])
def test_views_lie_in_memory_as_the_pictures_do(layout):
    inputs = torch.zeros(4, 3, 8, 8).contiguous(memory_format=layout)
    assert {view.stride() for _, view in views(inputs, AugmentedViews(True, 1))} == {inputs.stride()}


def test_what_is_shown_is_the_weighted_mean_of_six_outputs():
    torch.manual_seed(0)
    model = network().eval()
    inputs = torch.randn(4, 3, 8, 8)
    padded = torch.from_numpy(np.pad(inputs.numpy(), ((0, 0), (0, 0), (1, 1), (1, 1)), mode="reflect"))
    with torch.no_grad():
        half = [(model(some) + model(some.flip(3))) / 2 for some in (inputs, padded[..., :8, :8], padded[..., 2:, 2:])]
        found = averaged(model, inputs, AugmentedViews(True, 1))
    torch.testing.assert_close(found, half[0] / 2 + half[1] / 4 + half[2] / 4)


def test_only_evaluation_sees_further_views():
    both = ("flip", {"shift": 1})
    plain, viewed = make_engine(), make_engine(test_time_augmentation=both)
    assert plain.train_epoch(1).metrics == viewed.train_epoch(1).metrics
    val = pictures(70, seed=1)
    mean, std = torch.tensor(WORKLOAD.mean), torch.tensor(WORKLOAD.std)
    inputs = ((torch.from_numpy(val.inputs).float() - mean) / std).permute(0, 3, 1, 2)
    with torch.no_grad():
        outputs = averaged(viewed.model.eval(), inputs, AugmentedViews(True, 1))
    wanted = torch.nn.functional.cross_entropy(outputs, torch.from_numpy(val.targets)).item()
    assert viewed.evaluate()[0]["loss"] == pytest.approx(wanted, rel=1e-5)
    assert plain.evaluate()[0]["loss"] != pytest.approx(wanted, rel=1e-3)


@pytest.mark.slow
@pytest.mark.tensorflow
def test_views_are_the_same_in_both_frameworks():
    inputs = np.random.default_rng(0).normal(size=(2, 6, 6, 3)).astype(np.float32)
    ours = list(views(torch.from_numpy(inputs).permute(0, 3, 1, 2), AugmentedViews(True, 2)))
    theirs = call("tensorflow", "tensorflow_side:views_of", inputs=inputs.tolist(), mirror=True, shift=2)
    for (weight, view), (their_weight, their_view) in zip(ours, theirs, strict=True):
        assert weight == their_weight
        np.testing.assert_array_equal(view.permute(0, 2, 3, 1).numpy(), np.array(their_view, np.float32))


def test_outputs_with_places_have_no_views():
    with pytest.raises(ValueError, match="whose outputs are classes"):
        averaged(lambda inputs: inputs, torch.zeros(1, 3, 8, 8), AugmentedViews(True))
    values = Split(np.zeros((64, 4)), np.zeros(64, int))
    with pytest.raises(ValueError, match="for pictures"):
        make_engine(data=Data(values, values), test_time_augmentation=("flip",))


# Weights from the data, and weights in a lower precision


def test_a_workload_sets_weights_from_the_first_examples():
    given = []

    def initialize(model, examples):
        inputs, targets = examples(5)
        given.append((inputs, targets))
        model[4].bias.copy_(inputs.mean(dim=(0, 2, 3))[:2])

    workload = copy.copy(WORKLOAD)
    object.__setattr__(workload, "initialize", initialize)
    engine = make_engine(workload=workload, augmentation=({"crop": 2}, "flip"))
    train = pictures()
    wanted = (train.inputs[:5] - np.array(WORKLOAD.mean)) / np.array(WORKLOAD.std)
    ((inputs, targets),) = given
    np.testing.assert_allclose(inputs.permute(0, 2, 3, 1).numpy(), wanted, rtol=1e-5, atol=1e-6)
    assert targets.tolist() == train.targets[:5].tolist()
    np.testing.assert_allclose(state(engine)["4.bias"], wanted.mean((0, 1, 2))[:2], rtol=1e-4)


@pytest.mark.slow
@pytest.mark.tensorflow
def test_a_workload_sets_weights_in_tensorflow_too():
    wanted = (pictures().inputs[:5] - np.array(WORKLOAD.mean)) / np.array(WORKLOAD.std)
    theirs = call("tensorflow", "tensorflow_side:initialized", count=5)
    np.testing.assert_allclose(theirs["inputs"], wanted, rtol=1e-5, atol=1e-6)
    assert theirs["kept"]


@pytest.mark.parametrize("precision", ["bf16", pytest.param("fp16", marks=pytest.mark.slow)])
def test_without_master_weights_all_but_batch_norms_are_low_and_learn(precision):
    engine = make_engine(precision=precision, master_weights=False, data=Data(pictures(320), pictures(64, seed=1)))
    kinds = {name: parameter.dtype for name, parameter in engine.model.named_parameters()}
    low = {"bf16": torch.bfloat16, "fp16": torch.float16}[precision]
    assert kinds == {
        name: torch.float32 if name.startswith("1.") else low
        for name in ("0.weight", "0.bias", "1.weight", "1.bias", "4.weight", "4.bias")
    }
    assert engine.precision()["compute"] == str(low).removeprefix("torch.")
    losses = [engine.train_epoch(epoch).metrics["loss"] for epoch in range(1, 6)]
    assert losses[-1] < 0.7 * losses[0]
    assert engine.model[0].weight.grad.dtype == low


@pytest.mark.parametrize("decay", ["coupled", "decoupled"])
def test_a_summed_loss_is_the_same_training_as_its_mean(decay):
    """In fp32, where nothing is rounded away, what `master_weights: false` does is seen alone."""
    mean, summed = (make_engine(decay=decay, weight_decay=0.05, master_weights=kept) for kept in (True, False))
    for epoch in (1, 2):
        one, other = (engine.train_epoch(epoch).metrics["loss"] for engine in (mean, summed))
        assert one == pytest.approx(other, rel=1e-4)
    for name, value in state(mean).items():
        np.testing.assert_allclose(value, state(summed)[name], rtol=1e-3, atol=1e-4, err_msg=name)


def test_a_small_gradient_that_a_mean_would_lose_moves_a_low_weight():
    """Of a gradient of 5e-7 an example, a thirty-second part is 0 in fp16."""
    assert torch.tensor(5e-7 / 32, dtype=torch.float16) == 0.0
    workload = Workload(
        model=partial(torch.nn.Linear, 1, 1, bias=False),
        data=lambda _: None,
        loss=lambda outputs, targets: outputs[:, 0] * 5e-7,
        metrics=lambda outputs, targets: {},
        name="faint",
    )
    ones = Split(np.ones((64, 1)), np.zeros(64, int))
    engine = make_engine(workload=workload, data=Data(ones, ones), precision="fp16", master_weights=False)
    engine.train_epoch(1)
    assert engine.model.weight.grad.item() == pytest.approx(32 * 5e-7, rel=0.1)
