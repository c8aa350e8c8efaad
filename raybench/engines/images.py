"""Images as stored, independent of any framework."""

from __future__ import annotations

import numpy as np

from raybench.datasets.splits import Array
from raybench.workloads.base import Workload


def is_images(inputs: Array) -> bool:
    """Return whether an array has images: uint8 [N, height, width, channels]."""
    return inputs.dtype == np.uint8 and inputs.ndim == 4


def reflect(inputs: Array, border: int) -> Array:
    """Pad images by a reflected border, once, so that a crop is only a read."""
    return np.pad(inputs, ((0, 0), (border, border), (border, border), (0, 0)), mode="reflect") if border else inputs


def plain(values: Array) -> Array:
    """Convert an array to model types: floats to float32, integers to int64; images stay uint8."""
    if not is_images(values):
        values = values.astype(np.float32 if values.dtype.kind == "f" else np.int64, copy=False)
    return np.ascontiguousarray(values)


def model_inputs(inputs: Array, workload: Workload, models: str) -> Array:
    """Examples as inputs of a framework's models: images normalized and in its layout, other arrays as by `plain`."""
    if is_images(inputs):
        mean, std = (np.asarray(values, np.float32) for values in (workload.mean, workload.std))
        inputs = (inputs.astype(np.float32) - mean) / std
        inputs = inputs.transpose(0, 3, 1, 2) if models == "torch" else inputs
    return plain(inputs)
