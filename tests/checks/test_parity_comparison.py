"""What two frameworks made of the same weights, judged line by line."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from raybench.checks.parity_comparison import PARITY_TOLERANCE, ParityRow, SideMeasurement, compare

RNG = np.random.default_rng(0)
ARRAYS: dict[str, Any] = {
    "outputs/": RNG.normal(size=(4, 3)),
    "losses": np.array([2.0, 1.5, 1.0]),
    "updates/a.weight": RNG.normal(size=6),
    "updates/b.weight": 1e-6 * RNG.normal(size=6),
    "trained/": RNG.normal(size=(4, 3)),
}
TORCH = SideMeasurement("torch", 12, None, ARRAYS)


def lines(**changes: Any) -> dict[str, ParityRow]:
    """The lines of a framework that made the same but for these arrays (`outputs_` is `outputs/`)."""
    arrays = ARRAYS | {name.replace("__", "/"): array for name, array in changes.items()}
    return {line.what: line for line in compare(TORCH, SideMeasurement("other", 12, None, arrays), PARITY_TOLERANCE)}


def test_the_same_is_the_same_in_every_line() -> None:
    found = lines()
    assert list(found) == [
        "parameters",
        "outputs",
        "first loss",
        "first 3 losses",
        "updates of 3 steps",
        "outputs after 3 steps",
    ]
    assert all(line.same and line.difference == 0 for line in found.values())


def test_each_line_judges_its_own() -> None:
    other = lines(outputs__=ARRAYS["outputs/"] * 1.01, losses=ARRAYS["losses"] + [0.0, 0.0, 0.1])
    assert {what for what, line in other.items() if not line.same} == {"outputs", "first 3 losses"}
    assert other["outputs"].difference == pytest.approx(0.01)
    assert other["first 3 losses"].difference == pytest.approx(0.05), "against the largest of the losses"


def test_workloads_own_tolerance() -> None:
    other = SideMeasurement("other", 12, None, ARRAYS | {"losses": ARRAYS["losses"] + [0.0, 0.0, 0.1]})
    for tolerance, same in ((0.06, True), (0.04, False)):
        found = list(compare(TORCH, other, {**PARITY_TOLERANCE, "losses": tolerance}))
        assert [line.same for line in found] == [same if line.what == "first 3 losses" else True for line in found]


def test_what_is_not_finite_differs() -> None:
    found = lines(losses=np.array([2.0, np.nan, np.inf]), outputs__=np.full((4, 3), np.nan))
    assert found["first loss"].same
    assert (found["first 3 losses"].difference, found["first 3 losses"].note) == (None, "not finite")
    assert not found["first 3 losses"].same and not found["outputs"].same


def test_outputs_of_different_shapes() -> None:
    found = lines(outputs__=np.zeros((4, 5)))
    assert (found["outputs"].note, found["outputs"].same) == ("4×3 and 4×5", False)


def test_weights_that_do_not_fit_end_the_comparison() -> None:
    found = list(
        compare(TORCH, SideMeasurement("other", 10, "layer 2 with weights: b against dense", {}), PARITY_TOLERANCE)
    )
    assert [(line.what, line.same, line.note) for line in found] == [
        ("parameters", False, "12 and 10"),
        ("layers", False, "layer 2 with weights: b against dense"),
    ]
