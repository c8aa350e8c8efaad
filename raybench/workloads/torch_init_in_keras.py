"""torch's defaults in Keras, for models that were published in PyTorch."""

from __future__ import annotations

import math
from typing import Any

import keras


def kernel() -> Any:
    """How torch draws the weights of convolutions and dense layers: uniform, at most 1 / √fan-in."""
    return keras.initializers.VarianceScaling(scale=1 / 3, mode="fan_in", distribution="uniform")


def bias(fan_in: int) -> Any:
    """How torch draws their biases: from the same interval."""
    return keras.initializers.RandomUniform(-1 / math.sqrt(fan_in), 1 / math.sqrt(fan_in))


def conv_norm_relu(inputs: Any, outputs: int) -> Any:
    """Convolution 3×3 without bias, batch norm with torch's eps and momentum (.1, which Keras counts as .9), ReLU.

    [N, height, width, inputs] to [N, height, width, outputs]; Keras's SAME is torch's padding of 1 here.
    """
    out = keras.layers.Conv2D(outputs, 3, padding="same", use_bias=False, kernel_initializer=kernel())(inputs)
    return keras.layers.ReLU()(keras.layers.BatchNormalization(epsilon=1e-5, momentum=0.9)(out))
