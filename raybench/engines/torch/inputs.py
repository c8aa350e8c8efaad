"""Sources of batches: a data set on the device, or streamed from the host."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import islice
from typing import Any, TypeAlias

import torch

from raybench.datasets.splits import Split
from raybench.devices.cpu import TorchDevice
from raybench.engines.batch_order import EpochPlan, evaluation_batches
from raybench.engines.torch.images import AugmentationDraws, ImageAugmenter, as_tensor

AHEAD = 3
"""Batches that a thread gathers in advance, while the device computes.

On a GPU, copies wait in the same stream as the steps: a batch is copied between two of them."""

Batch = tuple[torch.Tensor, torch.Tensor]  # inputs and targets


class DeviceInput:
    """Both splits on the device, images as uint8; a batch is a gather, as part of its step."""

    def __init__(self, train: Split, val: Split, augmenter: ImageAugmenter | None, device: TorchDevice) -> None:
        self._on, self._augmenter = device.torch_name, augmenter
        self._train, self._val = (
            (as_tensor(split.inputs).to(self._on), as_tensor(split.targets).to(self._on)) for split in (train, val)
        )
        self._indices: dict[int, list[tuple[torch.Tensor, int]]] = {}

    def batches(self, order: EpochPlan, steps: Iterable[Any]) -> Iterable[Any]:
        """The draws of each step of an epoch, for `take`, in a tuple."""
        return zip(steps)

    def take(self, draws: AugmentationDraws) -> Batch:
        """The inputs and targets of a step."""
        inputs, targets = self._train
        if self._augmenter:
            batch = self._augmenter.finish(self._augmenter.gather(inputs, draws.indices, draws), draws)
        else:
            batch = inputs.index_select(0, draws.indices)
        return batch, targets.index_select(0, draws.indices)

    def validation(self, batch: int) -> Iterator[tuple[torch.Tensor, torch.Tensor, int]]:
        """Yield stored inputs and targets in batches of one size, and the number of examples without padding."""
        inputs, targets = self._val
        if batch not in self._indices:
            padded = evaluation_batches(batch, len(targets))
            self._indices[batch] = [(torch.from_numpy(index).to(self._on), counts) for index, counts in padded]
        for index, counts in self._indices[batch]:
            yield inputs.index_select(0, index), targets.index_select(0, index), counts

    def validation_examples(self, inputs: torch.Tensor, targets: torch.Tensor) -> Batch:
        """Model inputs and targets on the device."""
        return self._augmenter.finish(inputs) if self._augmenter else inputs, targets


class HostInput:
    """Both splits in host memory; a thread gathers and pins batches in advance, as the methods of `DeviceInput` do."""

    def __init__(self, train: Split, val: Split, augmenter: ImageAugmenter | None, device: TorchDevice) -> None:
        self._device, self._on, self._augmenter = device, device.torch_name, augmenter
        self._train, self._val = ((as_tensor(split.inputs), as_tensor(split.targets)) for split in (train, val))
        self._positions: torch.Tensor | None = None

    def _gather(self, source: Batch, index: torch.Tensor) -> Batch:
        inputs, targets = (values.index_select(0, index) for values in source)
        return (inputs.pin_memory(), targets.pin_memory()) if self._device.pins_memory else (inputs, targets)

    def _move(self, inputs: torch.Tensor, targets: torch.Tensor) -> Batch:
        is_pinned = self._device.pins_memory  # other memory may be freed before `mps` has read it
        return inputs.to(self._on, non_blocking=is_pinned), targets.to(self._on, non_blocking=is_pinned)

    def batches(self, order: EpochPlan, steps: Iterable[Any]) -> Iterator[Any]:
        """Yield the draws of each step of an epoch with its examples, as stored."""
        with ThreadPoolExecutor(1, "input") as thread:
            gathered = (thread.submit(self._gather, self._train, torch.from_numpy(index)) for index in order.index)
            ahead = deque(islice(gathered, AHEAD))
            for step in steps:
                ahead.extend(islice(gathered, 1))
                yield step, *ahead.popleft().result()

    def take(self, draws: AugmentationDraws, inputs: torch.Tensor, targets: torch.Tensor) -> Batch:
        """The inputs and targets of a step, on the device."""
        inputs, targets = self._move(inputs, targets)
        if not self._augmenter:
            return inputs, targets
        if self._positions is None:
            self._positions = torch.arange(len(inputs)).to(self._on)
        return self._augmenter.finish(self._augmenter.gather(inputs, self._positions, draws), draws), targets

    def validation(self, batch: int) -> Iterator[tuple[torch.Tensor, torch.Tensor, int]]:
        for index, counts in evaluation_batches(batch, len(self._val[1])):
            yield *self._gather(self._val, torch.from_numpy(index)), counts

    def validation_examples(self, inputs: torch.Tensor, targets: torch.Tensor) -> Batch:
        inputs, targets = self._move(inputs, targets)
        return self._augmenter.finish(inputs) if self._augmenter else inputs, targets


Input: TypeAlias = DeviceInput | HostInput  # batches of model inputs and targets, on the device
