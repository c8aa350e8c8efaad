"""Replicas with separate batch statistics, computed together on one device."""

from __future__ import annotations

import math
from typing import Any

import keras
import tensorflow as tf


class GhostBatchNormalization(keras.layers.BatchNormalization):  # type: ignore[misc]
    """Batch norm with the statistics of `groups` contiguous parts of the batch.

    In training each part [batch / groups, …] is normalised by its own mean and biased variance, in one computation, and
    the running statistics are updated by the mean of both over the parts, which equals the average over real replicas.
    In evaluation it is plain batch norm.
    """

    groups: int

    def call(self, inputs: Any, training: bool | None = None, mask: Any = None) -> Any:
        """Normalise [batch, …] to the same shape.

        Raises:
            ValueError: the batch cannot be divided into the groups, or there is a mask.
        """
        if not (training and self.trainable):
            return super().call(inputs, training=False, mask=mask)
        if mask is not None:
            raise ValueError(f"{self.name}: a masked batch norm cannot be divided into replicas")
        batch, *dims = inputs.shape
        if batch % self.groups:
            raise ValueError(f"a batch of {batch} cannot be divided into {self.groups} replicas")
        channels, behind = inputs.shape[self.axis], math.prod(inputs.shape[self.axis % len(inputs.shape) + 1 :])
        values = tf.cast(tf.reshape(inputs, [self.groups, -1, channels, behind]), self.variable_dtype)
        means, variances = tf.nn.moments(values, [1, 3], keepdims=True)
        for moving, group_values in ((self.moving_mean, means), (self.moving_variance, variances)):
            mean = tf.reshape(tf.reduce_mean(group_values, axis=0), [channels])
            moving.assign(moving * self.momentum + mean * (1.0 - self.momentum))
        scale = tf.reshape(self.gamma, [channels, 1]) if self.scale else None
        offset = tf.reshape(self.beta, [channels, 1]) if self.center else None
        outputs = tf.nn.batch_normalization(values, means, variances, offset, scale, self.epsilon)
        return tf.cast(tf.reshape(outputs, [batch, *dims]), self.compute_dtype)


def use_ghost_batch_norm(model: keras.Model, groups: int) -> None:
    """Give each of `groups` parts of a batch its own statistics, in place.

    Weights and names are unchanged.

    Raises:
        ValueError: a batch norm that computes its statistics differently.
    """
    norms = (layer for layer in model._flatten_layers() if isinstance(layer, keras.layers.BatchNormalization))
    for layer in norms:
        if type(layer) is not keras.layers.BatchNormalization or layer.synchronized or layer.renorm:
            raise ValueError(f"{layer.name}: only a plain BatchNormalization can be divided into replicas")
        layer.__class__ = GhostBatchNormalization
        layer.groups = groups
