"""Sources of batches: a data set on the device, or streamed from the host."""

from __future__ import annotations

import threading
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import closing
from queue import Queue
from typing import Protocol

import torch

from raybench.core.ledger import Ledger
from raybench.datasets.splits import Array, Split
from raybench.devices.base import TorchDevice
from raybench.engines.batch_order import EpochPlan
from raybench.engines.images import plain
from raybench.engines.torch.images import AugmentationDraws, ImageAugmenter, as_tensor, steps_of

AHEAD = 2
"""Batches that a thread gathers in advance, while the device computes.

On a GPU, copies wait in the same stream as the steps: a batch is copied between two of them."""

Batch = tuple[torch.Tensor, torch.Tensor]
Fed = tuple[torch.Tensor, ...]
"""Values of a batch that come from the host: inputs and targets; empty if the data are on the device."""

Steps = Callable[[AugmentationDraws], Iterator[AugmentationDraws]]


class Input(Protocol):
    """Batches of model inputs and targets, on the device.

    Attributes:
        evaluated: number of validation examples.
        on_host: whether batches are made on the host, so that the device may wait for one between two steps.
    """

    evaluated: int
    on_host: bool

    def train(self, order: EpochPlan) -> Iterator[Batch]:
        """Yield one epoch in the given order."""

    def feed(self, indices: Iterable[Array]) -> Iterator[Fed]:
        """Yield what comes from the host for each array of indices, on the device.

        The tensors have the shape of the indices, [batch] or [steps, batch], and that of an example.
        """

    def batch(self, fed: Fed, draws: AugmentationDraws) -> Batch:
        """The batch of a step from its part of what was fed, and its draws."""

    def evaluate(self, batch: int) -> Iterator[tuple[torch.Tensor, torch.Tensor, int]]:
        """Yield the validation set in batches of one size.

        The last batch is padded; the number is that of examples without padding.
        """


def _padded(start: int, batch: int, examples: int) -> tuple[torch.Tensor, int]:
    """Indices of an evaluation batch, and the number of examples without padding.

    Past the end, the indices restart from the beginning.
    """
    return torch.arange(start, start + batch) % examples, min(batch, examples - start)


class DeviceInput:
    """Both splits on the device, images as uint8; a batch is a gather."""

    on_host = False

    def __init__(
        self, train: Split, val: Split, pictures: ImageAugmenter | None, device: TorchDevice, steps: Steps = steps_of
    ) -> None:
        self._device, self._on, self._pictures, self._steps = device, device.torch_name, pictures, steps
        self._train = as_tensor(train.inputs).to(self._on), as_tensor(train.targets).to(self._on)
        self._val = as_tensor(val.inputs).to(self._on), as_tensor(val.targets).to(self._on)
        self.evaluated = len(val)
        self._batches: dict[int, list[tuple[torch.Tensor, int]]] = {}

    def train(self, order: EpochPlan) -> Iterator[Batch]:
        """Yield one epoch in the given order."""
        for draws in self._steps(AugmentationDraws.on(order, self._device)):
            yield self.batch((), draws)

    def feed(self, indices: Iterable[Array]) -> Iterator[Fed]:
        """Yield nothing for each array of indices."""
        return (() for _ in indices)

    def batch(self, fed: Fed, draws: AugmentationDraws) -> Batch:
        """Gather a step's batch by its index."""
        inputs, targets = self._train
        if self._pictures:
            batch = self._pictures.finish(self._pictures.gather(inputs, draws.index, draws), draws)
        else:
            batch = inputs.index_select(0, draws.index)
        return batch, targets.index_select(0, draws.index)

    def evaluate(self, batch: int) -> Iterator[tuple[torch.Tensor, torch.Tensor, int]]:
        """Yield the validation set, padded to whole batches."""
        inputs, targets = self._val
        if batch not in self._batches:
            padded = (_padded(start, batch, len(targets)) for start in range(0, len(targets), batch))
            self._batches[batch] = [(index.to(self._on), counts) for index, counts in padded]
        for index, counts in self._batches[batch]:
            values = inputs.index_select(0, index)
            yield self._pictures.finish(values) if self._pictures else values, targets.index_select(0, index), counts


def _rows(values: Array, index: torch.Tensor) -> torch.Tensor:
    """The examples at an index of any shape."""
    flat = index.flatten()
    rows = torch.from_numpy(values).index_select(0, flat)
    return rows.view(*index.shape, *rows.shape[1:])


class HostInput:
    """Both splits in host memory; a thread gathers and pins batches in advance.

    The time in which the training loop waits for the thread is charged to `input_wait`.
    """

    on_host = True

    def __init__(
        self,
        train: Split,
        val: Split,
        pictures: ImageAugmenter | None,
        device: TorchDevice,
        ledger: Ledger,
        steps: Steps = steps_of,
    ) -> None:
        self._device, self._on, self._pictures = device, device.torch_name, pictures
        self._ledger, self._steps = ledger, steps
        self._train = plain(train.inputs), plain(train.targets)
        self._val = plain(val.inputs), plain(val.targets)
        self.evaluated = len(val)
        self._positions = torch.arange(0)

    def _take(self, source: tuple[Array, Array], index: torch.Tensor) -> Batch:
        inputs, targets = (_rows(values, index) for values in source)
        return (inputs.pin_memory(), targets.pin_memory()) if self._device.pins_memory else (inputs, targets)

    def _move(self, batch: Batch) -> Batch:
        is_pinned = self._device.pins_memory  # other memory may be freed before `mps` has read it
        return batch[0].to(self._on, non_blocking=is_pinned), batch[1].to(self._on, non_blocking=is_pinned)

    def train(self, order: EpochPlan) -> Iterator[Batch]:
        """Yield one epoch in the given order."""
        steps = self._steps(AugmentationDraws.on(order, self._device))
        with closing(self.feed(order.index)) as batches:
            for draws, fed in zip(steps, batches, strict=True):
                yield self.batch(fed, draws)

    def feed(self, indices: Iterable[Array]) -> Generator[Fed, None, None]:
        """Yield inputs and targets for each array of indices."""
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

    def batch(self, fed: Fed, draws: AugmentationDraws) -> Batch:
        """Crop, flip, normalise and cut out a step's images."""
        inputs, targets = fed
        if self._pictures:
            if len(self._positions) != len(targets):
                self._positions = torch.arange(len(targets)).to(self._on)
            inputs = self._pictures.finish(self._pictures.gather(inputs, self._positions, draws), draws)
        return inputs, targets

    def evaluate(self, batch: int) -> Iterator[tuple[torch.Tensor, torch.Tensor, int]]:
        """Yield the validation set, padded to whole batches."""
        for start in range(0, len(self._val[1]), batch):
            index, counts = _padded(start, batch, len(self._val[1]))
            inputs, targets = self._move(self._take(self._val, index))
            yield self._pictures.finish(inputs) if self._pictures else inputs, targets, counts
