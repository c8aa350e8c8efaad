"""Operations of known size in PyTorch, to find out what a device can do at best.

Each engine has a module of this name with a class `Operations` like this one.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import cast

import torch

from raybench.devices.base import Device, TorchDevice
from raybench.engines.torch.precision import LOW_PRECISION

Operation = Callable[[], None]
"""Hands the operation to the device once; whoever times it waits for the device."""


class Operations:
    """Makes operations on random values, in the number format and memory layout that a trial computes in.

    Random, since an accelerator needs less power, and so may run faster, on values that are all the same.
    """

    def __init__(self, device: Device, precision: str, channels_last: bool) -> None:
        self._on = torch.device(cast(TorchDevice, device).torch_name)
        self._type = LOW_PRECISION.get(precision, torch.float32)
        self._layout = torch.channels_last if channels_last else torch.contiguous_format

    def product(self, size: int) -> Operation:
        """A product of two matrices [size, size]."""
        left, right = self._random(size, size), self._random(size, size)
        return self._repeated(lambda: left @ right)

    def convolution(self, batch: int, channels: int, side: int) -> Operation:
        """A convolution 3×3, padded, of [batch, channels, side, side] to as many channels."""
        pictures = self._random(batch, channels, side, side).to(memory_format=self._layout)
        kernel = self._random(channels, channels, 3, 3).to(memory_format=self._layout)
        return self._repeated(lambda: torch.nn.functional.conv2d(pictures, kernel, padding=1))

    def addition(self, size: int) -> Operation:
        """Adds `size` float32 values to as many others in place: two reads and a write of each, no memory to find.

        It stands for a copy, which XLA and TensorFlow do not make where they can pass the same memory on.
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
            del result  # it had to be there until now: XLA computes nothing that nobody holds

        return operation

    def _start(self) -> None:
        """Nothing: torch starts an operation when it is called."""
