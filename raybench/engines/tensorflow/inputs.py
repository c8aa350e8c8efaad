"""Sources of batches: a data set on the device, or streamed by tf.data."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import repeat
from typing import TypeAlias

import tensorflow as tf

from raybench.datasets.splits import Array, Split
from raybench.engines.batch_order import EpochPlan, evaluation_batches
from raybench.engines.images import plain
from raybench.engines.tensorflow.images import ImageAugmenter, draws_of

AHEAD = 2  # batches prepared in advance: one is copied while another is computed
Fed = tuple[tf.Tensor, ...]  # inputs of a step except the draws; empty if the data are on the device
Examples = tuple[tf.Tensor, tf.Tensor]  # model inputs and targets


class DeviceInput:
    """Both splits on the device, images as uint8; a batch is a gather.

    `train` and `evaluation_examples` are called inside a compiled function, the others outside of it.
    """

    def __init__(self, train: Split, val: Split, augmenter: ImageAugmenter | None) -> None:
        self._augmenter, self._examples = augmenter, len(val)
        # Variables, because TensorFlow has a GPU kernel that gathers uint8 from one, but none from a tensor.
        self._train = [tf.Variable(plain(values), trainable=False) for values in (train.inputs, train.targets)]
        self._val = [tf.Variable(plain(values), trainable=False) for values in (val.inputs, val.targets)]

    def rows(self, order: EpochPlan) -> dict[str, Array]:
        """The epoch's index and draws, each [steps, batch]."""
        return {"index": order.index} | draws_of(order)

    def batches(self, order: EpochPlan) -> Iterator[Fed]:
        """Yield the inputs of each step: nothing."""
        return repeat(())

    def train(self, fed: Fed, row: Mapping[str, tf.Tensor]) -> Examples:
        """The examples of a step, from its row of `rows`."""
        inputs, targets = (tf.gather(values, row["index"]) for values in self._train)
        return self._augmenter.augment(inputs, row) if self._augmenter else inputs, targets

    def validation(self, batch: int) -> Iterator[tuple[Fed, int]]:
        """Yield the indices of each batch of the validation set, and the number of examples without padding."""
        for index, counts in evaluation_batches(batch, self._examples):
            yield (tf.constant(index),), counts

    def evaluation_examples(self, fed: Fed) -> Examples:
        """The examples of a validation batch."""
        inputs, targets = (tf.gather(values, fed[0]) for values in self._val)
        return self._augmenter.finish(inputs) if self._augmenter else inputs, targets


class HostInput:
    """Both splits in host memory; tf.data gathers batches in advance.

    Crop, flip and cutout run on the device, as in `DeviceInput`.

    Args:
        copy_to: the device to which batches are copied in advance; empty: the compiled function copies them.
    """

    def __init__(self, train: Split, val: Split, augmenter: ImageAugmenter | None, copy_to: str = "") -> None:
        self._augmenter, self._copy_to = augmenter, copy_to
        self._val = plain(val.inputs), plain(val.targets)
        with tf.device("CPU:0"):
            self._train = tf.constant(plain(train.inputs)), tf.constant(plain(train.targets))
        self._pipeline: tuple[tf.Variable, tf.data.Dataset] | None = None

    def rows(self, order: EpochPlan) -> dict[str, Array]:
        """The draws; the index is used on the host."""
        return draws_of(order)

    def batches(self, order: EpochPlan) -> Iterator[Fed]:
        """Yield inputs and targets of each step, [batch, …]."""
        self._pipeline = self._pipeline or self._open(*order.index.shape)
        index, batches = self._pipeline
        index.assign(order.index)
        yield from batches

    def _open(self, steps: int, batch: int) -> tuple[tf.Variable, tf.data.Dataset]:
        """Make the index of an epoch and the pipeline that reads it, once: an epoch only assigns its index."""
        with tf.device("CPU:0"):
            index = tf.Variable(tf.zeros([steps, batch], tf.int64), trainable=False)
            dataset = tf.data.Dataset.range(steps).map(
                lambda step: tuple(tf.gather(values, tf.gather(index, step)) for values in self._train)
            )
            dataset = dataset.prefetch(AHEAD)
        if self._copy_to:
            dataset = dataset.apply(tf.data.experimental.prefetch_to_device(self._copy_to, AHEAD))
        return index, dataset

    def train(self, fed: Fed, row: Mapping[str, tf.Tensor]) -> Examples:
        """The examples of a step, from the fed values."""
        inputs, targets = fed
        return self._augmenter.augment(inputs, row) if self._augmenter else inputs, targets

    def validation(self, batch: int) -> Iterator[tuple[Fed, int]]:
        """Yield inputs and targets of each batch."""
        inputs, targets = self._val
        for index, counts in evaluation_batches(batch, len(targets)):
            yield (tf.constant(inputs[index]), tf.constant(targets[index])), counts

    def evaluation_examples(self, fed: Fed) -> Examples:
        """The examples of a validation batch, from the fed values."""
        inputs, targets = fed
        return self._augmenter.finish(inputs) if self._augmenter else inputs, targets


Input: TypeAlias = DeviceInput | HostInput  # batches of model inputs and targets
