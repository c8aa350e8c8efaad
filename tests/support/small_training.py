"""The small training job that the tests of every engine share; NumPy alone, for each runs in its own framework."""

import numpy as np

from raybench.datasets.splits import Split

RECIPE = {
    "epochs": 2,
    "batch_size": 32,
    "optimizer": "sgd",
    "learning_rate": 0.05,
    "momentum": 0.9,
    "nesterov": True,
    "weight_decay": 1e-3,
    "decay": "coupled",
    "schedule": "constant",
    "precision": "fp32",
    "input": "device",
    "compile": False,
    "augmentation": (),
    "steps_per_epoch": None,
}


def pictures(n=210, seed=0):
    """Random pictures; the class is whether the first channel is light."""
    random = np.random.default_rng(seed)
    inputs = random.integers(0, 256, (n, 8, 8, 3), dtype=np.uint8)
    return Split(inputs, (inputs[..., 0].mean((1, 2)) > 127).astype(np.int64))
