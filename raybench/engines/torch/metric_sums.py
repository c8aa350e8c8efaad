"""Sums over an epoch that stay on the device until its end."""

from __future__ import annotations

from collections.abc import Mapping

import torch

from raybench.engines.torch.distributed import ProcessGroup


class MetricSums:
    """Sums of per-example values, kept on the device until an epoch ends."""

    def __init__(self, device: torch.device, together: ProcessGroup) -> None:
        self._device, self._together = device, together
        self._names: list[str] = []

    def add(self, values: Mapping[str, torch.Tensor]) -> None:
        """Add the values of examples, [batch], without gradients; the names must be the same each time."""
        if not self._names:
            self._names = list(values)
            self._sums = self._zeros(len(values))
        stacked = torch.stack([values[name].to(torch.float32) for name in self._names])
        self._sums = self._sums + stacked.sum(1)  # in place, it would be another graph for XLA on several devices

    def means(self, examples: int) -> dict[str, float]:
        """Means over the examples of all ranks, on the host; waits for the device."""
        values = self._together.add_up(self._sums).tolist()  # the only copy to the host
        return {name: value / examples for name, value in zip(self._names, values, strict=True)}

    def _zeros(self, count: int) -> torch.Tensor:
        if self._device.type == "xla":  # made there, they would be constants, and the first step another graph
            return torch.zeros(count).to(self._device)
        return torch.zeros(count, device=self._device)
