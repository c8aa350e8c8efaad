"""Layers, losses and metrics of both residual U-nets, in Keras and TensorFlow.

Layers have the names of their equivalents in `resunet_torch`, and defaults of torch, in which the networks were
published. Outputs and targets have the same shapes as there: the mask and the depth, [N, 2, height, width].
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import tensorflow as tf
from keras import layers

from raybench.workloads.torch_init_in_keras import kernel

SMOOTH = 1.0
"""Term added to numerator and denominator of Dice.

It gives an empty mask a value."""


def conv(inputs: Any, outputs: int, size: int, name: str) -> Any:
    """A convolution without bias that keeps the image size."""
    layer = layers.Conv2D(outputs, size, padding="same", use_bias=False, kernel_initializer=kernel(), name=name)
    return layer(inputs)


def norm(inputs: Any, name: str) -> Any:
    """torch's batch norm: eps 1e-5, momentum .1, which is .9 in Keras's convention."""
    return layers.BatchNormalization(epsilon=1e-5, momentum=0.9, name=name)(inputs)


def pre_activated(inputs: Any, outputs: int, name: str) -> Any:
    """Two sequences of batch norm, ReLU, 3×3 convolution."""
    out = conv(layers.ReLU()(norm(inputs, f"{name}.0")), outputs, 3, f"{name}.2")
    return conv(layers.ReLU()(norm(out, f"{name}.3")), outputs, 3, f"{name}.5")


def residual(inputs: Any, outputs: int, name: str) -> Any:
    """Two pre-activated convolutions plus a shortcut of a 1×1 convolution and batch norm."""
    shortcut = norm(conv(inputs, outputs, 1, f"{name}.beside.0"), f"{name}.beside.1")
    return layers.Add()([shortcut, pre_activated(inputs, outputs, f"{name}.main")])


def shuffled(inputs: Any) -> Any:
    """Pixel shuffle: a quarter of the channels and twice the height and width.

    The channels are in torch's order.
    """
    _, height, width, channels = inputs.shape
    blocks = layers.Reshape((height, width, channels // 4, 2, 2))(inputs)
    return layers.Reshape((2 * height, 2 * width, channels // 4))(layers.Permute((1, 4, 2, 5, 3))(blocks))


def up(inputs: Any, outputs: int, skips: Sequence[Any], concatenate: bool, name: str) -> Any:
    """Double the height and width, and join the encoder's outputs.

    They are added after a 1×1 convolution, or concatenated unchanged.
    """
    width = inputs.shape[-1]
    out = shuffled(conv(inputs, 4 * width, 1, f"{name}.grow"))
    if concatenate:
        out = layers.Concatenate()([out, *skips])
    else:
        out = layers.Add()([out, *(conv(skip, width, 1, f"{name}.joins.{n}") for n, skip in enumerate(skips))])
    return residual(out, outputs, f"{name}.block")


def logits(mask: Any, depth: Any) -> Any:
    """Stack both heads' [N, height, width, 1] to [N, 2, height, width], always float32."""
    both_heads = layers.Permute((3, 1, 2))(layers.Concatenate()([mask, depth]))
    return layers.Activation("linear", dtype="float32")(both_heads)


def binary(outputs: tf.Tensor, targets: tf.Tensor) -> tf.Tensor:
    """Mean binary cross-entropy over each image: twice [N, height, width] to [N]."""
    return tf.reduce_mean(tf.nn.sigmoid_cross_entropy_with_logits(targets, outputs), (1, 2))


def both(targets: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    """Mask and depth from 0 to 1, [N, height, width] each."""
    values = tf.cast(targets, tf.float32) / 255.0
    return values[:, 0], values[:, 1]


def loss_v1(outputs: tf.Tensor, targets: tf.Tensor) -> tf.Tensor:
    """Binary cross-entropy of the mask, plus twice that of the depth; [N]."""
    mask, depth = both(targets)
    return binary(outputs[:, 0], mask) + 2.0 * binary(outputs[:, 1], depth)


def loss_v2(outputs: tf.Tensor, targets: tf.Tensor) -> tf.Tensor:
    """The second version's loss; [N].

    Cross-entropy plus twice Dice of the mask, plus twice the root of the depth's mean squared error.
    """
    mask, depth = both(targets)
    predicted, axes = tf.sigmoid(outputs[:, 0]), (1, 2)
    overlap = 2.0 * tf.reduce_sum(predicted * mask, axes) + SMOOTH
    dice = 1.0 - overlap / (tf.reduce_sum(predicted, axes) + tf.reduce_sum(mask, axes) + SMOOTH)
    error = tf.reduce_mean((tf.sigmoid(outputs[:, 1]) - depth) ** 2, axes)
    return binary(outputs[:, 0], mask) + 2.0 * dice + 2.0 * tf.sqrt(error + 1e-6)


def metrics(outputs: tf.Tensor, targets: tf.Tensor) -> dict[str, tf.Tensor]:
    """`mask_iou` and `depth_rmse`; [N].

    Intersection over union (1 if both are empty), and the root mean squared error relative to the range.
    """
    mask, depth = both(targets)
    predicted, actual, axes = outputs[:, 0] > 0, mask > 0.5, (1, 2)
    common = tf.reduce_sum(tf.cast(predicted & actual, tf.float32), axes)
    union = tf.reduce_sum(tf.cast(predicted | actual, tf.float32), axes)
    iou = tf.where(union > 0, common / tf.maximum(union, 1.0), 1.0)
    return {"mask_iou": iou, "depth_rmse": tf.sqrt(tf.reduce_mean((tf.sigmoid(outputs[:, 1]) - depth) ** 2, axes))}
