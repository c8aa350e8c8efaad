"""The shipped models in Keras: what was published, and torch's twin where torch came first."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from frameworks import call
from published import MODELS

from raybench import workloads
from raybench.engines.conversion import renamed
from raybench.engines.torch.inspection import read_weights

NAMES = [name for name in MODELS if "tensorflow" in workloads.get(name).frameworks]
pytestmark = pytest.mark.parametrize("name", NAMES)


def test_parameters(name: str) -> None:
    wanted = {"trained": MODELS[name].trained, "statistics": MODELS[name].statistics}
    assert call("tensorflow", "keras_models:counts", name=name) == wanted


def test_forward_flops(name: str) -> None:
    if MODELS[name].megaflops is None:
        pytest.skip("nobody has published them")
    assert call("tensorflow", "keras_models:forward_flops", name=name) == pytest.approx(
        MODELS[name].megaflops * 1e6, rel=0.01
    )


@pytest.mark.parametrize(("policy", "computed"), [("float32", "float32"), ("mixed_bfloat16", "bfloat16")])
def test_outputs_are_float32_whatever_the_policy(name: str, policy: str, computed: str) -> None:
    out = call("tensorflow", "keras_models:outputs", name=name, policy=policy)
    found = (out["shape"], out["dtype"], out["finite"], out["computed"])
    assert found == ([3, *MODELS[name].outputs], "float32", True, [computed])
    assert out["least"] >= 0 or name != "katnoria_cnn", "a ReLU is its last layer"


def test_batch_norm_is_that_of_where_it_was_published(name: str) -> None:
    for epsilon, momentum in call("tensorflow", "keras_models:norms", name=name):
        assert (epsilon, momentum) == ((1e-3, 0.99) if MODELS[name].published_in_keras else (1e-5, 0.9))


def test_each_model_is_fresh(name: str) -> None:
    assert call("tensorflow", "keras_models:is_fresh", name=name)


def test_both_frameworks_draw_from_the_same_distribution(name: str, tmp_path: Path) -> None:
    """Layer by layer: the same spread, and the same bound where a distribution has one."""
    torch.manual_seed(0)
    theirs = read_weights(workloads.get(name).build_model("torch"))
    call("tensorflow", "keras_models:initial", name=name, answers=str(tmp_path / "ours.npz"))
    with np.load(tmp_path / "ours.npz") as file:
        ours = renamed(dict(file), theirs)
    for key, values in theirs.items():
        few = 0.5 if values.size < 50 else 0.15
        assert ours[key].std() == pytest.approx(float(values.std()), rel=few), key
        assert abs(ours[key]).max() == pytest.approx(float(abs(values).max()), rel=few), key
