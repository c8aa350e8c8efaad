"""The residual U-net in Keras.

Layers have the names of their equivalents in PyTorch, in which the network was published, and torch's defaults. Outputs
and targets have the same shapes as there.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import keras
import tensorflow as tf
from keras import layers

from raybench.workloads.resunet import SIDE, WIDTHS
from raybench.workloads.torch_init_in_keras import kernel


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
    shortcut = norm(conv(inputs, outputs, 1, f"{name}.shortcut.0"), f"{name}.shortcut.1")
    return layers.Add()([shortcut, pre_activated(inputs, outputs, f"{name}.main")])


def pixel_shuffle(inputs: Any) -> Any:
    """A quarter of the channels and twice the height and width; the channels are in torch's order."""
    _, height, width, channels = inputs.shape
    blocks = layers.Reshape((height, width, channels // 4, 2, 2))(inputs)
    return layers.Reshape((2 * height, 2 * width, channels // 4))(layers.Permute((1, 4, 2, 5, 3))(blocks))


def up(inputs: Any, outputs: int, skips: Sequence[Any], concatenate: bool, name: str) -> Any:
    """Double the height and width, and join the skip connections.

    They are added, after a 1×1 convolution, or concatenated.
    """
    width = inputs.shape[-1]
    out = pixel_shuffle(conv(inputs, 4 * width, 1, f"{name}.grow"))
    if concatenate:
        out = layers.Concatenate()([out, *skips])
    else:
        total = layers.Add()(skips) if len(skips) > 1 else skips[0]
        out = layers.Add()([out, conv(total, width, 1, f"{name}.join")])
    return residual(out, outputs, f"{name}.block")


def build(skip: str = "add", side: int = SIDE) -> Any:
    """Build the network: [N, side, side, 6] to logits [N, 2, side, side], always float32.

    30,264,844 parameters, with `concat` 39,847,052.

    Args:
        skip: "add" or "concat".
        side: of the images; the weights are independent of it.
    """
    if skip not in ("add", "concat"):
        raise ValueError(f"model.skip: {skip!r} is neither 'add' nor 'concat'")
    inputs = keras.Input((side, side, 6))
    encoded, out = [], inputs
    for index, width in enumerate(WIDTHS):
        encoded.append(residual(out, width, f"down.{index}"))
        out = layers.MaxPooling2D(2)(encoded[-1])
    mask = depth = pre_activated(out, 512, "bridge")
    for index, (width, values) in enumerate(zip(reversed(WIDTHS), reversed(encoded), strict=True)):
        depth = up(depth, width, [values], skip == "concat", f"depth.{index}")
        mask = up(mask, width, [values, depth], skip == "concat", f"mask.{index}")
    heads = [conv(mask, 1, 1, "mask_head"), conv(depth, 1, 1, "depth_head")]
    logits = layers.Permute((3, 1, 2))(layers.Concatenate()(heads))
    return keras.Model(inputs, layers.Activation("linear", dtype="float32")(logits), name="resunet")


def loss(outputs: tf.Tensor, targets: tf.Tensor) -> tf.Tensor:
    """Binary cross-entropy of the mask plus twice that of the depth; [N].

    Args:
        outputs: logits of the mask and the depth, [N, 2, height, width].
        targets: bytes of the same shape.
    """
    values = tf.cast(targets, tf.float32) / 255.0
    means = tf.reduce_mean(tf.nn.sigmoid_cross_entropy_with_logits(values, outputs), (2, 3))
    return means[:, 0] + 2.0 * means[:, 1]


def metrics(outputs: tf.Tensor, targets: tf.Tensor) -> dict[str, tf.Tensor]:
    """`mask_iou`: intersection over union, 1 if both are empty; [N]."""
    predicted, actual = outputs[:, 0] > 0, targets[:, 0] > 127
    common, union = (
        tf.reduce_sum(tf.cast(mask, tf.float32), (1, 2)) for mask in (predicted & actual, predicted | actual)
    )
    return {"mask_iou": tf.where(union > 0, common / tf.maximum(union, 1.0), 1.0)}
