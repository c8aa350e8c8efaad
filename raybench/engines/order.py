"""The order of the examples and the draws of the augmentation: the same on every device for the same seed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from raybench.datasets.base import Array
from raybench.trial.rank import Rank


@dataclass(frozen=True)
class Augmentation:
    """Which augmentations are on, and how large.

    `crop` is the reflected border in pixels of which a random window is taken, `cutout` the side in pixels of the
    square that is set to the mean; 0 turns either off. `flip` mirrors half of the pictures.
    """

    crop: int = 0
    flip: bool = False
    cutout: int = 0

    @classmethod
    def from_settings(cls, settings: Sequence[Any]) -> Augmentation:
        """Read a cell's list, such as `[{"crop": 4}, "flip", {"cutout": 8}]`."""
        found: dict[str, Any] = {}
        for item in settings:
            if isinstance(item, Mapping):
                found |= item
            else:
                found[item] = True
        return cls(**found)

    def __bool__(self) -> bool:
        return bool(self.crop or self.flip or self.cutout)


@dataclass(frozen=True)
class EpochOrder:
    """One epoch, drawn in advance: each array has the shape [steps, batch].

    `top` and `left` place the crop's window, `cut_top` and `cut_left` the cutout's corner; None where that is off.
    """

    index: Array
    top: Array | None
    left: Array | None
    flip: Array | None
    cut_top: Array | None
    cut_left: Array | None

    def part(self, rank: Rank) -> EpochOrder:
        """A rank's contiguous part of every batch."""
        batch = self.index.shape[1] // rank.count
        here = slice(rank.number * batch, (rank.number + 1) * batch)
        draws = (self.top, self.left, self.flip, self.cut_top, self.cut_left)
        return EpochOrder(self.index[:, here], *(None if drawn is None else drawn[:, here] for drawn in draws))


class Order:
    """Endless passes over a training set; the ragged end of a pass is dropped.

    Where `steps_per_epoch` is set, an epoch takes that many batches of the stream, so that it may end within a pass
    or need the next one; else an epoch is one pass.
    """

    def __init__(
        self, examples: int, batch: int, steps: int | None, size: tuple[int, int], augmentation: Augmentation, seed: int
    ) -> None:
        if batch > examples:
            raise ValueError(f"batch_size {batch} is larger than the {examples} examples to train on")
        self.examples, self.batch = examples, batch
        self.per_pass = examples // batch
        self.steps = steps or self.per_pass
        self._size = size
        self._augmentation = augmentation
        self._random = np.random.default_rng(seed)
        self._batches = self._stream()

    def _stream(self) -> Iterator[Array]:
        while True:
            order = self._random.permutation(self.examples)
            yield from order[: self.per_pass * self.batch].reshape(self.per_pass, self.batch)

    def skip(self, epochs: int) -> None:
        """Draw so many epochs for nothing, so that the next is the one that would have followed them."""
        for _ in range(epochs):
            self.epoch()

    def epoch(self) -> EpochOrder:
        """Draw the next epoch."""
        shape = (self.steps, self.batch)
        what, (height, width) = self._augmentation, self._size
        index = np.stack([next(self._batches) for _ in range(self.steps)])

        def draw(on: object, most: int) -> Array | None:
            return self._random.integers(0, most + 1, shape) if on else None

        return EpochOrder(
            index=index,
            top=draw(what.crop, 2 * what.crop),
            left=draw(what.crop, 2 * what.crop),
            flip=draw(what.flip, 1),
            cut_top=draw(what.cutout, height - what.cutout),
            cut_left=draw(what.cutout, width - what.cutout),
        )
