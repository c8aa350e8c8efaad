"""A workload for tests of checkpoints, in both frameworks: its model draws (dropout) and keeps (running statistics)."""

import numpy as np

from raybench import Data, Split, Workload


def data(root):
    random = np.random.default_rng(0)
    inputs = random.integers(0, 256, (320, 8, 8, 3), dtype=np.uint8)
    targets = (inputs[..., 0].mean((1, 2)) > 127).astype(np.int64)
    return Data(Split(inputs[:256], targets[:256]), Split(inputs[256:], targets[256:]))


def in_torch(dropout=0.3):
    from torch import nn

    return nn.Sequential(
        nn.Conv2d(3, 8, 3, padding=1),
        nn.BatchNorm2d(8),
        nn.ReLU(),
        nn.Flatten(),
        nn.Dropout(dropout),
        nn.Linear(8 * 64, 2),
    )


def in_keras(dropout=0.3):
    from keras import Input, Sequential, layers

    return Sequential(
        [
            Input((8, 8, 3)),
            layers.Conv2D(8, 3, padding="same"),
            layers.BatchNormalization(momentum=0.9),
            layers.ReLU(),
            layers.Flatten(),
            layers.Dropout(dropout),
            layers.Dense(2),
        ]
    )


both = Workload(
    {"torch": in_torch, "tensorflow": in_keras},
    data=data,
    mean=(120.0,) * 3,
    std=(60.0,) * 3,
    options={"dropout": 0.3},
)
