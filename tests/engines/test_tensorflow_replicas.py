"""Replicas in TensorFlow: grouped statistics are those of separate passes, and of real devices."""

import numpy as np
import pytest
from support.frameworks import call, remember

pytestmark = [pytest.mark.slow, pytest.mark.tensorflow]


def train(**how):
    return remember("tensorflow", "tensorflow_side:trained", **how)


def metrics(found):
    return [value for epoch in found["epochs"] for value in epoch["metrics"].values()]


def apart(found, wanted):
    return max(np.abs(np.array(found["weights"][name]) - value).max() for name, value in wanted["weights"].items())


@pytest.mark.parametrize(
    ("groups", "shape", "axis"), [(4, (16, 5, 5, 3), -1), (8, (16, 6), -1), (2, (8, 3, 5, 5), 1), (1, (8, 6), -1)]
)
def test_groups_equal_separate_replicas(groups, shape, axis):
    found = call("tensorflow", "tensorflow_side:grouped_against_separate", groups=groups, shape=shape, axis=axis)
    assert found.pop("kind") == "float32"
    assert max(found.values()) < 1e-5, found


def test_statistics_stay_in_float32():
    found = call(
        "tensorflow",
        "tensorflow_side:grouped_against_separate",
        groups=4,
        shape=(16, 5, 5, 3),
        policy="mixed_bfloat16",
    )
    assert found.pop("kind") == "bfloat16"
    assert found.pop("running") < 1e-5
    assert max(found.values()) < 0.05, found


def test_replicas_change_nothing_but_batch_norm():
    whole = train(model="without_norm", batch_size=64)
    for how in ({"replication": "grouped"}, {"replication": "devices", "devices": 2}):
        found = train(model="without_norm", batch_size=64, replicas=2, **how)
        assert metrics(found) == pytest.approx(metrics(whole), rel=1e-4)
        assert apart(found, whole) < 1e-5


@pytest.mark.parametrize(
    "how",
    [
        {"input": "host", "augmentation": ["flip", {"crop": 2}], "steps_per_execution": 4},
        pytest.param({}, marks=pytest.mark.exhaustive),
    ],
    ids=["streamed in calls", "plain"],
)
def test_grouped_replicas_agree_with_devices(how):
    """Two virtual devices under MirroredStrategy; 12 steps of sums in another order leave 1e-4."""
    how = {"epochs": 2, "replicas": 2, "evaluation_batch_size": 33, **how}
    grouped = train(replication="grouped", **how)
    devices = train(replication="devices", devices=2, **how)
    assert metrics(devices) == pytest.approx(metrics(grouped), rel=1e-3)
    assert apart(devices, grouped) < 1e-4
    assert apart(train(**how | {"replicas": 1}), grouped) > 1e-2, "one replica would be another result"
    assert [epoch["recompiles"] for epoch in devices["epochs"]] == [2, 0]


def test_devices_draw_dropout_for_themselves():
    first, second = call("tensorflow", "tensorflow_side:dropped", devices=2)
    assert first != second
    assert {0.0} < set(first)


@pytest.mark.parametrize(
    ("how", "said"),
    [
        ({"replicas": 5, "replication": "grouped"}, "batch_size 32 does not divide into 5 replicas"),
        ({"replicas": 2, "replication": "devices", "devices": 2, "compile": True}, "leave compile off"),
    ],
)
def test_impossible_replicas_are_refused(how, said):
    assert said in call("tensorflow", "tensorflow_side:refused", **how)
