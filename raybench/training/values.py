"""Numbers in a training loop: sizes of batches, and metrics that may still be on a device."""

from __future__ import annotations

import math
import numbers
from collections.abc import Iterator, Mapping
from typing import Any

ArrayPath = tuple[Any, ...]

MAX_BATCH_DEPTH = 8  # levels of a batch's lists and maps in which arrays are looked for


def examples_in(batch: Any, path: ArrayPath | None) -> tuple[int, ArrayPath]:
    """The number of examples in a batch, the first dimension of its arrays, and the path of one, for later batches."""
    if path is not None:
        try:
            array = batch
            for key in path:
                array = array[key]
            return int(array.shape[0]), path
        except (AttributeError, IndexError, KeyError, TypeError):
            pass  # this batch is made in a different way than the one before
    arrays = list(_arrays(batch, ()))
    sizes = sorted({int(array.shape[0]) for _, array in arrays})
    if len(sizes) != 1:
        problem = f"has arrays that begin with {' and '.join(map(str, sizes))}" if sizes else "has no array"
        raise ValueError(
            f"examples are not counted, so that there is no rate: a batch ({type(batch).__name__}) {problem}; "
            "say how many it has: trial.steps(…, examples=lambda batch: …)"
        )
    return sizes[0], arrays[0][0]


def array_in(batch: Any, path: ArrayPath | None) -> Any:
    """The array at a path of a batch or, without a path, its first one; None if it has none."""
    if path is None:
        return next((array for _, array in _arrays(batch, ())), None)
    for key in path:
        batch = batch[key]
    return batch


def _arrays(value: Any, path: ArrayPath) -> Iterator[tuple[ArrayPath, Any]]:
    shape = getattr(value, "shape", None)
    if shape is not None:
        if len(shape):
            yield path, value
    elif len(path) < MAX_BATCH_DEPTH and isinstance(value, Mapping):
        for key in value:
            yield from _arrays(value[key], (*path, key))
    elif len(path) < MAX_BATCH_DEPTH and isinstance(value, (list, tuple)):
        for index, item in enumerate(value):
            yield from _arrays(item, (*path, index))


def copy_of(value: Any) -> Any:
    """A copy of a number, which later steps do not change; one on a device stays there."""
    if isinstance(value, numbers.Real):
        return float(value)
    shape = getattr(value, "shape", None)
    if shape is None or math.prod(shape) != 1:
        of_shape = "" if shape is None else f" of shape {list(shape)}"
        raise TypeError(f"expected a number, not a {type(value).__name__}{of_shape}")
    if hasattr(value, "detach"):
        return value.detach().clone()
    return value.read_value() if hasattr(value, "read_value") else value.copy() if hasattr(value, "copy") else value


def number_of(value: Any) -> float:
    """A copied number, fetched from its device."""
    return float(value.item() if hasattr(value, "item") else value)
