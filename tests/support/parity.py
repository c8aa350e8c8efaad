"""Comparison of what two frameworks made of the same weights and batches (`sides/parity_side.py`)."""

import numpy as np

TOLERANCE = {
    # Rounding of float32 through about ten layers; a real difference in a layer (an epsilon, a padding) gives 1e-3 and
    # more. Measured: 2e-6 (resnet63).
    "outputs": 1e-4,
    # Measured: 4e-6 (katnoria_cnn, whose batch norms of raw pixels have sums that are large relative to their spread).
    "first loss": 1e-4,
    # Measured: 2e-4 (davidnet).
    "losses": 1e-3,
    # A max pool whose two largest values are nearly equal sends its gradient to either, and Adam's first steps follow
    # the sign of the gradient. Measured: 0.05 (davidnet). Another momentum or schedule gives a difference of about 1.
    "updates": 0.15,
    # They depend on the running statistics too, and torch divides the variance of a batch of n by n - 1, others by n.
    "trained": 0.05,
}
"""Largest relative differences between frameworks on a CPU."""


def differences(folder, reference, other):
    """The relative difference of each quantity of two sides."""
    one, two = (np.load(folder / f"{name}.npz") for name in (reference, other))
    gaps = {name: np.linalg.norm(one[name] - two[name]) / np.linalg.norm(one[name]) for name in one.files}
    losses = np.abs(one["losses"] - two["losses"]) / np.abs(one["losses"]).max()
    return gaps | {"first loss": losses[0], "losses": losses.max()}


def differing(found, factor=1, **tolerance):
    """The quantities that differ by more than a tolerance, times a factor."""
    return {name for name, bound in (TOLERANCE | tolerance).items() if not found[name] <= factor * bound}
