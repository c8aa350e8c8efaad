"""DavidNet in Keras."""

from __future__ import annotations

from typing import Any

import keras
from keras import layers

from raybench.workloads.torch_init_in_keras import conv_norm_relu, kernel


def halved(inputs: Any, outputs: int) -> Any:
    """A convolution, then 2×2 pooling."""
    return layers.MaxPooling2D(2)(conv_norm_relu(inputs, outputs))


def residual(inputs: Any) -> Any:
    """The input plus two convolutions of it."""
    width = inputs.shape[-1]
    return layers.Add()([inputs, conv_norm_relu(conv_norm_relu(inputs, width), width)])


def build(width: int = 64) -> Any:
    """Build the network, with a width of 64 of 6,573,120 parameters: [N, 32, 32, 3] to logits [N, 10], float32."""
    inputs = keras.Input((32, 32, 3))
    out = residual(halved(conv_norm_relu(inputs, width), 2 * width))
    out = residual(halved(halved(out, 4 * width), 8 * width))
    out = layers.GlobalMaxPooling2D()(out)
    out = layers.Dense(10, use_bias=False, kernel_initializer=kernel())(out)
    return keras.Model(inputs, layers.Rescaling(0.125, dtype="float32")(out), name="davidnet")
