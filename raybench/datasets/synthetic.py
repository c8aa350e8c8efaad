"""Random data of the shape, type and size of real data sets.

They are for machines without a data set or a network, and in place of data that nobody can download: a step takes as
long as with the real data, and nothing can be learned. They follow from fixed seeds of NumPy's legacy generator, whose
numbers never change (NEP 19), so that all machines train on the same data.
"""

from __future__ import annotations

import math
import zlib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from raybench.datasets import cifar10, imdb, mnist
from raybench.datasets.dataset import DataSet
from raybench.datasets.splits import Array, Data, Split

if TYPE_CHECKING:
    from numpy.random import RandomState

    Draw = Callable[[RandomState, int], Array]

SUFFIX = "-synthetic"
VERSION = 2  # version of the generated data, and so part of their digest
OVERLAP = 16  # each example begins a sixteenth of an example after the one before: made in a moment, in little memory

WORDS = 60_000


def random_bytes(*shape: int) -> Draw:
    """Examples of random bytes: uint8 [count, *shape], a view of fewer bytes."""

    def draw(random: RandomState, count: int) -> Array:
        import numpy as np

        size = math.prod(shape)
        step = max(1, size // OVERLAP)
        block = np.frombuffer(bytearray(random.bytes(step * (count - 1) + size)), np.uint8)
        strides = tuple(math.prod(shape[axis + 1 :]) for axis in range(len(shape)))
        return np.lib.stride_tricks.as_strided(block, (count, *shape), (step, *strides))

    return draw


def classes(number: int) -> Draw:
    """Equally frequent classes in turn: int64 [count]."""

    def draw(random: RandomState, count: int) -> Array:
        import numpy as np

        targets: Array = np.arange(count) % number
        return targets

    return draw


def words(random: RandomState, count: int) -> Array:
    """Reviews of random words, the n-th most frequent of a probability of 1/n as in texts: uint16 [count, tokens]."""
    import numpy as np

    ranks = WORDS ** random.random_sample((count, imdb.MAX_TOKENS))
    return (ranks + imdb.OFFSET).astype(np.uint16)


def _dataset(name: str, description: str, examples: Mapping[str, int], inputs: Draw, targets: Draw) -> DataSet:
    generator = f"{name} {VERSION}"

    def read(_: Path) -> Data:
        import numpy as np

        random = np.random.RandomState(zlib.crc32(generator.encode()))
        train, val = (
            Split(inputs(random, count), targets(random, count)) for count in (examples["train"], examples["val"])
        )
        return Data(train, val)

    return DataSet(name, description, (), examples, read, generator=lambda: generator)


def _replacement(real: DataSet, inputs: Draw, targets: Draw) -> DataSet:
    description = f"random: as many examples as {real.name}, of the same shape"
    return _dataset(real.name + SUFFIX, description, real.examples, inputs, targets)


DATASETS = (
    _replacement(mnist.DATASET, random_bytes(28, 28, 1), classes(10)),
    _replacement(imdb.DATASET, words, classes(2)),
    _replacement(cifar10.DATASET, random_bytes(32, 32, 3), classes(10)),
    _dataset(
        "scenes" + SUFFIX,
        "random: pairs of images of 96×96 pixels, with a mask and a depth map each",
        {"train": 17_500, "val": 1_000},
        random_bytes(96, 96, 6),
        random_bytes(2, 96, 96),
    ),
    _dataset(
        "imagenet" + SUFFIX,
        "random: images of 224×224 pixels in 1,000 classes",
        {"train": 5_120, "val": 512},
        random_bytes(224, 224, 3),
        classes(1000),
    ),
)
