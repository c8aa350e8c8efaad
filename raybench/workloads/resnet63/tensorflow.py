"""The residual network of 63 convolutions in Keras, as published; layers have the names of torch's."""

from __future__ import annotations

from typing import Any

import keras
from keras import layers


def conv_norm(inputs: Any, name: str, width: int, size: int = 3, stride: int = 1) -> Any:
    """Convolution with TensorFlow's SAME padding, and batch norm."""
    out = layers.Conv2D(width, size, strides=stride, padding="same", name=name)(inputs)
    return layers.BatchNormalization(name=f"{name}_norm")(out)


def block(inputs: Any, name: str, width: int, stride: int) -> Any:
    """Two 3×3 convolutions plus a shortcut, with a 1×1 convolution if the size changes."""
    out = layers.ReLU()(conv_norm(inputs, f"{name}.first", width, stride=stride))
    out = conv_norm(out, f"{name}.second", width)
    shortcut = inputs if stride == 1 else conv_norm(inputs, f"{name}.project", width, 1, stride)
    return layers.ReLU()(layers.Add()([out, shortcut]))


def build() -> Any:
    """Build the network of 15,187,722 parameters: [N, 32, 32, 3] to logits [N, 10], always float32."""
    inputs = keras.Input((32, 32, 3))
    out = layers.ReLU()(conv_norm(inputs, "stem", 64))
    for index, width in enumerate([64] * 10 + [128] * 10 + [256] * 10):
        out = block(out, f"blocks.{index}", width, 1 if width == out.shape[-1] else 2)
    out = layers.Dense(10, name="head")(layers.GlobalAveragePooling2D()(out))
    return keras.Model(inputs, layers.Activation("linear", dtype="float32")(out), name="resnet63")
