"""Images as stored, independent of any framework."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from raybench.datasets.splits import Array


def is_pictures(inputs: Array) -> bool:
    """Return whether an array has images: uint8 [N, height, width, channels]."""
    return inputs.dtype == np.uint8 and inputs.ndim == 4


@dataclass(frozen=True)
class AugmentedViews:
    """The views of an image in evaluation: test-time augmentation.

    The outputs are averaged. With `shift`, the unchanged image has weight 1/2, and two views that are shifted by that
    many pixels, up and left or down and right, have weight 1/4 each. With `mirror`, each of those is evaluated
    unchanged and mirrored, with equal weights.
    """

    mirror: bool = False
    shift: int = 0

    @classmethod
    def from_settings(cls, settings: Sequence[Any]) -> Self:
        """Parse a cell's list, such as `["flip", {"shift": 1}]`."""
        shifts = [item["shift"] for item in settings if isinstance(item, Mapping)]
        return cls("flip" in settings, *shifts)

    def __bool__(self) -> bool:
        return self.mirror or self.shift > 0

    @property
    def windows(self) -> tuple[tuple[float, int], ...]:
        """Weight and corner (row = column) of each window in the padded image.

        The image is padded by `shift` pixels on each side.
        """
        return ((0.5, self.shift), (0.25, 0), (0.25, 2 * self.shift)) if self.shift else ((1.0, 0),)


def reflect(inputs: Array, border: int) -> Array:
    """Pad images by a reflected border.

    Padded once, so that a crop is only a read.
    """
    return np.pad(inputs, ((0, 0), (border, border), (border, border), (0, 0)), mode="reflect") if border else inputs


def is_array(values: Any) -> bool:
    """Return whether values are in memory; lazy splits only resemble arrays."""
    return isinstance(values, np.ndarray)


def as_read(values: Array) -> Array:
    """Values for reading batches: converted if in memory, lazy ones unchanged."""
    return plain(values) if is_array(values) else values


def plain(values: Array) -> Array:
    """Convert an array to model types: floats to float32, integers to int64.

    Images stay uint8.
    """
    if not is_pictures(values):
        values = np.asarray(values)
        values = values.astype(np.float32 if values.dtype.kind == "f" else np.int64, copy=False)
    return np.ascontiguousarray(values)
