"""The size of the pictures that the U-nets are trained on, where a grid chooses another than the published one."""

from __future__ import annotations

from raybench.datasets.splits import Data
from raybench.datasets.synthetic_scenes import SIDE, sized

HALVED = 16
"""What the networks divide a picture's side by on their way down."""


def prepared(data: Data, side: int = SIDE) -> Data:
    """The scenes with so many pixels of height and width.

    Raises:
        ValueError: the networks cannot halve such pictures four times.
    """
    if side < HALVED or side % HALVED:
        raise ValueError(f"model.side {side}: the network halves a picture four times; give a multiple of {HALVED}")
    return sized(data, side)
