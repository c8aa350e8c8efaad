"""Synthetic stand-ins for data sets: the same shapes, types and numbers of examples, with classes that can be learned.

They are for machines without a data set or without a network: a step costs what it costs with the real data, and an
accuracy says nothing about the real data. Every array follows from fixed seeds of NumPy's legacy generator, whose
numbers never change (NEP 19), so that all machines train on the same.
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
"""Changes with what is made, and with it the digest of the data."""

CLASSES = 10
PROTOTYPES = 4
"""Pictures that the examples of a class are made from."""
WAVES = 6
"""Waves of different direction and length that a prototype is the sum of."""
SHIFT = 4
"""Pixels by which an example is moved at most."""
OWN_SHARE = (0.5, 1.0)
"""How much of an example is its own class's prototype; the rest is another class's, so that some cannot be told."""
NOISE = 0.35
"""The width of the noise in each pixel, where black to white is 1."""
AT_ONCE = 1000
"""Pictures made in one computation."""

WORDS = 60_000
"""How many words there are; the commoner a word the smaller its number, by Zipf's law."""
SENTIMENT_WORDS = (100, 2100)
"""The words that are more frequent in good (even numbers) or in bad reviews (odd ones)."""
SENTIMENT = 0.2
"""The share of these words that the kind of the review decides; the others are drawn for both kinds alike."""
REVIEW_LENGTH, LENGTH_SPREAD = 175, 0.75
"""The median of the reviews' lengths in words, and the standard deviation of its logarithm, as in the real ones."""


def pictures(random: RandomState, count: int, prototypes: Array) -> tuple[Array, Array]:
    """Pictures of the classes in equal parts: uint8 [count, side, side, channels] and int64 classes [count].

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
    """What the pictures of each class are made from: float32 [classes, prototypes, side, side, channels], 0 to 1."""
    import numpy as np

    axis = np.linspace(0, 2 * np.pi, side, endpoint=False, dtype=np.float32)
    rows, columns = axis[:, None, None], axis[None, :, None]
    shape = (CLASSES, PROTOTYPES, 1, 1, channels)
    values = np.zeros((CLASSES, PROTOTYPES, side, side, channels), np.float32)
    for _ in range(WAVES):
        # Whole waves, so that a picture that is moved goes on at its other edge.
        along_rows, along_columns = random.randint(-3, 4, (2, *shape))
        phase = random.uniform(0, 2 * np.pi, shape)
        values += np.cos(along_rows * rows + along_columns * columns + phase).astype(np.float32)
    low, high = (edge((2, 3, 4), keepdims=True) for edge in (values.min, values.max))
    scaled: Array = (values - low) / (high - low)
    return scaled


def reviews(random: RandomState, count: int) -> tuple[Array, Array]:
    """Reviews by turns bad and good: uint16 [count, 512], the last words of each, filled in front; int64 classes."""
    import numpy as np

    targets = np.arange(count) % 2
    inputs = np.zeros((count, imdb.LONGEST), np.uint16)
    lengths = np.exp(np.log(REVIEW_LENGTH) + LENGTH_SPREAD * random.standard_normal(count)).astype(int).clip(10, 2000)
    # The probability of the n-th commonest of the words falls as 1/n.
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
    """A data set with as many examples as a real one, made once and kept in the data folder if that can be written to.

    Args:
        shape: of one input.
        make: the arrays `train_inputs`, `train_targets`, `val_inputs` and `val_targets`.
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
        description=f"made, not real: as many examples as {real.name}, of the same shape, with learnable classes",
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
