"""Weights and outputs of a Keras model as NumPy arrays.

The torch engine has a module of the same name with the same functions. Weights are in the form of
`raybench.engines.weights`, so in torch's layouts; images are float32 [N, height, width, channels], normalized. The
model must be a functional or a `Sequential` one, because the data flow of a `Model` subclass is not accessible.
"""

from __future__ import annotations

from typing import Any

import keras
import numpy as np
from keras import layers

from raybench.datasets.splits import Array
from raybench.engines.tensorflow.weight_layouts import layouts
from raybench.engines.weights import Weights, renamed


def read_weights(model: Any) -> dict[str, Array]:
    """Every parameter and every running statistic, as float32."""
    return {name: layout.to_torch(np.asarray(layout.variable)) for name, layout in layouts(model)}


def write_weights(model: Any, weights: Weights) -> None:
    """Set every parameter and running statistic.

    Raises:
        Mismatch: the weights are those of a different model.
    """
    to_write = renamed(weights, read_weights(model))
    for name, layout in layouts(model):
        layout.variable.assign(layout.to_keras(to_write[name]))


def without_dropout(model: Any) -> None:
    """Disable every dropout layer, and the dropout inside an LSTM, permanently, before the model is traced."""
    for layer in model._flatten_layers():
        if isinstance(layer, layers.Dropout):
            layer.rate = 0.0
        elif isinstance(layer, layers.LSTMCell):
            layer.dropout = layer.recurrent_dropout = 0.0


def parameter_count(model: Any) -> int:
    """Number of trained values."""
    return sum(int(np.prod(variable.shape)) for variable in model.trainable_variables)


def outputs(model: Any, inputs: Array) -> Array:
    """Outputs of the model for a batch, in evaluation mode: float32."""
    return np.asarray(model(inputs, training=False), np.float32)


def smallest() -> Any:
    """The smallest model with all kinds of optimized tensors, a matrix and a vector: [batch, 2] to [batch, 4]."""
    return keras.Sequential([keras.Input((2,)), layers.Dense(4)])
