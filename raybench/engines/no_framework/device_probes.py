"""An operation of known size in NumPy, for canaries of trials without a framework."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from raybench.devices.base import Device


class Operations:
    """Factory of operations on random values, in float32 on the host."""

    def __init__(self, device: Device, precision: str, channels_last: bool) -> None:
        self._random = np.random.default_rng(0)

    def product(self, size: int) -> Callable[[], None]:
        """A product of two matrices [size, size]."""
        left, right = (self._random.normal(size=(size, size)).astype(np.float32) for _ in range(2))
        result = np.empty_like(left)

        def operation() -> None:
            np.matmul(left, right, out=result)

        return operation
