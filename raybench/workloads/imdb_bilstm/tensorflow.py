"""The bidirectional LSTM for film reviews in Keras, as published."""

from __future__ import annotations

from typing import Any

import keras
from keras import layers

from raybench.workloads.imdb_bilstm import TOKENS, WORDS


def build() -> Any:
    """Build the network of 2,658,945 parameters: tokens [N, 100] to logits [N, 1], always float32."""
    inputs = keras.Input((TOKENS,), dtype="int64")
    out = layers.Bidirectional(layers.LSTM(64))(layers.Embedding(WORDS, 128)(inputs))
    out = layers.Dense(1)(layers.Dropout(0.5)(out))
    return keras.Model(inputs, layers.Activation("linear", dtype="float32")(out), name="imdb_bilstm")
