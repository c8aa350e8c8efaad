"""Replicas with separate batch statistics, computed together on one device."""

from __future__ import annotations

from typing import Any

import keras
import tensorflow as tf


class GhostBatchNormalization(keras.layers.BatchNormalization):  # type: ignore[misc]
    """Batch norm with the statistics of `groups` contiguous parts of the batch.

    In training each part [batch / groups, …] is normalised by itself, and the running statistics become the mean of
    what each part would make of them, which equals the average over real replicas. In evaluation it is plain batch
    norm.
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
        if inputs.shape[0] % self.groups:
            raise ValueError(f"a batch of {inputs.shape[0]} cannot be divided into {self.groups} replicas")
        running = (self.moving_mean, self.moving_variance)
        start, outputs, ends = [tf.identity(variable.value) for variable in running], [], []
        for part in tf.split(inputs, self.groups):
            for variable, value in zip(running, start, strict=True):
                variable.assign(value)
            outputs.append(super().call(part, training=True))
            ends.append([tf.identity(variable.value) for variable in running])
        for variable, *values in zip(running, *ends, strict=True):
            variable.assign(tf.add_n(values) / self.groups)
        return tf.concat(outputs, 0)


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
