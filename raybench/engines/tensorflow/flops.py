"""FLOPs and memory traffic per example of a Keras model, from its layers; see `raybench.engines.torch.flops`."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import numpy as np
from keras import layers, tree

from raybench.datasets.splits import Array

Shape = tuple[int, ...]


def count(model: Any, example: Array) -> dict[str, int | None]:
    """Count one forward pass, in evaluation mode; `train_flops` is None, as a backward pass is not counted.

    Raises:
        TypeError: a layer has a weight matrix, and the number of products with it is unknown.
    """
    calls: list[tuple[Any, Shape, Shape, int]] = []
    with _followed(model, calls):
        model(example, training=False)
    parameter_count = sum(_size(variable.shape) for variable in model.trainable_variables)
    return {
        "flops": 2 * sum(_multiply_accumulates(layer, inputs, outputs) for layer, inputs, outputs, _ in calls),
        "train_flops": None,
        "values": sum(values for *_, values in calls),
        "parameters": parameter_count,
    }


@contextmanager
def _followed(model: Any, calls: list[tuple[Any, Shape, Shape, int]]) -> Iterator[None]:
    """Record each layer call: shapes of the first input and output, and all values."""

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
    """Yield each layer that computes something of its own, once."""
    sublayers = [] if isinstance(layer, _WHOLE) else layer._flatten_layers(include_self=False, recursive=False)
    if not sublayers:
        yield layer
    for sublayer in sublayers:
        yield from _leaves(sublayer)


def _size(shape: Shape) -> int:
    return int(np.prod(shape, dtype=np.int64))


def _for_each_output(layer: Any, input_shape: Shape, output_shape: Shape) -> int:
    """Multiply-accumulates for each output value: the kernel without its output axis."""
    return _size(output_shape) * _size(layer.kernel.shape[:-1])


def _for_each_output_of_one_channel(layer: Any, input_shape: Shape, output_shape: Shape) -> int:
    return _size(output_shape) * _size(layer.kernel.shape[:-2])


def _at_each_step(layer: Any, input_shape: Shape, output_shape: Shape) -> int:
    """Multiply-accumulates per step of [batch, steps, …]: every weight of every matrix."""
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
    if hasattr(layer, "multiply_accumulates"):
        return int(layer.multiply_accumulates(input_shape, output_shape))
    for kinds, formula in _KINDS.items():
        if isinstance(layer, kinds):
            return formula(layer, input_shape, output_shape)
    if any(len(variable.shape) > 1 for variable in layer.trainable_variables):
        raise TypeError(f"it is not known what the Keras layer {layer.name} ({type(layer).__name__}) computes")
    return 0
