"""What a Keras model has to compute and to move for one example, counted from its layers.

The torch engine has a module of the same name with the same function.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import numpy as np
from keras import layers, tree

from raybench.datasets.splits import Array

Shape = tuple[int, ...]


def count(model: Any, example: Array) -> dict[str, int]:
    """Count one pass forward, in evaluation mode.

    Args:
        example: one input as the model takes it, [1, …].

    Returns:
        For one example, `flops`, 2 × the multiply-accumulates of convolutions and matrix products, and `values`, the
        numbers that all layers read and write beside the weights; and `parameters`, how many numbers are trained.

    Raises:
        TypeError: a layer has a matrix of weights, and it is not known how often that is multiplied with.
    """
    calls: list[tuple[Any, Shape, Shape, int]] = []
    with _followed(model, calls):
        model(example, training=False)
    parameter_count = sum(_size(variable.shape) for variable in model.trainable_variables)
    return {
        "flops": 2 * sum(_multiply_accumulates(layer, inputs, outputs) for layer, inputs, outputs, _ in calls),
        "values": sum(values for *_, values in calls),
        "parameters": parameter_count,
    }


@contextmanager
def _followed(model: Any, calls: list[tuple[Any, Shape, Shape, int]]) -> Iterator[None]:
    """While this is open, each call of a layer adds itself: its first input's and output's shape, and all values."""

    def follow(layer: Any) -> None:
        call = layer.call

        def followed(*args: Any, **kwargs: Any) -> Any:
            outputs = call(*args, **kwargs)
            input_shapes, output_shapes = (_shapes(side) for side in ((args, kwargs), outputs))
            calls.append((layer, input_shapes[0], output_shapes[0], sum(map(_size, (*input_shapes, *output_shapes)))))
            return outputs

        layer.call = followed

    leaves = list(_leaves(model))
    for layer in leaves:
        follow(layer)
    try:
        yield
    finally:
        for layer in leaves:
            del layer.call


def _shapes(values: Any) -> list[Shape]:
    return [tuple(leaf.shape) for leaf in tree.flatten(values) if hasattr(leaf, "shape")]


def _leaves(layer: Any) -> Iterator[Any]:
    """The layers that compute something of their own, each once."""
    sublayers = [] if isinstance(layer, _WHOLE) else layer._flatten_layers(include_self=False, recursive=False)
    if not sublayers:
        yield layer
    for sublayer in sublayers:
        yield from _leaves(sublayer)


def _size(shape: Shape) -> int:
    return int(np.prod(shape, dtype=np.int64))


def _for_each_output(layer: Any, input_shape: Shape, output_shape: Shape) -> int:
    """All of the kernel but the axis of outputs, for each value of the output."""
    return _size(output_shape) * _size(layer.kernel.shape[:-1])


def _for_each_output_of_one_channel(layer: Any, input_shape: Shape, output_shape: Shape) -> int:
    return _size(output_shape) * _size(layer.kernel.shape[:-2])


def _at_each_step(layer: Any, input_shape: Shape, output_shape: Shape) -> int:
    """Every weight of every matrix, at every step of [batch, steps, …]."""
    matrices = [variable.shape for variable in layer.trainable_variables if len(variable.shape) > 1]
    return input_shape[0] * input_shape[1] * sum(map(_size, matrices))


def _nothing(layer: Any, input_shape: Shape, output_shape: Shape) -> int:
    return 0


_WHOLE = (layers.RNN, layers.Bidirectional)
_KINDS: Mapping[tuple[type, ...], Callable[[Any, Shape, Shape], int]] = {
    (layers.Dense, layers.Conv1D, layers.Conv2D, layers.Conv3D): _for_each_output,
    (layers.DepthwiseConv1D, layers.DepthwiseConv2D): _for_each_output_of_one_channel,
    _WHOLE: _at_each_step,
    (layers.Embedding,): _nothing,
}


def _multiply_accumulates(layer: Any, input_shape: Shape, output_shape: Shape) -> int:
    """Those of one call of a layer, from the shapes of its first input and output."""
    for kinds, formula in _KINDS.items():
        if isinstance(layer, kinds):
            return formula(layer, input_shape, output_shape)
    if any(len(variable.shape) > 1 for variable in layer.trainable_variables):
        raise TypeError(f"it is not known what the Keras layer {layer.name} ({type(layer).__name__}) computes")
    return 0
