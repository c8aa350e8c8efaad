"""Synthetic replacements of data sets, with classes that can be learned.

They have the same shapes, types and numbers of examples, and are for machines without a data set or a network: a step
takes as long as with the real data, but an accuracy does not apply to the real data. Every array follows from fixed
seeds of NumPy's legacy generator, whose numbers never change (NEP 19), so that all machines train on the same data.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from raybench.datasets import cifar10, imdb, mnist
from raybench.datasets.cache import load_arrays, save_arrays
from raybench.datasets.dataset import DataSet
from raybench.datasets.splits import Array, Data, Split

if TYPE_CHECKING:
    from numpy.random import RandomState

SUFFIX = "-synthetic"
VERSION = 1
"""Version of the generated data, and so part of their digest."""

CLASSES = 10
PROTOTYPES = 4
"""Prototype images per class."""
WAVES = 6
"""Waves of different direction and length per prototype, which are added up."""
SHIFT = 4
"""Maximum shift of an example in pixels."""
OWN_SHARE = (0.5, 1.0)
"""Share of its own class's prototype in an example.

The rest is another class's, so that some examples cannot be classified."""
NOISE = 0.35
"""Width of the noise in each pixel; black to white is 1."""
AT_ONCE = 1000
"""Images made in one computation."""

WORDS = 60_000
"""Number of words; more frequent words have smaller numbers, by Zipf's law."""
SENTIMENT_WORDS = (100, 2100)
"""The words that are more frequent in positive (even numbers) or negative reviews (odd)."""
SENTIMENT = 0.2
"""The share of these words that the class decides.

The others are independent of it."""
REVIEW_LENGTH, LENGTH_SPREAD = 175, 0.75
"""Median of the reviews' lengths in words, and standard deviation of its logarithm.

Both are as in the real reviews."""


def pictures(random: RandomState, count: int, prototypes: Array) -> tuple[Array, Array]:
    """Images of equally frequent classes: uint8 [count, side, side, channels], int64 classes [count].

    Args:
        prototypes: float32 [classes, prototypes of each, side, side, channels], values from 0 to 1.
    """
    import numpy as np

    classes, per_class, side, _, channels = prototypes.shape
    targets = random.permutation(np.arange(count) % classes).astype(np.int64)
    inputs = np.empty((count, side, side, channels), np.uint8)
    pixels = np.arange(side)
    for start in range(0, count, AT_ONCE):
        own = targets[start : start + AT_ONCE]
        size = len(own)
        other = (own + random.randint(1, classes, size)) % classes
        share = random.uniform(*OWN_SHARE, size).astype(np.float32)[:, None, None, None]
        shifts = random.randint(-SHIFT, SHIFT + 1, (2, size, 1))
        rows, columns = ((pixels + shift) % side for shift in shifts)
        index = rows[:, :, None], columns[:, None, :]
        drawn = random.randint(per_class, size=(2, size))
        own_part, other_part = (
            prototypes[kind[:, None, None], number[:, None, None], *index]
            for kind, number in zip((own, other), drawn, strict=True)
        )
        noise = np.frombuffer(random.bytes(own_part.size), np.uint8).reshape(own_part.shape).astype(np.float32)
        values = share * own_part + (1 - share) * other_part + NOISE * (noise / 255 - 0.5)
        inputs[start : start + AT_ONCE] = np.rint(255 * np.clip(values, 0, 1))
    return inputs, targets


def prototypes(random: RandomState, side: int, channels: int) -> Array:
    """Prototype images of each class: float32 [classes, prototypes, side, side, channels], 0 to 1."""
    import numpy as np

    axis = np.linspace(0, 2 * np.pi, side, endpoint=False, dtype=np.float32)
    rows, columns = axis[:, None, None], axis[None, :, None]
    shape = (CLASSES, PROTOTYPES, 1, 1, channels)
    values = np.zeros((CLASSES, PROTOTYPES, side, side, channels), np.float32)
    for _ in range(WAVES):
        # Whole periods, so that a shifted image continues at its other edge.
        along_rows, along_columns = random.randint(-3, 4, (2, *shape))
        phase = random.uniform(0, 2 * np.pi, shape)
        values += np.cos(along_rows * rows + along_columns * columns + phase).astype(np.float32)
    low, high = (edge((2, 3, 4), keepdims=True) for edge in (values.min, values.max))
    scaled: Array = (values - low) / (high - low)
    return scaled


def reviews(random: RandomState, count: int) -> tuple[Array, Array]:
    """Alternating negative and positive reviews: uint16 [count, 512], int64 classes.

    Each has its last words, padded in front.
    """
    import numpy as np

    targets = np.arange(count) % 2
    inputs = np.zeros((count, imdb.LONGEST), np.uint16)
    lengths = np.exp(np.log(REVIEW_LENGTH) + LENGTH_SPREAD * random.standard_normal(count)).astype(int).clip(10, 2000)
    # The probability of the n-th most frequent word is proportional to 1/n.
    ranks = np.floor(WORDS ** random.random_sample(inputs.shape)).astype(np.int64)
    low, high = SENTIMENT_WORDS
    decided = (ranks >= low) & (ranks < high) & (random.random_sample(inputs.shape) < SENTIMENT)
    ranks = np.where(decided, ranks - ranks % 2 + (1 - targets[:, None]), ranks)
    places = np.arange(imdb.LONGEST)[None, :]
    first = imdb.LONGEST - np.minimum(lengths, imdb.LONGEST)[:, None]
    np.copyto(inputs, (ranks + imdb.OFFSET).astype(np.uint16), where=places >= first)
    short = lengths < imdb.LONGEST
    inputs[short, first[short, 0] - 1] = imdb.START
    return inputs, targets


def _cifar10(random: RandomState) -> Mapping[str, Array]:
    return _both_splits(random, cifar10.DATASET.examples, prototypes(random, 32, 3))


def _mnist(random: RandomState) -> Mapping[str, Array]:
    return _both_splits(random, mnist.DATASET.examples, prototypes(random, 28, 1))


def _both_splits(random: RandomState, examples: Mapping[str, int], sources: Array) -> Mapping[str, Array]:
    arrays = {}
    for split, count in examples.items():
        arrays[f"{split}_inputs"], arrays[f"{split}_targets"] = pictures(random, count, sources)
    return arrays


def _imdb(random: RandomState) -> Mapping[str, Array]:
    arrays = {}
    for split, count in imdb.DATASET.examples.items():
        arrays[f"{split}_inputs"], arrays[f"{split}_targets"] = reviews(random, count)
    return arrays


def _stand_in(real: DataSet, shape: tuple[int, ...], make: Callable[[RandomState], Mapping[str, Array]]) -> DataSet:
    """A cached data set of the same size as a real one.

    It is made once and cached in the data folder, if that is writable.

    Args:
        shape: of one input.
        make: makes the arrays `train_inputs`, `train_targets`, `val_inputs` and `val_targets`.
    """
    name, generator = real.name + SUFFIX, f"{real.name}{SUFFIX} {VERSION}"
    shapes = {f"{split}_inputs": (count, *shape) for split, count in real.examples.items()}
    shapes |= {f"{split}_targets": (count,) for split, count in real.examples.items()}

    def read(folder: Path) -> Data:
        import numpy as np

        cache = folder / "synthetic" / f"{name}-{VERSION}.npz"
        arrays: Mapping[str, Array] | None = load_arrays(cache, shapes)
        if arrays is None:
            arrays = make(np.random.RandomState(zlib.crc32(generator.encode())))
            save_arrays(cache, arrays)
        return Data(*(Split(arrays[f"{split}_inputs"], arrays[f"{split}_targets"]) for split in ("train", "val")))

    return DataSet(
        name=name,
        description=f"generated: as many examples as {real.name}, of the same shape, with learnable classes",
        files=(),
        examples=real.examples,
        read=read,
        generator=generator,
    )


DATASETS = (
    _stand_in(mnist.DATASET, (28, 28, 1), _mnist),
    _stand_in(imdb.DATASET, (imdb.LONGEST,), _imdb),
    _stand_in(cifar10.DATASET, (32, 32, 3), _cifar10),
)
