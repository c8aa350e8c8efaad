"""The shipped models through XLA: one step of each is torch's step, one graph for training and one for evaluation."""

from __future__ import annotations

from typing import Any

import pytest
from frameworks import call
from published import MODELS

SMALL: dict[str, dict[str, Any]] = {"resunet_v1": {"side": 32}, "resunet_v2": {"side": 32}}
"""What is chosen of a model, so that a step takes little."""

NAMES = ["resnet63", "resunet_v1", "resunet_v2", "imdb_lstm", "imdb_bilstm", "imdb_cnn"]


@pytest.mark.parametrize("name", NAMES)
def test_one_step_is_that_of_torch(name: str) -> None:
    ours, theirs = (
        call("torch_xla", "shipped_step:step", name=name, kind=kind, **SMALL.get(name, {}))
        for kind in ("cpu", "xla_cpu")
    )
    assert theirs["trained"] == ours["trained"] == MODELS[name].trained
    assert theirs["losses"] == pytest.approx(ours["losses"], rel=1e-3)
    assert theirs["graphs"] == [1, 1]
    assert theirs["moved"].keys() == ours["moved"].keys()
    whole = sum(ours["moved"].values())
    apart = sum(abs(theirs["moved"][key] - ours["moved"][key]) for key in ours["moved"])
    assert apart < 0.01 * whole, "and a step does move the weights"
