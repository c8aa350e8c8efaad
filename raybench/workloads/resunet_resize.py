"""The size of the U-nets' training images, if a grid changes it."""

from __future__ import annotations

from raybench.datasets.splits import Data
from raybench.datasets.synthetic_scenes import SIDE, sized

HALVED = 16
"""Factor by which the encoders reduce an image's side."""


def prepared(data: Data, side: int = SIDE) -> Data:
    """The scenes with `side` pixels of height and width.

    Raises:
        ValueError: the networks cannot halve such images four times.
    """
    if side < HALVED or side % HALVED:
        raise ValueError(
            f"model.side: {side} is not allowed, since the network halves images four times; use a multiple of {HALVED}"
        )
    return sized(data, side)
