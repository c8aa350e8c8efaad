"""Replicas with separate batch statistics, on one device or on several."""

from __future__ import annotations

import math
from collections.abc import Sequence
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


def batch_norms(model: keras.Model) -> list[keras.layers.BatchNormalization]:
    """All batch norms of a model, including those of nested models."""
    return [layer for layer in model._flatten_layers() if isinstance(layer, keras.layers.BatchNormalization)]


def use_ghost_batch_norm(model: keras.Model, groups: int) -> None:
    """Give each of `groups` parts of a batch its own statistics, in place.

    Weights and names are unchanged.

    Raises:
        ValueError: a batch norm that computes its statistics differently.
    """
    for layer in batch_norms(model):
        if type(layer) is not keras.layers.BatchNormalization or layer.synchronized or layer.renorm:
            raise ValueError(f"{layer.name}: only a plain BatchNormalization can be divided into replicas")
        layer.__class__ = GhostBatchNormalization
        layer.groups = groups


def constant_replica() -> int | None:
    """The index of this replica; None on a TPU, where one program computes all replicas."""
    replica = tf.get_static_value(tf.distribute.get_replica_context().replica_id_in_sync_group)
    return None if replica is None else int(replica)


def share(values: tf.Tensor) -> tf.Tensor:
    """This replica's part of a batch; the whole batch on a single device.

    Replica r gets the r-th of as many parts as there are devices.
    """
    context = tf.distribute.get_replica_context()
    if context.num_replicas_in_sync == 1:
        return values
    batch, *dims = values.shape
    replicas = tf.reshape(values, [context.num_replicas_in_sync, batch // context.num_replicas_in_sync, *dims])
    replica = constant_replica()
    # TensorFlow has no GPU kernel that gathers uint8.
    return tf.gather(replicas, context.replica_id_in_sync_group) if replica is None else replicas[replica]


def average(gradients: Sequence[tf.Tensor | None]) -> list[tf.Tensor | None]:
    """Mean gradients over the devices; None for a variable without a gradient."""
    context = tf.distribute.get_replica_context()
    if context.num_replicas_in_sync == 1:
        return list(gradients)
    tensors = [tf.convert_to_tensor(gradient) for gradient in gradients if gradient is not None]
    means = iter(context.all_reduce(tf.distribute.ReduceOp.MEAN, tensors))
    return [None if gradient is None else next(means) for gradient in gradients]


def average_running_statistics(model: keras.Model, strategy: Any) -> None:
    """Set running statistics to their mean over the devices."""
    for layer in batch_norms(model):
        for running in (layer.moving_mean, layer.moving_variance):
            local_values = strategy.experimental_local_results(running.value)
            running.value.assign(tf.add_n([tf.convert_to_tensor(local) for local in local_values]) / len(local_values))


def part_draws(model: keras.Model, strategy: Any) -> None:
    """Let dropout draw separately on each device.

    Keras would drop the same positions on all of them.
    """
    generators = [generator for layer in model._flatten_layers() for generator in layer._seed_generators]
    for generator in generators:
        for replica, state in enumerate(strategy.experimental_local_results(generator.state.value)):
            state.assign_add(tf.constant([replica, 0], state.dtype))
