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


MEAN, STD = (120.0, 125.0, 130.0), (60.0, 61.0, 62.0)


def pictures(n=210, seed=0):
    """Random pictures; the class is whether the first channel is light."""
    random = np.random.default_rng(seed)
    inputs = random.integers(0, 256, (n, 8, 8, 3), dtype=np.uint8)
    return Split(inputs, (inputs[..., 0].mean((1, 2)) > 127).astype(np.int64))


def torch_network(dropout=0.0):
    """A convolution with batch norm and a dense layer."""
    from torch import nn

    return nn.Sequential(
        nn.Conv2d(3, 8, 3, padding=1, bias=False),
        nn.BatchNorm2d(8),
        nn.ReLU(),
        nn.Flatten(),
        nn.Dropout(dropout),
        nn.Linear(8 * 64, 2),
    )
