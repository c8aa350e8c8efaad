"""Synthetic scenes: shapes in front of a background, with exact mask and depth.

Every scene is a function of its number alone, so that a set of a million takes no memory until it is read, is the same
in any order, and can be cut and shuffled like an array. A scene is a plane whose known depth increases to the top, and
in front of it one to three shapes (ellipses and rotated rectangles) of one known depth each; nearer shapes hide farther
ones. The mask is the union of the shapes; the depth is that of the nearest. Edges are not smoothed.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from raybench.datasets.dataset import DataSet
from raybench.datasets.splits import Array, Data, Split

SIDE = 96
"""Default height and width in pixels."""
SHAPES = 3
"""Maximum number of shapes per scene."""
TRAIN, VAL = 1_200_000, 100_000
AT_ONCE = 256
"""Scenes made in one computation: more need more memory and are no faster."""

_DRAWS = 32
"""Random numbers per scene."""


def uniform(numbers: Array, draws: int = _DRAWS) -> Array:
    """`draws` reproducible random numbers from 0 to 1 per scene number: float32 [N, draws].

    The generator is SplitMix64, whose n-th number can be computed without those before it.
    """
    import numpy as np

    counter = numbers.astype(np.uint64)[:, None] * np.uint64(draws) + np.arange(1, draws + 1, dtype=np.uint64)
    bits: Any = counter * np.uint64(0x9E3779B97F4A7C15)
    bits = (bits ^ (bits >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    bits = (bits ^ (bits >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    bits ^= bits >> np.uint64(31)
    values: Array = (bits >> np.uint64(40)).astype(np.float32) / np.float32(1 << 24)
    return values


def render(numbers: Array, side: int = SIDE) -> tuple[Array, Array]:
    """Draw scenes.

    Args:
        numbers: of the scenes, [N].
        side: pixels of height and width.

    Returns:
        Images, uint8 [N, side, side, 6]: red, green and blue of the background, then of the same with the shapes.
        Targets, uint8 [N, 2, side, side]: the mask, 255 inside, and the depth, 255 at the farthest.
    """
    import numpy as np

    draws = uniform(numbers)
    count = len(draws)
    xs = np.linspace(-1.0, 1.0, side, dtype=np.float32)
    rows, columns = xs[None, :, None], xs[None, None, :]
    pictures = np.empty((count, side, side, 6), np.uint8)
    pictures[..., :3] = _background(draws, xs)
    pictures[..., 3:] = pictures[..., :3]
    targets = np.zeros((count, 2, side, side), np.uint8)
    # The plane has depths from 170 to 255, every shape from 20 to 150, so the plane hides no part of a shape.
    lowest = 170 + 40 * draws[:, 6, None]
    targets[:, 1] = np.rint(lowest + (255 - lowest) * (1 - xs) / 2)[:, :, None]
    shape_counts = 1 + np.floor(draws[:, 7] * SHAPES)
    # The farthest first, because nearer ones are painted over it.
    depths = -np.sort(-(20 + 130 * draws[:, 8 : 8 + SHAPES]), axis=1)
    for shape in range(SHAPES):
        shape_draws = draws[:, 11 + 7 * shape : 18 + 7 * shape]
        mask = _inside(shape_draws, rows, columns) & (shape < shape_counts)[:, None, None]
        colour = np.rint(255 * uniform(numbers + (np.uint64(1) << np.uint64(40)) * np.uint64(shape + 1), 3))
        np.copyto(pictures[..., 3:], colour.astype(np.uint8)[:, None, None, :], where=mask[..., None])
        targets[:, 0][mask] = 255
        np.copyto(targets[:, 1], np.rint(depths[:, shape]).astype(np.uint8)[:, None, None], where=mask)
    return pictures, targets


def _background(draws: Array, xs: Array) -> Array:
    """Horizontal two-colour gradient with waves: float [N, side, side, 3], 0 to 255."""
    import numpy as np

    blend = (xs + 1) / 2
    left, right = draws[:, None, 0:3], draws[:, None, 3:6]
    colours = 30 + 195 * (left + (right - left) * blend[None, :, None])
    waves = (np.sin(xs * (3 + 20 * draws[:, index, None]) + 6 * draws[:, index + 1, None]) for index in (29, 30))
    high, wide = waves
    background: Array = colours[:, None] + (30 * high[:, :, None] * wide[:, None, :])[..., None]
    return background


def _inside(shape_draws: Array, rows: Array, columns: Array) -> Array:
    """Mask of a shape, [N, side, side], from its seven draws.

    The draws are position, size, angle and kind.
    """
    import numpy as np

    shape_draws = shape_draws[:, :, None, None]
    x, y = columns - (1.2 * shape_draws[:, 0] - 0.6), rows - (1.2 * shape_draws[:, 1] - 0.6)
    width, height, turn = 0.15 + 0.35 * shape_draws[:, 2], 0.15 + 0.35 * shape_draws[:, 3], np.pi * shape_draws[:, 4]
    along, aside = np.cos(turn), np.sin(turn)
    u, v = (along * x + aside * y) / width, (along * y - aside * x) / height
    u *= u
    v *= v
    mask: Array = np.where(shape_draws[:, 5] < 0.5, u + v, np.maximum(u, v)) < 1
    return mask


class Scenes:
    """Lazy images (`part` 0) or targets (1) of consecutive scenes.

    The scenes are numbered from `first` to `first + count`.

    A slice is another lazy array; an index array gives an array. NumPy treats it as the array that it represents.
    """

    def __init__(self, part: int, first: int, count: int, side: int = SIDE, seen: list[Any] | None = None) -> None:
        import numpy as np

        self._part, self._first, self._count, self._side = part, first, count, side
        self._seen = [None] if seen is None else seen  # the last batch: inputs and targets are read one after the other
        self.dtype = np.dtype(np.uint8)
        self.shape = (count, side, side, 6) if part == 0 else (count, 2, side, side)
        self.ndim, self.nbytes = 4, int(np.prod(self.shape))

    def twin(self) -> Scenes:
        """The targets of these images.

        A batch that was read from the images costs nothing there.
        """
        return Scenes(1, self._first, self._count, self._side, self._seen)

    def sized(self, side: int) -> Scenes:
        """The same scenes with `side` pixels of height and width."""
        return Scenes(self._part, self._first, self._count, side)

    def __len__(self) -> int:
        return self._count

    def __getitem__(self, indices: Any) -> Any:
        import numpy as np

        if isinstance(indices, slice):
            start, stop, step = indices.indices(self._count)
            if step != 1:
                return self[np.arange(start, stop, step)]
            return Scenes(self._part, self._first + start, max(0, stop - start), self._side, self._seen)
        indices = np.asarray(indices)
        numbers = (self._first + indices % self._count).astype(np.uint64)
        cached = self._seen[0]
        if cached is None or not np.array_equal(cached[0], numbers):
            batches = [render(numbers[i : i + AT_ONCE], self._side) for i in range(0, len(numbers), AT_ONCE)]
            cached = (numbers, *(np.concatenate(arrays) for arrays in zip(*batches, strict=True)))
            self._seen[0] = cached
        return cached[1 + self._part]

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Array:
        import numpy as np

        out = np.empty(self.shape, dtype or self.dtype)
        for start in range(0, self._count, AT_ONCE):
            numbers = np.arange(self._first + start, self._first + min(start + AT_ONCE, self._count), dtype=np.uint64)
            out[start : start + AT_ONCE] = render(numbers, self._side)[self._part]
        return out


def read(folder: Path) -> Data:
    """1,200,000 and 100,000 lazy scenes; no scene is in both splits."""
    return Data(_split(0, TRAIN), _split(1 << 32, VAL))


def sized(data: Data, side: int = SIDE) -> Data:
    """The same scenes with `side` pixels of height and width."""
    if side == SIDE:
        return data
    pictures: list[Any] = [data.train.inputs, data.val.inputs]
    train, val = (_with_targets(part.sized(side)) for part in pictures)
    return Data(train, val)


def _split(first: int, count: int) -> Split:
    return _with_targets(Scenes(0, first, count))


def _with_targets(pictures: Any) -> Split:
    return Split(pictures, pictures.twin())


DATASET = DataSet(
    name="scenes-synthetic",
    description="generated scenes with exact mask and depth, 96×96 pixels",
    files=(),
    examples={"train": TRAIN, "val": VAL},
    read=read,
    generator="scenes 1",
)
