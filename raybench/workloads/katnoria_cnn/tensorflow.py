"""The katnoria CNN in Keras, as published."""

from __future__ import annotations

from typing import Any

import keras
from keras import layers


def build() -> Any:
    """Build the network: [N, 32, 32, 3] to logits [N, 10], always float32.

    111,498 parameters and 448 running statistics. The last layer has a ReLU, as published: no logit is below 0.
    """
    inputs = keras.Input((32, 32, 3))
    out = inputs
    for width in (32, 64, 128):
        out = layers.Conv2D(width, 3, padding="same", activation="relu")(out)
        out = layers.MaxPooling2D(3, strides=3)(layers.BatchNormalization()(out))
    out = layers.Dense(128, activation="relu")(layers.Flatten()(out))
    out = layers.Dense(10, activation="relu")(layers.Dropout(0.4)(out))
    return keras.Model(inputs, layers.Activation("linear", dtype="float32")(out), name="katnoria_cnn")
