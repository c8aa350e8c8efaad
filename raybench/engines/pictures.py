"""Pictures as they are stored, before any framework has them."""

from __future__ import annotations

from typing import Any

import numpy as np

from raybench.datasets.base import Array


def is_pictures(inputs: Array) -> bool:
    """Whether an array is what a workload calls pictures: uint8 [N, height, width, channels]."""
    return inputs.dtype == np.uint8 and inputs.ndim == 4


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
