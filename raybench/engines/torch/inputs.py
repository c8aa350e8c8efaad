"""Sources of batches: a data set on the device, or streamed from the host."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from queue import Queue
from typing import Protocol

import torch

from raybench.core.ledger import Ledger
from raybench.datasets.splits import Array, Split
from raybench.engines.batch_order import EpochPlan
from raybench.engines.images import as_read, is_array
from raybench.engines.torch.images import AugmentationDraws, ImageAugmenter, as_tensor, steps_of

AHEAD = 2
"""Batches prepared in advance: one is copied while another is computed."""

Batch = tuple[torch.Tensor, torch.Tensor]
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
        self, train: Split, val: Split, pictures: ImageAugmenter | None, device: torch.device, steps: Steps = steps_of
    ) -> None:
        self._device, self._pictures, self._steps = device, pictures, steps
        self._train = as_tensor(train.inputs).to(device), as_tensor(train.targets).to(device)
        self._val = as_tensor(val.inputs).to(device), as_tensor(val.targets).to(device)
        self.evaluated = len(val)
        self._batches: dict[int, list[tuple[torch.Tensor, int]]] = {}

    def train(self, order: EpochPlan) -> Iterator[Batch]:
        """Yield one epoch in the given order."""
        inputs, targets = self._train
        for draws in self._steps(AugmentationDraws.on(order, self._device)):
            if self._pictures:
                batch = self._pictures.finish(self._pictures.gather(inputs, draws.index, draws), draws)
            else:
                batch = inputs.index_select(0, draws.index)
            yield batch, targets.index_select(0, draws.index)

    def evaluate(self, batch: int) -> Iterator[tuple[torch.Tensor, torch.Tensor, int]]:
        """Yield the validation set, padded to whole batches."""
        inputs, targets = self._val
        if batch not in self._batches:
            padded = (_padded(start, batch, len(targets)) for start in range(0, len(targets), batch))
            self._batches[batch] = [(index.to(self._device), counts) for index, counts in padded]
        for index, counts in self._batches[batch]:
            values = inputs.index_select(0, index)
            yield self._pictures.finish(values) if self._pictures else values, targets.index_select(0, index), counts


def _rows(values: Array, index: torch.Tensor) -> torch.Tensor:
    if is_array(values):
        return torch.from_numpy(values).index_select(0, index)
    return as_tensor(values[index.numpy()])  # lazy values


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
        device: torch.device,
        ledger: Ledger,
        steps: Steps = steps_of,
    ) -> None:
        self._device, self._pictures, self._ledger, self._steps = device, pictures, ledger, steps
        self._train = as_read(train.inputs), as_read(train.targets)
        self._val = as_read(val.inputs), as_read(val.targets)
        self.evaluated = len(val)
        self._pin = device.type == "cuda"

    def _take(self, source: tuple[Array, Array], index: torch.Tensor) -> Batch:
        inputs, targets = (_rows(values, index) for values in source)
        return (inputs.pin_memory(), targets.pin_memory()) if self._pin else (inputs, targets)

    def _move(self, batch: Batch) -> Batch:
        return batch[0].to(self._device, non_blocking=True), batch[1].to(self._device, non_blocking=True)

    def train(self, order: EpochPlan) -> Iterator[Batch]:
        """Yield one epoch in the given order."""
        queue: Queue[Batch | BaseException] = Queue(maxsize=AHEAD)
        stop = threading.Event()

        def prepare() -> None:
            try:
                for row in order.index:
                    if stop.is_set():
                        return
                    queue.put(self._take(self._train, torch.from_numpy(row)))
            except BaseException as error:  # any error must be passed on to the loop that waits for a batch
                queue.put(error)

        positions = torch.arange(order.index.shape[1]).to(self._device)
        thread = threading.Thread(target=prepare, name="input", daemon=True)
        thread.start()
        try:
            for draws in self._steps(AugmentationDraws.on(order, self._device)):
                with self._ledger.section("input_wait"):
                    item = queue.get()
                if isinstance(item, BaseException):
                    raise item
                inputs, targets = self._move(item)
                if self._pictures:
                    inputs = self._pictures.finish(self._pictures.gather(inputs, positions, draws), draws)
                yield inputs, targets
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
            yield self._pictures.finish(inputs) if self._pictures else inputs, targets, counts
