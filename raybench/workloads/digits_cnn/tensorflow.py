"""The digits CNN in Keras."""

from __future__ import annotations

from typing import Any

import keras
from keras import layers

from raybench.workloads.torch_init_in_keras import bias, conv_norm_relu, kernel


def build() -> Any:
    """Build the network of 75,114 parameters: [N, 8, 8, 1] to logits [N, 10], always float32."""
    inputs = keras.Input((8, 8, 1))
    out = inputs
    for width in (32, 32, 32):
        out = conv_norm_relu(out, width)
    out = layers.MaxPooling2D(2)(out)
    for width in (64, 64):
        out = conv_norm_relu(out, width)
    out = layers.Dropout(0.25)(layers.GlobalAveragePooling2D()(out))
    out = layers.Dense(10, kernel_initializer=kernel(), bias_initializer=bias(64))(out)
    return keras.Model(inputs, layers.Activation("linear", dtype="float32")(out), name="digits_cnn")
