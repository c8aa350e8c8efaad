"""The convolution for film reviews in Keras, as published."""

from __future__ import annotations

from typing import Any

import keras
from keras import layers

from raybench.workloads.imdb_cnn import TOKENS, WORDS


def build() -> Any:
    """Build the network of 350,751 parameters: tokens [N, 400] to logits [N, 1], always float32."""
    inputs = keras.Input((TOKENS,), dtype="int64")
    out = layers.Dropout(0.2)(layers.Embedding(WORDS, 50)(inputs))
    out = layers.GlobalMaxPooling1D()(layers.Conv1D(250, 3, activation="relu")(out))
    out = layers.ReLU()(layers.Dropout(0.2)(layers.Dense(250)(out)))
    out = layers.Dense(1)(out)
    return keras.Model(inputs, layers.Activation("linear", dtype="float32")(out), name="imdb_cnn")
