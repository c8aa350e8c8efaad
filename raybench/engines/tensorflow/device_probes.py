"""Operations of known size in TensorFlow, to measure a device's peak rates."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import keras
import tensorflow as tf

from raybench.devices.base import Device
from raybench.engines.tensorflow.engine import POLICIES

Operation = Callable[[], Any]  # submits the operation to the device once; the caller waits for the device


def smallest_model() -> keras.Model:
    """As in `raybench.engines.torch.device_probes`."""
    return keras.Sequential([keras.Input((2,)), keras.layers.Dense(4)])


class Operations:
    """Factory of operations on random values, in a trial's number format and with channels last."""

    def __init__(self, device: Device, precision: str, channels_last: bool) -> None:
        self._type = POLICIES[precision].removeprefix("mixed_")

    def product(self, size: int) -> Operation:
        """A product of two matrices [size, size]."""
        first, second = self._random(size, size), self._random(size, size)
        return lambda: tf.matmul(first, second)

    def convolution(self, batch: int, channels: int, side: int) -> Operation:
        """A padded 3×3 convolution of [batch, side, side, channels] to as many channels."""
        images, kernel = self._random(batch, side, side, channels), self._random(3, 3, channels, channels)
        return lambda: tf.nn.conv2d(images, kernel, 1, "SAME")

    def addition(self, size: int) -> Operation:
        """In-place addition of `size` float32 values: two reads and one write each, without new memory."""
        values, others = tf.Variable(tf.zeros(size)), tf.zeros(size)
        return lambda: values.assign_add(others)

    def _random(self, *shape: int) -> tf.Tensor:
        return tf.cast(tf.random.uniform(shape), self._type)
