"""Replicas in TensorFlow: grouped statistics are those of separate passes."""

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
    found = train(model="without_norm", batch_size=64, replicas=2)
    assert metrics(found) == pytest.approx(metrics(whole), rel=1e-4)
    assert apart(found, whole) < 1e-5
