"""The shipped models in Keras: what was published, and torch's twin where torch came first."""

from __future__ import annotations

import pytest
import torch
from frameworks import call
from published import COUNTS

from raybench import workloads
from raybench.engines.torch.inspection import read_weights

NAMES = ["davidnet", "digits_cnn", "katnoria_cnn", "mnist_cnn"]


def test_every_shipped_workload_has_a_keras_model() -> None:
    assert [name for name in workloads.names() if "tensorflow" in workloads.get(name).frameworks] == NAMES


@pytest.mark.parametrize(("name", "trained", "statistics"), COUNTS)
def test_parameters(name: str, trained: int, statistics: int) -> None:
    assert call("tensorflow", "keras_models:counts", name=name) == {"trained": trained, "statistics": statistics}


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize(("policy", "computed"), [("float32", "float32"), ("mixed_bfloat16", "bfloat16")])
def test_logits_are_float32_whatever_the_policy(name: str, policy: str, computed: str) -> None:
    out = call("tensorflow", "keras_models:logits", name=name, policy=policy)
    assert (out["shape"], out["dtype"], out["finite"], out["computed"]) == ([3, 10], "float32", True, [computed])
    assert out["least"] >= 0 or name != "katnoria_cnn", "a ReLU is its last layer"


@pytest.mark.parametrize("name", NAMES)
def test_batch_norm_is_that_of_where_it_was_published(name: str) -> None:
    published_in_keras = name in ("katnoria_cnn", "mnist_cnn")
    for epsilon, momentum in call("tensorflow", "keras_models:norms", name=name):
        assert (epsilon, momentum) == ((1e-3, 0.99) if published_in_keras else (1e-5, 0.9))


@pytest.mark.parametrize("name", NAMES)
def test_each_model_is_fresh(name: str) -> None:
    assert call("tensorflow", "keras_models:is_fresh", name=name)


@pytest.mark.parametrize("name", NAMES)
def test_both_frameworks_draw_from_the_same_distribution(name: str) -> None:
    """Layer by layer: the same spread, and the same bound where a distribution has one."""
    torch.manual_seed(0)
    ours = call("tensorflow", "keras_models:initial", name=name)
    theirs = read_weights(workloads.get(name).build_model("torch"))
    assert len(ours) == len(theirs)
    for (key, (spread, most)), values in zip(ours.items(), theirs.values(), strict=True):
        few = 0.5 if values.size < 50 else 0.15
        assert spread == pytest.approx(float(values.std()), rel=few), key
        assert most == pytest.approx(float(abs(values).max()), rel=few), key
