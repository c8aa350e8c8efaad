"""Collective operations in PyTorch/XLA, with one process per TPU chip.

Written to the documentation, and not run on a TPU yet.
"""

from __future__ import annotations

from collections.abc import Iterable

import torch
from torch import nn
from torch_xla.core import xla_model

from raybench.core.rank import Rank
from raybench.engines.torch.distributed import ProcessGroup

BUCKET_MIB = 25
"""Largest sum of gradients in one collective operation, as in `DistributedDataParallel`."""


class XlaProcessGroup(ProcessGroup):
    """Collective operations of the ranks, inside the graph; no-ops with one rank.

    The chips received one another's addresses when the device was opened (`raybench.devices.tpu`).
    """

    def __init__(self, rank: Rank) -> None:
        self._count, self._device = rank.count, torch.device("xla")
        if rank.count > 1:
            device, *others = xla_model.get_xla_supported_devices()
            xla_model.set_replication(device, [device, *others])

    def model(self, model: nn.Module) -> nn.Module:
        """The unchanged model, as `average_gradients` averages gradients."""
        return model

    def add_up(self, values: torch.Tensor) -> torch.Tensor:
        """Sum over the ranks, in place."""
        if self._count > 1:
            xla_model.all_reduce(xla_model.REDUCE_SUM, [values])
        return values

    def average_gradients(self, parameters: Iterable[nn.Parameter]) -> None:
        """Average every gradient over the ranks, in place.

        In a few large operations, from the last layer on: the first can run while earlier layers go backward.
        """
        gradients = [parameter.grad for parameter in parameters if parameter.grad is not None]
        if self._count > 1:
            xla_model.all_reduce_bucketized_gradients(gradients[::-1], 1.0 / self._count, None, True, BUCKET_MIB)
