"""The MNIST CNN in Keras, as published."""

from __future__ import annotations

from typing import Any

import keras
from keras import layers


def build() -> Any:
    """Build the network of 250,698 parameters: [N, 28, 28, 1] to logits [N, 10], always float32."""
    inputs = keras.Input((28, 28, 1))
    out = inputs
    for width, size, stride in ((6, 3, 1), (12, 6, 2), (24, 6, 2)):
        out = layers.Conv2D(width, size, strides=stride, padding="same", use_bias=False)(out)
        out = layers.ReLU()(layers.BatchNormalization()(out))
    out = layers.Dense(200, use_bias=False)(layers.Flatten()(out))
    out = layers.Dropout(0.5)(layers.ReLU()(layers.BatchNormalization()(out)))
    out = layers.Dense(10, use_bias=False)(out)
    return keras.Model(inputs, layers.Activation("linear", dtype="float32")(out), name="mnist_cnn")
