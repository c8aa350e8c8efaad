"""Rows of tensors and of variables, by operations that have a GPU kernel for every type of the data.

TensorFlow copies the arguments of an operation without one to the host, and its results back.
"""

from __future__ import annotations

from typing import Any

import tensorflow as tf


def part(values: tf.Tensor, start: tf.Tensor, count: int) -> tf.Tensor:
    """The `count` rows of a tensor from `start` on.

    XLA would take the index in `values[start : start + count]` as a constant and compile for each.
    """
    dims = values.shape[1:]
    # GPUs have a kernel that slices int8, but none for uint8; a bitcast costs nothing.
    stored = tf.bitcast(values, tf.int8) if values.dtype == tf.uint8 else values
    rows = tf.slice(stored, [start, *(0 for _ in dims)], [count, *dims])
    return tf.bitcast(rows, tf.uint8) if values.dtype == tf.uint8 else rows


def row(values: tf.Tensor, index: tf.Tensor) -> tf.Tensor:
    """One row of a tensor."""
    return tf.reshape(part(values, index, 1), values.shape[1:])


def gather(variable: Any, index: tf.Tensor) -> tf.Tensor:
    """Rows of a variable, from this replica's copy.

    A gather from a variable has a GPU kernel for uint8, one from a tensor does not. TensorFlow would read a variable
    with several copies into a tensor.
    """
    context = tf.distribute.get_replica_context()
    copies = context.strategy.experimental_local_results(variable)
    replica = tf.get_static_value(context.replica_id_in_sync_group)  # None on a TPU, where one program has all replicas
    return tf.gather(variable if replica is None else copies[replica], index)
