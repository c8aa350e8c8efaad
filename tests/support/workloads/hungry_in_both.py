"""One workload in torch and in TensorFlow that takes a mebibyte for each example of a batch, and in evaluation two
gibibytes for a batch of 32: with the largest that is halved no more, it never fits."""

import numpy as np

from raybench import Data, Split, Workload

MIB = 1 << 20
FEWEST = 32


def data(root):
    inputs = np.linspace(-1, 1, 1000, dtype=np.float32)[:, None]
    split = Split(inputs, (inputs[:, 0] > 0).astype(int))
    return Data(split, split)


def each(batch, training):
    """Bytes for each example."""
    return 64 * MIB if batch <= FEWEST and not training else MIB


def in_torch():
    import torch

    class Hungry(torch.nn.Linear):
        def forward(self, inputs):
            torch.ones(len(inputs), each(len(inputs), self.training), dtype=torch.uint8)
            return super().forward(inputs)

    return Hungry(1, 2)


def in_tensorflow():
    import keras
    import tensorflow as tf

    class Hungry(keras.layers.Layer):
        def call(self, inputs, training=False):
            batch = inputs.shape[0]
            if batch is None or batch <= 2:  # where the model is only built and looked at
                return inputs
            taken = tf.fill([batch, each(batch, training) // 4], inputs[0, 0])
            return inputs + 0 * tf.stop_gradient(tf.reduce_max(taken))

    return keras.Sequential([keras.Input((1,)), Hungry(), keras.layers.Dense(2)])


hungry = Workload(model={"torch": in_torch, "tensorflow": in_tensorflow}, data=data)
