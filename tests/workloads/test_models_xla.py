"""The shipped models through XLA: one step of each is torch's step, one graph for training and one for evaluation."""

from __future__ import annotations

from typing import Any

import pytest
from support.frameworks import call
from support.published import MODELS

SMALL: dict[str, dict[str, Any]] = {
    "resunet": {"side": 32},
    "imdb_lstm": {"length": 20},
    "imdb_bilstm": {"length": 20},
}
"""What makes a step small: XLA unrolls an LSTM, and compiles a hundred words for two minutes."""

AFTER = {"resnet63": 1e-2}
"""How far apart losses after a step may be, beside 1e-3: 63 layers make much of little, and torch's own moves by 1.2e-3
with the vector instructions it may use."""

NAMES = ["resnet63", "resunet", "imdb_lstm", "imdb_bilstm"]


@pytest.mark.slow
@pytest.mark.xla
@pytest.mark.parametrize("name", ["imdb_cnn", *(pytest.param(name, marks=pytest.mark.exhaustive) for name in NAMES)])
def test_one_step_equals_torch(name: str) -> None:
    ours, theirs = (
        call("torch_xla", "shipped_step:step", name=name, kind=kind, **SMALL.get(name, {}))
        for kind in ("cpu", "xla_cpu")
    )
    assert theirs["trained"] == ours["trained"] == MODELS[name].trained
    (before, after), (expected_before, expected_after) = theirs["losses"], ours["losses"]
    assert before == pytest.approx(expected_before, rel=1e-4)
    assert after == pytest.approx(expected_after, rel=AFTER.get(name, 1e-3))
    assert abs(after - before) > 5 * abs(after - expected_after)
    assert theirs["graphs"] == 2
    assert theirs["moved"].keys() == ours["moved"].keys()
    whole = sum(ours["moved"].values())
    apart = sum(abs(theirs["moved"][key] - ours["moved"][key]) for key in ours["moved"])
    assert apart < 0.01 * whole, "and a step does move the weights"
