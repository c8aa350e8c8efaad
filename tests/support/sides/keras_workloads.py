"""Workloads with small Keras models, for trials in a TensorFlow process."""

import keras
import tensorflow as tf

from raybench.workloads.base import Workload

layers = keras.layers


def network():
    return keras.Sequential(
        [
            keras.Input((8, 8, 1)),
            layers.Conv2D(8, 3, padding="same", use_bias=False),
            layers.BatchNormalization(),
            layers.ReLU(),
            layers.Flatten(),
            layers.Dense(10),
        ]
    )


def enormous(outputs, targets):
    """A loss that wants more memory for a whole batch than any machine has."""
    width = 1 << 46 if targets.shape[0] > 2 else 1
    return outputs[:, 0] + tf.stop_gradient(tf.reduce_sum(tf.fill([targets.shape[0], width], outputs[0, 0]), axis=1))


def infinite(outputs, targets):
    return outputs[:, 0] / 0.0


fine = Workload(model={"tensorflow": network}, dataset="digits", mean=(120.0,), std=(60.0,))
greedy = Workload(model={"tensorflow": network}, dataset="digits", loss={"tensorflow": enormous})
exploding = Workload(model={"tensorflow": network}, dataset="digits", loss={"tensorflow": infinite})
