"""The LSTM for film reviews in Keras, as published."""

from __future__ import annotations

from typing import Any

import keras
from keras import layers

from raybench.workloads.imdb_lstm import TOKENS, WORDS


def build(recurrent_dropout: float = 0.0) -> Any:
    """Build the network of 2,691,713 parameters: tokens [N, 80] to logits [N, 1], always float32.

    Args:
        recurrent_dropout: the dropout rate between tokens; above 0 Keras uses no fused kernel.
    """
    inputs = keras.Input((TOKENS,), dtype="int64")
    out = layers.Embedding(WORDS, 128)(inputs)
    out = layers.LSTM(128, dropout=0.2, recurrent_dropout=recurrent_dropout)(out)
    out = layers.Dense(1)(out)
    return keras.Model(inputs, layers.Activation("linear", dtype="float32")(out), name="imdb_lstm")
