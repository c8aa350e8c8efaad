"""The smallest model with all kinds of optimised tensors: a matrix and a vector."""

from __future__ import annotations

import keras


def build() -> keras.Model:
    """Build a model from inputs [batch, 2] to outputs [batch, 4]."""
    return keras.Sequential([keras.Input((2,)), keras.layers.Dense(4)])
