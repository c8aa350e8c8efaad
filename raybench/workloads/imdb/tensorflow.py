"""The networks for film reviews in Keras, as published: tokens [N, …] to logits [N, 1], always float32."""

from __future__ import annotations

from typing import Any

import keras
import tensorflow as tf
from keras import layers

from raybench.workloads.imdb import BILSTM_TOKENS, CNN_TOKENS, CNN_WORDS, LSTM_TOKENS, WORDS


def bilstm() -> Any:
    """Build the bidirectional LSTM of 2,658,945 parameters."""
    inputs = keras.Input((BILSTM_TOKENS,), dtype="int64")
    out = layers.Bidirectional(layers.LSTM(64))(layers.Embedding(WORDS, 128)(inputs))
    return _one_logit(inputs, layers.Dropout(0.5)(out), "imdb_bilstm")


def lstm(recurrent_dropout: float = 0.0) -> Any:
    """Build the LSTM of 2,691,713 parameters.

    Args:
        recurrent_dropout: the dropout rate between tokens; above 0 Keras uses no fused kernel.
    """
    inputs = keras.Input((LSTM_TOKENS,), dtype="int64")
    out = layers.Embedding(WORDS, 128)(inputs)
    out = layers.LSTM(128, dropout=0.2, recurrent_dropout=recurrent_dropout)(out)
    return _one_logit(inputs, out, "imdb_lstm")


def cnn() -> Any:
    """Build the convolutional network of 350,751 parameters."""
    inputs = keras.Input((CNN_TOKENS,), dtype="int64")
    out = layers.Dropout(0.2)(layers.Embedding(CNN_WORDS, 50)(inputs))
    out = layers.GlobalMaxPooling1D()(layers.Conv1D(250, 3, activation="relu")(out))
    out = layers.ReLU()(layers.Dropout(0.2)(layers.Dense(250)(out)))
    return _one_logit(inputs, out, "imdb_cnn")


def _one_logit(inputs: Any, out: Any, name: str) -> Any:
    return keras.Model(inputs, layers.Activation("linear", dtype="float32")(layers.Dense(1)(out)), name=name)


def loss(outputs: tf.Tensor, targets: tf.Tensor) -> tf.Tensor:
    """Binary cross-entropy per example [N], from logits [N, 1] and classes 0 and 1 [N]."""
    return tf.nn.sigmoid_cross_entropy_with_logits(tf.cast(targets, outputs.dtype), outputs[:, 0])


def metrics(outputs: tf.Tensor, targets: tf.Tensor) -> dict[str, tf.Tensor]:
    """`accuracy`: 1 if the logit is above 0 exactly for class 1; [N]."""
    return {"accuracy": tf.cast((outputs[:, 0] > 0) == (targets > 0), tf.float32)}
