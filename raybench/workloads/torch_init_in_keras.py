"""torch's defaults in Keras, for models published in PyTorch."""

from __future__ import annotations

import math
from typing import Any

import keras


def kernel() -> Any:
    """torch's initial weights of convolutions and dense layers: uniform within 1 / √fan-in."""
    return keras.initializers.VarianceScaling(scale=1 / 3, mode="fan_in", distribution="uniform")


def bias(fan_in: int) -> Any:
    """torch's initial biases: uniform within 1 / √fan-in."""
    return keras.initializers.RandomUniform(-1 / math.sqrt(fan_in), 1 / math.sqrt(fan_in))


def conv_norm_relu(inputs: Any, outputs: int) -> Any:
    """3×3 convolution without bias, batch norm, ReLU, with torch's defaults.

    The batch norm has torch's eps and momentum (.1, which is .9 in Keras's convention). [N, height, width, inputs] to
    [N, height, width, outputs]; Keras's SAME equals torch's padding of 1 here.
    """
    out = keras.layers.Conv2D(outputs, 3, padding="same", use_bias=False, kernel_initializer=kernel())(inputs)
    return keras.layers.ReLU()(keras.layers.BatchNormalization(epsilon=1e-5, momentum=0.9)(out))
