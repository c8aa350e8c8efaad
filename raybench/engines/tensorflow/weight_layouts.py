"""Mapping of a Keras layer's variables to torch's roles and layouts."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import keras
import numpy as np
from keras import layers

from raybench.datasets.splits import Array


@dataclass(frozen=True)
class Layout:
    """One variable of a Keras layer, with conversions to torch's array and back.

    Attributes:
        role: torch's name within its layer.
        variable: Keras's variable.
        inner: its shape with separate axes, including those that Keras merges.
        order: torch's order of those axes.
        shape: torch's shape.
    """

    role: str
    variable: Any
    inner: tuple[int, ...]
    order: tuple[int, ...]
    shape: tuple[int, ...]

    def to_torch(self, array: Array) -> Array:
        """Convert an array from Keras's layout to torch's."""
        return np.ascontiguousarray(array.reshape(self.inner).transpose(self.order)).reshape(self.shape)

    def to_keras(self, array: Array) -> Array:
        """Convert an array from torch's layout to Keras's."""
        ordered = array.reshape([self.inner[axis] for axis in self.order])
        return ordered.transpose(np.argsort(self.order)).reshape(self.variable.shape)


def layouts(model: Any) -> Iterator[tuple[str, Layout]]:
    """Yield `layer.role` and the layout of every variable of a model.

    The order is layer by layer, as in the model.

    Raises:
        TypeError: a layer with weights is of a kind without a known torch layer.
    """
    for layer in _leaves(model):
        if not layer.weights:
            continue
        table = next((_KINDS[kind] for kind in type(layer).__mro__ if kind in _KINDS), None)
        if table is None:
            names = ", ".join(sorted(kind.__name__ for kind in _KINDS))
            raise TypeError(
                f"no torch layer is known for the Keras layer {layer.name} ({type(layer).__name__}): {names}"
            )
        for layout in table(layer):
            yield f"{layer.name}.{layout.role}", layout


def _leaves(model: Any) -> Iterator[Any]:
    for layer in model.layers:
        if hasattr(layer, "layers"):
            yield from _leaves(layer)
        else:
            yield layer


def _turned(role: str, variable: Any, *order: int) -> Layout:
    shape = tuple(variable.shape)
    return Layout(role, variable, shape, order, tuple(shape[axis] for axis in order))


def _with_bias(layer: Any, weight: Layout) -> Iterator[Layout]:
    yield weight
    if layer.use_bias:
        yield _turned("bias", layer.bias, 0)


def _convolution(layer: Any) -> Iterator[Layout]:
    """[height, width, in, out], in 1D without a width, becomes torch's [out, in, height, width]."""
    axes = range(len(layer.kernel.shape) - 2)
    return _with_bias(layer, _turned("weight", layer.kernel, len(axes) + 1, len(axes), *axes))


def _dense(layer: Any) -> Iterator[Layout]:
    """[in, out] becomes torch's [out, in].

    After a flattened image, Keras's `in` is ordered by height, width, channel and torch's by channel, height, width.
    """
    image = _flattened(layer)
    if image is None:
        return _with_bias(layer, _turned("weight", layer.kernel, 1, 0))
    outputs = layer.kernel.shape[-1]
    weight = Layout("weight", layer.kernel, (*image, outputs), (3, 2, 0, 1), (outputs, math.prod(image)))
    return _with_bias(layer, weight)


def _batch_norm(layer: Any) -> Iterator[Layout]:
    """One value per channel, or per value of a directly preceding flattened image."""
    variables = {
        "weight": layer.gamma if layer.scale else None,
        "bias": layer.beta if layer.center else None,
        "running_mean": layer.moving_mean,
        "running_var": layer.moving_variance,
    }
    image = _flattened(layer)
    for role, variable in variables.items():
        if variable is not None and image is None:
            yield _turned(role, variable, 0)
        elif variable is not None:
            yield Layout(role, variable, image or (), (2, 0, 1), tuple(variable.shape))


def _layer_norm(layer: Any) -> Iterator[Layout]:
    yield _turned("weight", layer.gamma, 0)
    yield _turned("bias", layer.beta, 0)


def _embedding(layer: Any) -> Iterator[Layout]:
    yield _turned("weight", layer.embeddings, 0, 1)


def _lstm(layer: Any, direction: str = "") -> Iterator[Layout]:
    """Both have the same order of gates; torch's second bias is frozen at zero, and not a weight."""
    cell = layer.cell
    yield _turned(f"weight_ih_l0{direction}", cell.kernel, 1, 0)
    yield _turned(f"weight_hh_l0{direction}", cell.recurrent_kernel, 1, 0)
    yield _turned(f"bias_ih_l0{direction}", cell.bias, 0)


def _both_ways(layer: Any) -> Iterator[Layout]:
    yield from _lstm(layer.forward_layer)
    yield from _lstm(layer.backward_layer, "_reverse")


_KINDS: Mapping[Any, Any] = {
    layers.Conv1D: _convolution,
    layers.Conv2D: _convolution,
    layers.Dense: _dense,
    layers.BatchNormalization: _batch_norm,
    layers.Embedding: _embedding,
    layers.LayerNormalization: _layer_norm,
    layers.LSTM: _lstm,
    layers.Bidirectional: _both_ways,
}

_EACH_BY_ITSELF = (layers.Activation, layers.BatchNormalization, layers.Dropout, layers.ReLU, layers.Rescaling)
"""Layers that keep the order of all values."""


def _flattened(layer: Any) -> tuple[int, int, int] | None:
    """Height, width and channels of the flattened layer input.

    Returns:
        None if the input is not flattened.
    """
    tensor = layer.input
    while True:
        operation = tensor._keras_history.operation
        if isinstance(operation, layers.Flatten):
            shape = tuple(operation.input.shape[1:])
            return shape if len(shape) == 3 else None
        if not isinstance(operation, _EACH_BY_ITSELF) or isinstance(operation, keras.layers.InputLayer):
            return None
        tensor = operation.input
