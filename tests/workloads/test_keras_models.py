"""The shipped models in Keras: what was published, and torch's twin where torch came first."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from support.frameworks import call
from support.published import MODELS
from support.weights import read, renamed

from raybench import workloads

NAMES = [name for name in MODELS if "tensorflow" in workloads.get(name).frameworks]
LARGE = ["resnet63", "gpt"]
CASES = [pytest.param(name, marks=[pytest.mark.exhaustive] * (name in LARGE)) for name in NAMES]

pytestmark = [pytest.mark.slow, pytest.mark.tensorflow]


@pytest.mark.parametrize("name", CASES)
def test_keras_model_as_published_and_as_in_torch(name: str, tmp_path: Path) -> None:
    known = MODELS[name]
    found = call("tensorflow", "keras_models:about", name=name, weights=str(tmp_path / "initial.npz"))
    assert found["counts"] == {"trained": known.trained, "statistics": known.statistics}
    if known.megaflops is not None:
        assert found["forward_flops"] == pytest.approx(known.megaflops * 1e6, rel=0.01)
    for epsilon, momentum in found["norms"]:
        assert (epsilon, momentum) == ((1e-3, 0.99) if known.published_in_keras else (1e-5, 0.9))
    assert found["is_fresh"]
    check_outputs(name, found["outputs"], "float32")
    compare_with_torch(name, tmp_path / "initial.npz")


@pytest.mark.parametrize(
    "name", ["digits_cnn", *(pytest.param(n, marks=pytest.mark.exhaustive) for n in NAMES if n != "digits_cnn")]
)
def test_outputs_are_float32_under_bfloat16(name: str) -> None:
    check_outputs(name, call("tensorflow", "keras_models:outputs", name=name, policy="mixed_bfloat16"), "bfloat16")


def check_outputs(name: str, out: dict[str, Any], computed: str) -> None:
    found = (out["shape"], out["dtype"], out["finite"], out["computed"])
    assert found == ([3, *MODELS[name].outputs], "float32", True, [computed])
    assert out["least"] >= 0 or name != "katnoria_cnn", "a ReLU is its last layer"


def compare_with_torch(name: str, weights: Path) -> None:
    """Layer by layer: the same spread, and the same bound where a distribution has one."""
    torch.manual_seed(0)
    theirs = read(workloads.get(name).build_model("torch"))
    with np.load(weights) as file:
        ours = renamed(dict(file), theirs)
    for key, values in theirs.items():
        few = 0.5 if values.size < 50 else 0.15
        assert ours[key].std() == pytest.approx(float(values.std()), rel=few), key
        assert abs(ours[key]).max() == pytest.approx(float(abs(values).max()), rel=few), key
