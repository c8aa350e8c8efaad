"""A Keras model of every kind of layer that can be converted, told from inside a TensorFlow process."""

from __future__ import annotations

from typing import Any

import keras
import numpy as np
from keras import layers

from raybench.engines.tensorflow import inspection
from raybench.engines.weights import Mismatch


def build() -> Any:
    """Nested, with a flattened picture before a batch norm and, past layers without weights, a dense layer."""
    return keras.Sequential(
        [
            keras.Input((6, 5, 2)),
            keras.Sequential([layers.Conv2D(3, (3, 2)), layers.BatchNormalization(), layers.ReLU()]),
            layers.Conv2D(4, 2, strides=2, use_bias=False),
            layers.Flatten(),
            layers.BatchNormalization(epsilon=1e-5),
            layers.Activation("tanh"),
            layers.Dropout(0.5),
            layers.Dense(7),
            layers.BatchNormalization(scale=False),
            layers.Dense(3, use_bias=False),
        ]
    )


def taken(weights: str, inputs: str, answers: str) -> dict[str, Any]:
    """Set a model's weights from a file, and write what it makes of inputs to another."""
    model, given = build(), dict(np.load(weights))
    inspection.without_dropout(model)
    inspection.write_weights(model, given)
    back = inspection.read_weights(model)
    np.save(answers, inspection.outputs(model, np.load(inputs)))
    return {
        "exact": all(np.array_equal(*pair) for pair in zip(given.values(), back.values(), strict=True)),
        "names": list(back),
        "shapes": [list(array.shape) for array in back.values()],
        "parameters": inspection.parameter_count(model),
    }


def refused(weights: str) -> str:
    """Why a model does not take the weights in a file."""
    try:
        inspection.write_weights(build(), dict(np.load(weights)))
    except Mismatch as error:
        return str(error)
    return ""


def unknown() -> str:
    """Why a model of another kind of layer cannot be read."""
    try:
        inspection.read_weights(keras.Sequential([keras.Input((4, 2)), layers.GRU(3)]))
    except TypeError as error:
        return str(error)
    return ""
