"""Workloads for the tests of a device: a small network, one that fills the memory, and a loop with a CUDA graph.

PyTorch and Keras are imported only in functions, because a process has one of them.
"""

import numpy as np

from raybench import Data, Split, Workload

TRAIN, VAL, BATCH = 512, 200, 64
PIECES = 64
"""Passes of the large network through its layers, so that no array has more than 2³¹ elements."""

BYTES_PER_UNIT = 4
"""Bytes of activations for each example and unit: the backward pass needs the output of the ReLU, in float32."""


def pictures(count, seed):
    """Random pictures of two classes; one is lighter in the first channel."""
    random = np.random.default_rng(seed)
    targets = random.integers(0, 2, count)
    inputs = random.integers(0, 200, (count, 8, 8, 3))
    inputs[..., 0] += 40 * targets[:, None, None]
    return Split(inputs.astype(np.uint8), targets)


def data(root):
    return Data(pictures(TRAIN, 0), pictures(VAL, 1))


def build():
    import torch

    return torch.nn.Sequential(
        torch.nn.Conv2d(3, 32, 3, padding=1, bias=False),
        torch.nn.BatchNorm2d(32),
        torch.nn.ReLU(),
        torch.nn.Conv2d(32, 32, 3, padding=1, bias=False),
        torch.nn.BatchNorm2d(32),
        torch.nn.ReLU(),
        torch.nn.AdaptiveAvgPool2d(1),
        torch.nn.Flatten(),
        torch.nn.Linear(32, 2),
    )


def build_keras():
    from keras import Input, Sequential, layers

    convolutions = [
        layer
        for _ in range(2)
        for layer in (
            layers.Conv2D(32, 3, padding="same", use_bias=False),
            layers.BatchNormalization(momentum=0.9, epsilon=1e-5),
            layers.ReLU(),
        )
    ]
    return Sequential([Input((8, 8, 3)), *convolutions, layers.GlobalAveragePooling2D(), layers.Dense(2)])


small = Workload(
    model={"torch": build, "tensorflow": build_keras}, data=data, mean=(110.0, 100.0, 100.0), std=(60.0, 60.0, 60.0)
)


def width_of(bytes_per_example):
    return max(1, bytes_per_example // BYTES_PER_UNIT // PIECES)


def build_large(bytes_per_example):
    """A network with few weights that needs so many bytes of memory for each example of a batch.

    Each piece has another input, so that no compiler computes them only once.
    """
    import torch

    class Large(torch.nn.Module):
        def __init__(self):
            super().__init__()
            width = width_of(bytes_per_example)
            self.first, self.last = torch.nn.Linear(1, width), torch.nn.Linear(width, 2)

        def forward(self, inputs):
            pieces = (self.last(torch.relu(self.first(inputs + piece / PIECES))) for piece in range(PIECES))
            return sum(pieces) / PIECES

    return Large()


def build_large_keras(bytes_per_example):
    """As `build_large`."""
    from keras import Input, Model, layers

    first, last = layers.Dense(width_of(bytes_per_example), activation="relu"), layers.Dense(2)
    inputs = Input((1,))
    pieces = [last(first(inputs + piece / PIECES)) for piece in range(PIECES)]
    return Model(inputs, layers.Average()(pieces))


def column(root):
    inputs = np.linspace(-1, 1, 1000, dtype=np.float32)[:, None]
    split = Split(inputs, (inputs[:, 0] > 0).astype(np.int64))
    return Data(split, split.first(8))


large = Workload(
    model={"torch": build_large, "tensorflow": build_large_keras}, data=column, options={"bytes_per_example": 1048576}
)
