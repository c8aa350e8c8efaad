"""Sums over an epoch that stay on the device until its end."""

from __future__ import annotations

from collections.abc import Mapping

import torch

from raybench.devices.cpu import TorchDevice
from raybench.engines.torch.distributed import ProcessGroup


class MetricSums:
    """Sums of per-example values, kept on the device until an epoch ends.

    Attributes:
        names: those of the values, once some are added.
        total: the sum of each [names].
    """

    def __init__(self, device: TorchDevice, group: ProcessGroup) -> None:
        self._device, self._group = device, group
        self.names: list[str] = []

    def add(self, values: Mapping[str, torch.Tensor]) -> None:
        """Add the values of examples, [batch], without gradients; the names must be the same each time."""
        if not self.names:
            # Made on a lazy device, they would be constants, and the first step a different graph.
            self.names = list(values)
            self.total = torch.zeros(len(values), device="cpu" if self._device.lazy else self._device.torch_name)
            self.total = self.total.to(self._device.torch_name)
        stacked = torch.stack([values[name].to(torch.float32) for name in self.names])
        self.total = self.total + stacked.sum(1)  # in place, it would be a different graph for XLA on several devices

    def means(self, examples: int) -> dict[str, float]:
        """Means over the examples of all ranks, on the host; waits for the device."""
        values = self._group.add_up(self.total).tolist()  # the only copy to the host
        return {name: value / examples for name, value in zip(self.names, values, strict=True)}
