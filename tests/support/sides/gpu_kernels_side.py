"""Which operations of the TensorFlow engine's graphs a GPU can run, by TensorFlow's registry of kernels.

The build of TensorFlow for Linux on x86-64 contains the GPU kernels, so that the registry lists them without a GPU.
"""

import sys
from collections.abc import Iterator
from functools import cache
from typing import Any

import numpy as np
import tensorflow as tf
from support.published import MODELS
from support.sides.tensorflow_side import make_engine
from tensorflow.python.framework import kernels

from raybench import workloads
from raybench.datasets.splits import Data, Split

EXAMPLES = {"train": 12, "val": 8}
LARGE = 4096
"""Bytes; tensors above this size should not be in host memory."""


def built_with_gpu_kernels() -> bool:
    return bool(tf.test.is_built_with_cuda())


def data_of(name: str) -> Data:
    """A few random examples in the form of a workload's data: images and masks are bytes, tokens int64."""
    known = MODELS[name]

    def split(count: int) -> Split:
        inputs = known.inputs(count)
        return Split(inputs if known.words else (inputs * 50 + 128).astype(np.uint8), known.targets(count))

    return Data(*map(split, EXAMPLES.values()))


def unsupported(name: str, **how: Any) -> list[str]:
    """The operations of a training step and of an evaluation step that do not run on a GPU."""
    return sorted({line for graph in graphs_of(name, **how) for line in lines(graph)})


def operation_types(name: str) -> list[str]:
    """The types of the operations that a workload has on a GPU."""
    graphs = graphs_of(name, as_on_gpu=True)
    return sorted({operation.type for graph in graphs for operation in operations(graph, set())})


def unsupported_examples() -> list[str]:
    """The lines of a function with a gather of bytes, inside a loop, and a large product of int32."""

    @tf.function
    def function(values: tf.Tensor, index: tf.Tensor) -> tf.Tensor:
        condition = lambda step, _: step < 2  # noqa: E731
        _, rows = tf.while_loop(condition, lambda step, _: (step + 1, tf.gather(values, index)), (0, values))
        large = tf.cast(rows, tf.int32)
        return large * large

    values = tf.zeros([32, 64], tf.uint8)
    return sorted(set(lines(function.get_concrete_function(values, tf.range(32, dtype=tf.int64)).graph)))


def graphs_of(name: str, as_on_gpu: bool = False, **changes: Any) -> Iterator[Any]:
    """The graphs of the compiled functions of a workload, traced with real arguments but not run.

    Args:
        as_on_gpu: let Keras choose as if there were a GPU: cuDNN's LSTM.
    """
    workload = workloads.get(name)
    settings = {"batch_size": 4, "evaluation_batch_size": 4} | changes
    engine, _ = make_engine(
        lambda: workload.build_model("tensorflow"),
        data_of(name),
        loss=workload.loss_for("tensorflow"),
        metrics=workload.metrics_for("tensorflow"),
        mean=workload.mean,
        std=workload.std,
        **settings,
    )
    if as_on_gpu:
        sys.modules["keras.src.backend.tensorflow.rnn"]._is_gpu_available = lambda: True
    order = engine._order.epoch()
    steps = engine._recipe.steps_per_execution
    fed = next(engine._input.calls(order, steps))
    call = map(tf.constant, (0, 0, steps))
    yield engine._train.get_concrete_function(engine._rows(order), fed, *call).graph
    fed, count = next(engine._input.validation(engine._judged_batch()))
    yield engine._evaluate.get_concrete_function(fed, tf.constant(count)).graph


def lines(graph: Any) -> Iterator[str]:
    """One line for each kind of operation that a GPU cannot run, in a graph and the functions it calls."""
    for operation in operations(graph, set()):
        kernel = gpu_kernel(operation)
        types = ", ".join(f"{name}={kind.name}" for name, kind in types_of(operation).items())
        if kernel is None:
            yield f"{operation.type}({types})"
        else:
            for place, values in in_host_memory(operation, kernel):
                yield f"{operation.type}({types}): {place} {values.dtype.name}{list(values.shape)} in host memory"


def operations(graph: Any, visited: set[str]) -> Iterator[tf.Operation]:
    """Every operation of a graph and of the functions that it calls, each function once."""
    for operation in graph.get_operations():
        attributes = operation.node_def.attr.values()
        called = [function.name for value in attributes for function in (value.func, *value.list.func) if function.name]
        if not called:
            yield operation
        for name in set(called) - visited:
            visited.add(name)
            yield from operations(graph._get_function(name).graph, visited)


@cache
def registered(kind: str) -> list[Any]:
    """The kernels that a GPU can use, in the order in which TensorFlow looks for them."""
    found = kernels.get_registered_kernels_for_op(kind).kernel
    return [kernel for device in ("GPU", "DEFAULT") for kernel in found if kernel.device_type == device]


def gpu_kernel(operation: tf.Operation) -> Any:
    """The kernel with which a GPU runs an operation; None if there is none."""
    label = operation.node_def.attr["_kernel"].s.decode()
    for kernel in registered(operation.type):
        if kernel.label == label and all(allowed(operation, constraint) for constraint in kernel.constraint):
            return kernel
    return None


def allowed(operation: tf.Operation, constraint: Any) -> bool:
    value = operation.node_def.attr[constraint.name]
    permitted = constraint.allowed_values.list
    if permitted.type:
        return all(kind in permitted.type for kind in (value.list.type or [value.type]))
    return not permitted.s or value.s in permitted.s


def types_of(operation: tf.Operation) -> dict[str, tf.DType]:
    """The data types among an operation's attributes."""
    attributes = operation.node_def.attr.items()
    return {name: tf.as_dtype(value.type) for name, value in sorted(attributes) if value.HasField("type")}


def in_host_memory(operation: tf.Operation, kernel: Any) -> Iterator[tuple[str, Any]]:
    """The large arguments and results that a GPU kernel has in host memory."""
    definition = operation.op_def
    for arguments, tensors in ((definition.input_arg, operation.inputs), (definition.output_arg, operation.outputs)):
        start = 0
        for argument in arguments:
            count = 1
            if argument.number_attr:
                count = operation.get_attr(argument.number_attr)
            elif argument.type_list_attr:
                count = len(operation.get_attr(argument.type_list_attr))
            for values in tensors[start : start + count]:
                if argument.name in kernel.host_memory_arg and size(values) > LARGE:
                    yield argument.name, values
            start += count


def size(values: Any) -> int:
    """Bytes of a tensor, an unknown dimension counted as 1; 0 of a handle."""
    if values.dtype in (tf.resource, tf.variant):
        return 0
    dims = [] if values.shape.rank is None else [dim or 1 for dim in values.shape]
    return int(np.prod(dims, dtype=np.int64)) * values.dtype.size
