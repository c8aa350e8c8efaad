"""Where batches come from: a data set that lives on the device, or one streamed from the host by tf.data."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import repeat
from typing import Any, Protocol

import numpy as np
import tensorflow as tf

from raybench.core.ledger import Ledger
from raybench.datasets.splits import Array, Split
from raybench.engines.batch_order import EpochPlan
from raybench.engines.images import as_read, is_array, plain
from raybench.engines.tensorflow.ghost_batch_norm import share
from raybench.engines.tensorflow.images import ImageAugmenter, draws_of

AHEAD = 2
"""Batches prepared in advance: one being copied while one is being computed."""

Fed = tuple[tf.Tensor, ...]
"""What one call of the compiled function is fed beside the draws; nothing where the data live on the device."""

Examples = tuple[tf.Tensor, tf.Tensor]
"""Inputs, ready for the model, and targets."""


class Input(Protocol):
    """Batches of a whole epoch, as what crosses from Python into a compiled function and how it is read in there."""

    def rows(self, order: EpochPlan) -> dict[str, Array]:
        """The epoch's index, where it is read on the device, and draws, each [steps, batch]."""

    def calls(self, order: EpochPlan, steps: int) -> Iterator[Fed]:
        """What each call is fed for its `steps` steps; the last may be fed more than the epoch has left."""

    def train(self, fed: Fed, row: Mapping[str, tf.Tensor]) -> Examples:
        """Inside the compiled function: this replica's examples of a step.

        Args:
            fed: the step's part of what the call was fed.
            row: this replica's part of the step's row of `rows`.
        """

    def validation(self, batch: int) -> Iterator[tuple[Fed, int]]:
        """The validation set in batches of one size: the last is padded; the number says how many examples count."""

    def judged(self, fed: Fed) -> Examples:
        """Inside the compiled function: this replica's examples of a validation batch."""


def _padded(batch: int, examples: int) -> Iterator[tuple[Array, int]]:
    """The places of each evaluation batch: past the end they begin again, and do not count."""
    for start in range(0, examples, batch):
        yield np.arange(start, start + batch) % examples, min(batch, examples - start)


class DeviceInput:
    """Both splits on the device (on each, where there are several), pictures as bytes; a batch is a gather."""

    def __init__(self, train: Split, val: Split, pictures: ImageAugmenter | None, strategy: Any) -> None:
        self._pictures, self._examples = pictures, len(val)
        with strategy.scope():
            self._train = [tf.Variable(plain(values), trainable=False) for values in (train.inputs, train.targets)]
            self._val = [tf.Variable(plain(values), trainable=False) for values in (val.inputs, val.targets)]

    def rows(self, order: EpochPlan) -> dict[str, Array]:
        """The index and the draws."""
        return {"index": order.index} | draws_of(order)

    def calls(self, order: EpochPlan, steps: int) -> Iterator[Fed]:
        """Nothing but the number of calls."""
        return repeat((), -(-len(order.index) // steps))

    def train(self, fed: Fed, row: Mapping[str, tf.Tensor]) -> Examples:
        """Gather by the step's index."""
        inputs, targets = self._train
        index = row["index"]
        if self._pictures is None:
            return tf.gather(inputs, index), tf.gather(targets, index)
        return self._pictures.finish(self._pictures.gather(inputs, index, row), row), tf.gather(targets, index)

    def validation(self, batch: int) -> Iterator[tuple[Fed, int]]:
        """The places of each batch."""
        for index, counts in _padded(batch, self._examples):
            yield (tf.constant(index),), counts

    def judged(self, fed: Fed) -> Examples:
        """Gather by the batch's places."""
        index = share(fed[0])
        inputs, targets = (tf.gather(values, index) for values in self._val)
        return self._pictures.finish(inputs) if self._pictures else inputs, targets


class _Rows:
    """Examples in the host's memory, or such as are made as they are read."""

    def __init__(self, values: Array) -> None:
        self._values = tf.constant(plain(values)) if is_array(values) else values

    def at(self, index: tf.Tensor) -> tf.Tensor:
        """Those at an index [steps, batch], as [steps, batch, …]."""
        if isinstance(self._values, tf.Tensor):
            return tf.gather(self._values, index)
        rows = tf.numpy_function(lambda places: self._values[places.ravel()], [index], self._values.dtype)
        return tf.reshape(rows, [*index.shape, *self._values.shape[1:]])


class HostInput:
    """Both splits in the host's memory; tf.data gathers batches ahead of the device.

    The time in which the training loop stands and waits for a batch is charged to `input_wait`. Crop, flip and cutout
    are the device's part, as in `DeviceInput`.
    """

    def __init__(self, train: Split, val: Split, pictures: ImageAugmenter | None, ledger: Ledger) -> None:
        self._pictures, self._ledger = pictures, ledger
        self._val = as_read(val.inputs), as_read(val.targets)
        with tf.device("CPU:0"):
            self._train = _Rows(train.inputs), _Rows(train.targets)
        self._pipeline: tuple[tf.Variable, tf.data.Dataset] | None = None

    def rows(self, order: EpochPlan) -> dict[str, Array]:
        """The draws; what the index says is read on the host."""
        return draws_of(order)

    def calls(self, order: EpochPlan, steps: int) -> Iterator[Fed]:
        """Inputs and targets of each call, [steps, batch, …]; past the epoch's end its last step again."""
        calls = -(-len(order.index) // steps)
        padded = order.index[np.minimum(np.arange(calls * steps), len(order.index) - 1)]
        with self._ledger.section("input_wait"):
            self._pipeline = self._pipeline or self._open(calls, steps, order.index.shape[1])
            index, batches = self._pipeline
            index.assign(padded.reshape(calls, steps, -1))
            iterator = iter(batches)
        for _ in range(calls):
            with self._ledger.section("input_wait"):
                fed = next(iterator)
            yield fed

    def _open(self, calls: int, steps: int, batch: int) -> tuple[tf.Variable, tf.data.Dataset]:
        """The index of an epoch and the pipeline that reads it: made once, so that an epoch only writes its index."""
        with tf.device("CPU:0"):
            index = tf.Variable(tf.zeros([calls, steps, batch], tf.int64), trainable=False)
            dataset = tf.data.Dataset.range(calls).map(
                lambda call: tuple(values.at(tf.gather(index, call)) for values in self._train)
            )
            return index, dataset.prefetch(AHEAD)

    def train(self, fed: Fed, row: Mapping[str, tf.Tensor]) -> Examples:
        """This replica's part of what was fed."""
        inputs, targets = (share(values) for values in fed)
        if self._pictures:
            positions = tf.range(targets.shape[0], dtype=tf.int64)
            inputs = self._pictures.finish(self._pictures.gather(inputs, positions, row), row)
        return inputs, targets

    def validation(self, batch: int) -> Iterator[tuple[Fed, int]]:
        """Inputs and targets of each batch."""
        inputs, targets = self._val
        for index, counts in _padded(batch, len(targets)):
            yield (tf.constant(inputs[index]), tf.constant(targets[index])), counts

    def judged(self, fed: Fed) -> Examples:
        """This replica's part of what was fed."""
        inputs, targets = share(fed[0]), share(fed[1])
        return self._pictures.finish(inputs) if self._pictures else inputs, targets
