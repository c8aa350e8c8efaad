"""The torch_xla engine trains as torch does, and every step is the same graph."""

import numpy as np
import pytest
from support.frameworks import call, remember

pytestmark = [pytest.mark.slow, pytest.mark.xla]

SGD = {"optimizer": "sgd", "learning_rate": 0.05, "momentum": 0.9, "nesterov": True}
ADAM = {"optimizer": "adam", "learning_rate": 0.003, "betas": [0.9, 0.999], "eps": 1e-8}
FORGETFUL = {"optimizer": "adam", "learning_rate": 0.003, "betas": [0.01, 0.05], "eps": 1e-8}
AUGMENTED = ["flip", {"crop": 2}, {"cutout": 3}]
TRIANGLE = {"name": "piecewise_linear", "points": [[0, 0], [1, 1], [2, 1], [3, 0]], "stretch": False}


def train(**how):
    """The same training is done once, however many tests look at it."""
    return remember("torch_xla", "xla_side:train", **how)


def losses(found):
    return [epoch["metrics"][f"{split}/loss"] for epoch in found["epochs"] for split in ("train", "val")]


def same(found, wanted, tolerance):
    """Equal losses and weights; torch_xla alone divides the running variance by n."""
    assert losses(found) == pytest.approx(losses(wanted), rel=tolerance)
    for epoch, other in zip(found["epochs"], wanted["epochs"], strict=True):
        accuracies = [each["metrics"]["train/accuracy"] for each in (epoch, other)]
        assert accuracies[0] == pytest.approx(accuracies[1], abs=0.011)
    for name, value in wanted["weights"].items():
        loose = 1e-2 if name.endswith("running_var") else tolerance
        np.testing.assert_allclose(found["weights"][name], value, rtol=loose, atol=loose, err_msg=name)


@pytest.mark.parametrize(
    ("optimizer", "decay"),
    [
        (SGD, "coupled"),
        (ADAM | {"optimizer": "adamw"}, "decoupled"),
        pytest.param(SGD | {"nesterov": False}, "decoupled", marks=pytest.mark.exhaustive),
        pytest.param(SGD | {"momentum": 0.0, "nesterov": False}, "coupled", marks=pytest.mark.exhaustive),
        pytest.param(ADAM, "coupled", marks=pytest.mark.exhaustive),
    ],
    ids=lambda value: value if isinstance(value, str) else value["optimizer"],
)
def test_same_losses_and_weights_as_torch(optimizer, decay):
    how = {**optimizer, "decay": decay, "weight_decay": 0.02, "augmentation": AUGMENTED}
    same(train(**how), train(kind="cpu", **how), 2e-4)


def test_fractional_epoch_and_label_smoothing_equal_torch():
    how = {
        "epochs": 1.5,
        "augmentation": [{"crop": 2}, "flip"],
        "label_smoothing": 0.2,
        "evaluation_batch_size": 33,
    }
    found = train(**how)
    same(found, train(kind="cpu", **how), 2e-4)
    assert [epoch["steps"] for epoch in found["epochs"]] == [6, 3]


@pytest.mark.parametrize(
    "how",
    [
        {"augmentation": AUGMENTED, "input": "host", "dropout": 0.4, "precision": "bf16"},
        {"schedule": TRIANGLE, "epochs": 4, **FORGETFUL, "steps_per_epoch": 9},
        *(
            pytest.param(how, marks=pytest.mark.exhaustive)
            for how in (
                {"augmentation": AUGMENTED, "weight_decay": 0.0, "evaluation_batch_size": 32},
                {"schedule": TRIANGLE, "epochs": 4, "decay": "decoupled"},
                {"batch_size": 210, "steps_per_epoch": 1, "channels_last": True},
            )
        ),
    ],
    ids=["host, dropout, bf16", "corrections of 1", "no decay", "a rate of 0 and of 1", "one step"],
)
def test_one_graph_each_for_training_and_evaluation(how):
    found = train(**how)
    graphs = [epoch["recompiles"] for epoch in found["epochs"]]
    assert graphs == [2] + [0] * (len(graphs) - 1)
    assert all(np.isfinite(losses(found)))


def test_compilation_in_the_ledger():
    found = train(epochs=3)
    count, seconds = found["compiled"]
    assert count == 2
    ledger = found["ledger"]
    assert ledger["compile"] + ledger["compile_evaluate"] == pytest.approx(seconds, abs=1e-4)
    for section in ("compile", "compile_evaluate"):
        assert [epoch["ledger"].get(section, 0.0) > 0 for epoch in found["epochs"]] == [True, False, False]
    assert sum(found["ledger"].values()) == pytest.approx(found["wall"], abs=1e-4)


@pytest.mark.parametrize("augmentation", [AUGMENTED, pytest.param([], marks=pytest.mark.exhaustive)], ids=str)
def test_host_and_device_input_train_alike(augmentation):
    device = train(augmentation=augmentation)
    host = train(augmentation=augmentation, input="host")
    assert losses(host) == pytest.approx(losses(device), rel=1e-5)
    assert host["ledger"]["input_wait"] > 0


def test_bf16_keeps_weights_in_float32():
    low, full, torch = train(precision="bf16"), train(), train(kind="cpu", precision="bf16")
    assert low["dtypes"] == ["torch.float32"]
    assert losses(low) != pytest.approx(losses(full), rel=1e-5)
    assert losses(low) == pytest.approx(losses(torch), rel=0.05)


def test_seed_decides_dropout():
    once, again, other = (call("torch_xla", "xla_side:train", dropout=0.4, epochs=1, seed=seed) for seed in (3, 3, 4))
    assert losses(once) == losses(again)
    assert losses(once) != losses(other)
    assert losses(once) != losses(train(seed=3))[:2]


@pytest.mark.parametrize(("devices", "where"), [(2, "host"), pytest.param(8, "device", marks=pytest.mark.exhaustive)])
def test_spmd_equals_one_device(devices, where):
    how = {"augmentation": AUGMENTED, "evaluation_batch_size": 33, "input": where}
    found = train(devices=devices, **how)
    same(found, train(**how), 1e-5)
    assert [epoch["recompiles"] for epoch in found["epochs"]] == [2, 0]


def test_grouped_replicas_equal_torch():
    how = {"augmentation": AUGMENTED, "replicas": 4}
    found = train(**how)
    same(found, train(kind="cpu", **how), 2e-4)
    assert losses(found) != pytest.approx(losses(train(augmentation=AUGMENTED)), rel=1e-3)
    assert [epoch["recompiles"] for epoch in found["epochs"]] == [2, 0]


@pytest.mark.parametrize("replicas", [4, pytest.param(8, marks=pytest.mark.exhaustive)])
def test_spmd_replicas_equal_groups(replicas):
    how = {"replicas": replicas, "precision": "bf16", "decay_rule": "sum_over_replicas"}
    found = train(devices=8, **how)
    same(found, train(**how), 1e-2)
    assert [epoch["recompiles"] for epoch in found["epochs"]] == [2, 0]


def test_spmd_replicas_exchange_sums_only():
    """No example and no activation of another device: as processes that average their gradients."""
    how = {"replicas": 8, "augmentation": AUGMENTED, "batch_size": 64}
    assert call("torch_xla", "xla_side:exchanged", **how) == ["all-reduce"]


def test_missing_devices():
    with pytest.raises(AssertionError, match="RuntimeError: planned for 4 devices, and XLA has 2"):
        train(devices=4, there=2)
