"""Sources of batches: a data set on the device, or streamed from the host."""

from __future__ import annotations

import threading
from collections.abc import Callable, Generator, Iterator
from contextlib import closing
from queue import Queue
from typing import TypeAlias

import torch

from raybench.core.ledger import Ledger
from raybench.datasets.splits import Array, Split
from raybench.devices.base import TorchDevice
from raybench.engines.batch_order import EpochPlan
from raybench.engines.torch.images import AugmentationDraws, ImageAugmenter, as_tensor, steps_of

AHEAD = 2
"""Batches that a thread gathers in advance, while the device computes.

On a GPU, copies wait in the same stream as the steps: a batch is copied between two of them."""

Batch = tuple[torch.Tensor, torch.Tensor]
"""Inputs and targets."""

Steps = Callable[[AugmentationDraws], Iterator[AugmentationDraws]]


def _padded(start: int, batch: int, examples: int) -> tuple[torch.Tensor, int]:
    """Indices of an evaluation batch, and the number of examples without padding.

    Past the end, the indices restart from the beginning.
    """
    return torch.arange(start, start + batch) % examples, min(batch, examples - start)


class DeviceInput:
    """Both splits on the device, images as uint8; a batch is a gather.

    Attributes:
        evaluated: number of validation examples.
        on_host: whether batches are made on the host, so that the device may wait for one between two steps.
    """

    on_host = False

    def __init__(
        self, train: Split, val: Split, augmenter: ImageAugmenter | None, device: TorchDevice, steps: Steps = steps_of
    ) -> None:
        self._device, self._on, self._augmenter, self._steps = device, device.torch_name, augmenter, steps
        self._train, self._val = (
            (as_tensor(split.inputs).to(self._on), as_tensor(split.targets).to(self._on)) for split in (train, val)
        )
        self.evaluated = len(val)
        self._batches: dict[int, list[tuple[torch.Tensor, int]]] = {}

    def train(self, order: EpochPlan) -> Iterator[Batch]:
        """Yield one epoch in the given order."""
        inputs, targets = self._train
        for draws in self._steps(AugmentationDraws.on(order, self._device)):
            if self._augmenter:
                batch = self._augmenter.finish(self._augmenter.gather(inputs, draws.index, draws), draws)
            else:
                batch = inputs.index_select(0, draws.index)
            yield batch, targets.index_select(0, draws.index)

    def evaluate(self, batch: int) -> Iterator[tuple[torch.Tensor, torch.Tensor, int]]:
        """Yield the validation set in batches of one size.

        The last batch is padded; the number is that of examples without padding.
        """
        inputs, targets = self._val
        if batch not in self._batches:
            padded = (_padded(start, batch, len(targets)) for start in range(0, len(targets), batch))
            self._batches[batch] = [(index.to(self._on), counts) for index, counts in padded]
        for index, counts in self._batches[batch]:
            values = inputs.index_select(0, index)
            yield self._augmenter.finish(values) if self._augmenter else values, targets.index_select(0, index), counts


class HostInput:
    """Both splits in host memory; a thread gathers and pins batches in advance.

    The time in which the training loop waits for the thread is charged to `input_wait`. The attributes are those of
    `DeviceInput`.
    """

    on_host = True

    def __init__(
        self,
        train: Split,
        val: Split,
        augmenter: ImageAugmenter | None,
        device: TorchDevice,
        ledger: Ledger,
        steps: Steps = steps_of,
    ) -> None:
        self._device, self._on, self._augmenter = device, device.torch_name, augmenter
        self._ledger, self._steps = ledger, steps
        self._train, self._val = ((as_tensor(split.inputs), as_tensor(split.targets)) for split in (train, val))
        self.evaluated = len(val)

    def _take(self, source: Batch, index: torch.Tensor) -> Batch:
        inputs, targets = (values.index_select(0, index) for values in source)
        return (inputs.pin_memory(), targets.pin_memory()) if self._device.pins_memory else (inputs, targets)

    def _move(self, batch: Batch) -> Batch:
        is_pinned = self._device.pins_memory  # other memory may be freed before `mps` has read it
        return batch[0].to(self._on, non_blocking=is_pinned), batch[1].to(self._on, non_blocking=is_pinned)

    def train(self, order: EpochPlan) -> Iterator[Batch]:
        """Yield one epoch in the given order."""
        steps = self._steps(AugmentationDraws.on(order, self._device))
        positions = torch.arange(order.index.shape[1]).to(self._on)
        with closing(self._gathered(order.index)) as batches:
            for draws, (inputs, targets) in zip(steps, batches, strict=True):
                if self._augmenter:
                    inputs = self._augmenter.finish(self._augmenter.gather(inputs, positions, draws), draws)
                yield inputs, targets

    def _gathered(self, indices: Array) -> Generator[Batch, None, None]:
        queue: Queue[Batch | BaseException | None] = Queue(maxsize=AHEAD)
        stop = threading.Event()

        def prepare() -> None:
            try:
                for index in indices:
                    if stop.is_set():
                        return
                    queue.put(self._take(self._train, torch.from_numpy(index)))
                queue.put(None)
            except BaseException as error:  # any error must be passed on to the loop that waits for a batch
                queue.put(error)

        thread = threading.Thread(target=prepare, name="input", daemon=True)
        thread.start()
        try:
            while True:
                with self._ledger.section("input_wait"):
                    item = queue.get()
                if item is None:
                    return
                if isinstance(item, BaseException):
                    raise item
                yield self._move(item)
        finally:
            stop.set()
            while thread.is_alive():
                while not queue.empty():
                    queue.get_nowait()
                thread.join(0.01)

    def evaluate(self, batch: int) -> Iterator[tuple[torch.Tensor, torch.Tensor, int]]:
        """Yield the validation set, padded to whole batches."""
        for start in range(0, len(self._val[1]), batch):
            index, counts = _padded(start, batch, len(self._val[1]))
            inputs, targets = self._move(self._take(self._val, index))
            yield self._augmenter.finish(inputs) if self._augmenter else inputs, targets, counts


Input: TypeAlias = DeviceInput | HostInput
"""Batches of model inputs and targets, on the device."""
