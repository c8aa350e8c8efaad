"""Grids with a known truth, drawn with fixed seeds, and how often what is said of them is true."""

from itertools import product

import numpy as np

GRIDS = 2000
COVERS = (0.935, 0.98)
"""What a 95 % interval has to cover; over 2,000 grids the count itself wavers by half a percent."""

CALLS = 0.065
"""How many A/A grids may at most be called different."""


def steady(random, repeats, seconds=1.0, process=0.02, epoch=0.03, epochs=5, shape=(GRIDS,)):
    """Median epoch of each run: `seconds`, with log-normal noise of the process and of its epochs."""
    of_process = random.normal(0.0, process, (*shape, repeats, 1))
    of_epoch = random.normal(0.0, epoch, (*shape, repeats, epochs))
    return seconds * np.exp(np.median(of_process + of_epoch, axis=-1))


def covers(found, truth):
    """The share of intervals that contain the truth."""
    return np.mean([each.low <= truth <= each.high for each in found])


DEVICES, DECAYS = ["cpu", "gpu"], [1e-4, 5e-4]


def accuracies(random, device=0.0, decay=0.0, both=0.0, noise=0.15, repeats=3):
    """Accuracies in points; each effect is that of the second value."""
    return [
        (
            {"device": a, "weight_decay": b, "epochs": 24},
            92
            + device * (a == "gpu")
            + decay * (b == 5e-4)
            + both * (a == "gpu" and b == 5e-4)
            + random.normal(0, noise),
        )
        for a, b, _ in product(DEVICES, DECAYS, range(repeats))
    ]
