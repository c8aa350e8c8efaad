"""Pictures as they are stored, before any framework has them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from raybench.datasets.splits import Array


def is_pictures(inputs: Array) -> bool:
    """Whether an array is what a workload calls pictures: uint8 [N, height, width, channels]."""
    return inputs.dtype == np.uint8 and inputs.ndim == 4


@dataclass(frozen=True)
class AugmentedViews:
    """As what a picture is looked at in evaluation, beside as it is: test-time augmentation.

    The outputs are averaged. With `shift`, a half of the average is the picture as it is, and a quarter each a view of
    it that is moved by so many pixels up and left, and down and right. With `mirror`, each of those is seen as it is
    and mirrored, and the two count alike.
    """

    mirror: bool = False
    shift: int = 0

    @classmethod
    def from_settings(cls, settings: Sequence[Any]) -> Self:
        """Read a cell's list, such as `["flip", {"shift": 1}]`."""
        shifts = [item["shift"] for item in settings if isinstance(item, Mapping)]
        return cls("flip" in settings, *shifts)

    def __bool__(self) -> bool:
        return self.mirror or self.shift > 0

    @property
    def windows(self) -> tuple[tuple[float, int], ...]:
        """Weight and corner (row and column alike) of each window in the picture with `shift` pixels of border."""
        return ((0.5, self.shift), (0.25, 0), (0.25, 2 * self.shift)) if self.shift else ((1.0, 0),)


def reflect(inputs: Array, border: int) -> Array:
    """Pictures with a reflected border, padded once so that a crop is only a matter of where to read."""
    return np.pad(inputs, ((0, 0), (border, border), (border, border), (0, 0)), mode="reflect") if border else inputs


def is_array(values: Any) -> bool:
    """Whether values lie in memory; such as are made as they are read only look like an array."""
    return isinstance(values, np.ndarray)


def as_read(values: Array) -> Array:
    """Values that batches are taken of: plain in memory or, where they are made as they are read, as they are."""
    return plain(values) if is_array(values) else values


def plain(values: Array) -> Array:
    """An array in the types that models take: floats become float32, integers int64, pictures stay bytes."""
    if not is_pictures(values):
        values = np.asarray(values)
        values = values.astype(np.float32 if values.dtype.kind == "f" else np.int64, copy=False)
    return np.ascontiguousarray(values)
