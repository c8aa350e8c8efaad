"""Images as stored, independent of any framework."""

from __future__ import annotations

from typing import Any

import numpy as np

from raybench.datasets.splits import Array


def is_pictures(inputs: Array) -> bool:
    """Return whether an array has images: uint8 [N, height, width, channels]."""
    return inputs.dtype == np.uint8 and inputs.ndim == 4


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
