"""Operations of known size in PyTorch, to measure a device's peak rates; each engine has such a module."""

from __future__ import annotations

from collections.abc import Callable
from typing import cast

import torch

from raybench.devices.base import Device
from raybench.devices.cpu import TorchDevice
from raybench.engines.torch.engine import LOW_PRECISION

Operation = Callable[[], None]  # submits the operation to the device once; the caller waits for the device


def smallest_model() -> torch.nn.Module:
    """The smallest model with all kinds of optimized tensors, a matrix and a vector: [batch, 2] to [batch, 4]."""
    return torch.nn.Linear(2, 4)


class Operations:
    """Factory of operations on random values, in a trial's number format and memory layout.

    The values are random, since an accelerator needs less power on constant values and so may run faster.
    """

    def __init__(self, device: Device, precision: str, channels_last: bool) -> None:
        self._on = torch.device(cast(TorchDevice, device).torch_name)
        self._type = LOW_PRECISION.get(precision, torch.float32)
        self._layout = torch.channels_last if channels_last else torch.contiguous_format

    def product(self, size: int) -> Operation:
        """A product of two matrices [size, size]."""
        first, second = self._random(size, size), self._random(size, size)
        return self._repeated(lambda: first @ second)

    def convolution(self, batch: int, channels: int, side: int) -> Operation:
        """A padded 3×3 convolution of [batch, channels, side, side] to as many channels."""
        images = self._random(batch, channels, side, side).to(memory_format=self._layout)
        kernel = self._random(channels, channels, 3, 3).to(memory_format=self._layout)
        return self._repeated(lambda: torch.nn.functional.conv2d(images, kernel, padding=1))

    def addition(self, size: int) -> Operation:
        """In-place addition of `size` float32 values: two reads and one write each.

        It allocates no memory. It replaces a copy, which XLA and TensorFlow elide if they can pass on the same memory.
        """
        values, others = (torch.zeros(size, device=self._on) for _ in range(2))
        return self._repeated(lambda: values.add_(others))

    def _random(self, *shape: int) -> torch.Tensor:
        return torch.rand(shape, device=self._on).to(self._type)

    def _repeated(self, compute: Callable[[], torch.Tensor]) -> Operation:
        def operation() -> None:
            with torch.no_grad():
                result = compute()
            self._start()
            del result  # it had to exist until now, because XLA does not compute unreferenced values

        return operation

    def _start(self) -> None:
        """Do nothing: torch starts an operation when it is called."""
