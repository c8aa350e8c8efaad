"""Comparison of two frameworks that trained from the same weights and batches.

Every difference is relative: of an array, the norm of the difference relative to the norm of the reference; of losses,
the largest difference relative to the largest loss of the reference. Each row has its own tolerance
(`PARITY_TOLERANCE`, or the workload's own value).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from raybench.engines.weights import Mismatch, Weights, renamed, under

if TYPE_CHECKING:
    from raybench.datasets.splits import Array

FLOOR = 1e-3
"""Minimum norm of an array, relative to the largest norm, in a relative difference.

A bias before a batch norm, for example, has a gradient of nothing but rounding error."""

TINY = 1e-30
"""Replacement for a norm of zero."""

PARITY_TOLERANCE: Mapping[str, float] = {
    # Rounding of float32 through about ten layers; frameworks add in different orders. A real difference in a layer (an
    # epsilon, a padding, an activation) gives 1e-3 and more. Measured: 2e-6 (resnet63).
    "outputs": 1e-4,
    # Measured: 4e-6 (katnoria_cnn, whose batch norms of raw pixels have sums that are large relative to their spread).
    "first_loss": 1e-4,
    # Measured: 2e-4 (davidnet).
    "losses": 1e-3,
    # A max pool whose two largest values are nearly equal sends its gradient to either, and Adam's first steps follow
    # the sign of the gradient. Measured: 0.05 (davidnet). Another momentum or schedule gives a difference of about 1.
    "updates": 0.15,
    # They depend on the running statistics too, and torch divides the variance of a batch of n by n - 1, others by n.
    "trained": 0.05,
}
"""Largest relative differences between frameworks.

The measured values are the largest differences of the built-in workloads between torch, TensorFlow and torch_xla on a
CPU, with batches of 16 and of 128."""


@dataclass(frozen=True)
class SideMeasurement:
    """The results of one framework from the reference's weights and batches.

    Attributes:
        parameters: number of trained values.
        mismatch: the reason why it cannot load the reference's weights; then there are no arrays.
        arrays: `outputs/` before and `trained/` after the steps, `losses`, and by layer `updates/…`.
    """

    framework: str
    parameters: int
    mismatch: str | None
    arrays: Mapping[str, Array]

    def under(self, prefix: str) -> dict[str, Array]:
        """The arrays named `prefix/…`, without the prefix."""
        return under(prefix, self.arrays)


@dataclass(frozen=True)
class ParityRow:
    """One compared quantity.

    Attributes:
        difference: None if it is not a number; then `note` describes it.
        tolerance: the largest allowed difference.
    """

    what: str
    difference: float | None
    tolerance: float
    note: str = ""

    @property
    def same(self) -> bool:
        """Return whether the difference is within the tolerance."""
        return self.difference is not None and self.difference <= self.tolerance


def compare(reference: SideMeasurement, other: SideMeasurement, tolerance: Mapping[str, float]) -> Iterator[ParityRow]:
    """Compare all quantities that two frameworks have computed.

    Args:
        tolerance: by the names of `PARITY_TOLERANCE`.
    """
    counts = dict.fromkeys([f"{reference.parameters:,}", f"{other.parameters:,}"])
    yield ParityRow("parameters", abs(reference.parameters - other.parameters), 0.0, " and ".join(counts))
    if other.mismatch:
        yield ParityRow("layers", None, 0.0, other.mismatch)
        return
    shapes = ["×".join(map(str, side.arrays["outputs/"].shape)) for side in (reference, other)]
    if len(set(shapes)) > 1:
        yield ParityRow("outputs", None, tolerance["outputs"], " and ".join(shapes))
    else:
        yield _line("outputs", reference.under("outputs"), other.under("outputs"), tolerance["outputs"])
    steps = len(reference.arrays["losses"])
    yield _losses("first loss", reference, other, 1, tolerance["first_loss"])
    yield _losses(f"first {steps} losses", reference, other, steps, tolerance["losses"])
    updates = reference.under("updates")
    update_pair = _as_one(updates), _as_one(renamed(other.under("updates"), updates))
    yield _line(f"updates of {steps} steps", *update_pair, tolerance["updates"])
    trained = f"outputs after {steps} steps"
    yield _line(trained, reference.under("trained"), other.under("trained"), tolerance["trained"])


def _losses(
    quantity: str, reference: SideMeasurement, other: SideMeasurement, steps: int, tolerance: float
) -> ParityRow:
    losses, other_losses = reference.arrays["losses"], other.arrays["losses"]
    return _judged(quantity, float(np.abs(losses - other_losses)[:steps].max() / np.abs(losses).max()), tolerance, "")


def _as_one(arrays: Weights) -> Weights:
    """Concatenate all arrays, so that parameters with small updates have little weight."""
    return {"": np.concatenate([array.ravel() for array in arrays.values()])}


def _line(quantity: str, reference: Weights, other: Weights, tolerance: float) -> ParityRow:
    """The largest difference among arrays, with the array's name as note."""
    try:
        partners = renamed(other, reference)
    except Mismatch as error:
        return ParityRow(quantity, None, tolerance, str(error))
    norms = {name: float(np.linalg.norm(array)) for name, array in reference.items()}
    floor = max(FLOOR * max(norms.values(), default=0.0), TINY)
    gaps = {name: float(np.linalg.norm(reference[name] - partners[name])) / max(norms[name], floor) for name in norms}
    worst = max(gaps, key=lambda name: gaps[name] if math.isfinite(gaps[name]) else math.inf, default="")
    return _judged(quantity, gaps.get(worst, 0.0), tolerance, worst)


def _judged(quantity: str, difference: float, tolerance: float, note: str) -> ParityRow:
    if math.isfinite(difference):
        return ParityRow(quantity, difference, tolerance, note)
    return ParityRow(quantity, None, tolerance, f"{note}: not finite".removeprefix(": "))
