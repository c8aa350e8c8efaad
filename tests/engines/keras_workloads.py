"""Workloads with small Keras models, for trials in a TensorFlow process."""

import keras
import numpy as np
import tensorflow as tf

from raybench.datasets.base import Data, Split
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
    """A loss that wants more memory than any machine has."""
    return tf.reduce_sum(outputs) * tf.ones([len(targets), 1 << 46])[:, 0]


def line(root):
    random = np.random.default_rng(0)
    inputs = random.normal(size=(200, 4))
    split = Split(inputs, (inputs[:, 0] > 0).astype(int))
    return Data(split, split)


fine = Workload(model={"tensorflow": network}, dataset="digits", mean=(120.0,), std=(60.0,))
greedy = Workload(model={"tensorflow": network}, dataset="digits", loss={"tensorflow": enormous})
