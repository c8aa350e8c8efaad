"""Order of the examples and random draws of the augmentation: the same on every device for the same seed."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

import numpy as np

from raybench.core.rank import Rank
from raybench.datasets.splits import Array


@dataclass(frozen=True)
class Augmentation:
    """The active augmentations and their sizes.

    `crop` is the width in pixels of the reflected border of the image that a random window is taken from, `cutout` the
    side in pixels of the square that is set to the mean; 0 disables either. `flip` mirrors half of the images.
    """

    crop: int = 0
    flip: bool = False
    cutout: int = 0

    @classmethod
    def from_settings(cls, settings: Sequence[Any]) -> Augmentation:
        """Parse a cell's list, such as `[{"crop": 4}, "flip", {"cutout": 8}]`."""
        options: dict[str, Any] = {}
        for item in settings:
            if isinstance(item, Mapping):
                options |= item
            else:
                options[item] = True
        return cls(**options)

    def __bool__(self) -> bool:
        return bool(self.crop or self.flip or self.cutout)


@dataclass(frozen=True)
class EpochPlan:
    """The order and draws of one epoch: each array has the shape [steps, batch].

    `top` and `left` place the crop's window, `cut_top` and `cut_left` the cutout's corner; None if disabled. `width` is
    that of a stored image, with its border.
    """

    index: Array
    top: Array | None
    left: Array | None
    flip: Array | None
    cut_top: Array | None
    cut_left: Array | None
    width: int = 0

    @property
    def corner(self) -> Array | None:
        """Number of pixels in a stored image before the crop's window."""
        return None if self.top is None or self.left is None else self.top * self.width + self.left

    def part(self, rank: Rank) -> EpochPlan:
        """A rank's contiguous part of every batch."""
        batch = self.index.shape[1] // rank.count
        columns = slice(rank.number * batch, (rank.number + 1) * batch)
        return self.select(lambda values: values[:, columns])

    def filled(self, steps: int) -> EpochPlan:
        """Pad to a minimum number of steps by repeating the last one."""
        rows = np.minimum(np.arange(max(steps, len(self.index))), len(self.index) - 1)
        return self.select(lambda values: values[rows])

    def select(self, take: Callable[[Array], Array]) -> EpochPlan:
        """Apply the same selection to all arrays."""
        arrays = {name: value for name, value in vars(self).items() if isinstance(value, np.ndarray)}
        selected: dict[str, Any] = {name: take(value) for name, value in arrays.items()}
        return replace(self, **selected)


def evaluation_batches(batch: int, examples: int) -> Iterator[tuple[Array, int]]:
    """Yield the indices of each evaluation batch, and the number of examples without padding.

    All have one size: past the end, the indices restart from the beginning.
    """
    for start in range(0, examples, batch):
        yield np.arange(start, start + batch) % examples, min(batch, examples - start)


def total_steps(steps_per_epoch: int, epochs: float) -> int:
    """Steps of a run; the steps of a fractional epoch are rounded up.

    9.9 epochs of 48 steps are 476 steps: nine whole epochs and one of 44. The decimal notation of the number counts,
    not its binary float: 0.1 epochs of 30 steps are 3.
    """
    return math.ceil(Fraction(str(epochs)) * steps_per_epoch)


class BatchSampler:
    """Endless passes over a training set, without the incomplete last batch of a pass.

    With `steps_per_epoch`, an epoch takes that many batches of the stream, so it may end within a pass or need the next
    one; otherwise an epoch is one pass. The last epoch of a run with a fractional number of `epochs` is shorter;
    without `epochs`, or after them, every epoch is whole.
    """

    def __init__(
        self,
        examples: int,
        batch: int,
        steps: int | None,
        size: tuple[int, int],
        augmentation: Augmentation,
        seed: int,
        epochs: float = 0,
    ) -> None:
        if batch > examples:
            raise ValueError(f"batch_size {batch} is larger than the {examples} examples to train on")
        self.examples, self.batch = examples, batch
        self.per_pass = examples // batch
        self.steps = steps or self.per_pass
        self.total = total_steps(self.steps, epochs)
        self._drawn = 0
        self._size = size
        self._augmentation = augmentation
        self._random = np.random.default_rng(seed)
        self._batches = self._stream()
        self._prepared: EpochPlan | None = None

    def _stream(self) -> Iterator[Array]:
        while True:
            order = self._random.permutation(self.examples)
            yield from order[: self.per_pass * self.batch].reshape(self.per_pass, self.batch)

    @property
    def next_steps(self) -> int:
        """Number of steps of the next epoch."""
        if self._prepared:
            return len(self._prepared.index)
        remaining = self.total - self._drawn
        return remaining if 0 < remaining < self.steps else self.steps

    def skip(self, epochs: int) -> None:
        """Draw and discard a number of epochs."""
        for _ in range(epochs):
            self.epoch()

    def epoch(self) -> EpochPlan:
        """Draw the next epoch, unless it is prepared."""
        plan, self._prepared = self._prepared or self.take(self.next_steps), None
        return plan

    def prepare(self) -> None:
        """Draw the next epoch already, if the run has one: while a device works, for example."""
        if not self._prepared and not 0 < self.total <= self._drawn:
            self._prepared = self.take(self.next_steps)

    def take(self, steps: int) -> EpochPlan:
        """Draw the next steps."""
        augmentation, (height, width) = self._augmentation, self._size
        index = np.stack([next(self._batches) for _ in range(steps)])
        shape = index.shape
        self._drawn += len(index)

        def draw(on: object, highest: int) -> Array | None:
            return self._random.integers(0, highest + 1, shape) if on else None

        return EpochPlan(
            index=index,
            top=draw(augmentation.crop, 2 * augmentation.crop),
            left=draw(augmentation.crop, 2 * augmentation.crop),
            flip=draw(augmentation.flip, 1),
            cut_top=draw(augmentation.cutout, height - augmentation.cutout),
            cut_left=draw(augmentation.cutout, width - augmentation.cutout),
            width=width + 2 * augmentation.crop,
        )
