"""Loss and metrics of two classes with one logit, in TensorFlow."""

from __future__ import annotations

import tensorflow as tf


def loss(outputs: tf.Tensor, targets: tf.Tensor) -> tf.Tensor:
    """Binary cross-entropy per example [N], from logits [N, 1] and classes 0 and 1 [N]."""
    return tf.nn.sigmoid_cross_entropy_with_logits(tf.cast(targets, outputs.dtype), outputs[:, 0])


def metrics(outputs: tf.Tensor, targets: tf.Tensor) -> dict[str, tf.Tensor]:
    """`accuracy`: 1 if the logit is above 0 exactly for class 1; [N]."""
    return {"accuracy": tf.cast((outputs[:, 0] > 0) == (targets > 0), tf.float32)}
