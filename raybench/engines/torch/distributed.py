"""Collective operations of ranks that train one model in PyTorch: averages of gradients, sums of metrics."""

from __future__ import annotations

import inspect
import time
from typing import Any, cast

import torch
from torch import distributed, nn
from torch.nn.parallel import DistributedDataParallel

from raybench.core.rank import Rank
from raybench.devices.cpu import TorchDevice

_KNOWN = inspect.signature(DistributedDataParallel).parameters
OWN_BUFFERS = {"forward_sync_buffers" if "forward_sync_buffers" in _KNOWN else "broadcast_buffers": False}
"""Argument for separate running statistics per rank between evaluations, by its names in torch 2.13 and 2.9."""


class ProcessGroup:
    """Collective operations of the ranks; with one rank, local operations.

    The use of nccl, on several GPUs, is written to torch's documentation and has not been run yet.

    Args:
        rank: the rank of this process; the first instance waits for all ranks.
        backend: of `torch.distributed`: gloo between a host's cores, nccl between NVIDIA GPUs.
    """

    def __init__(self, rank: Rank, backend: str) -> None:
        self._count = rank.count
        if rank.count > 1 and not distributed.is_initialized():
            distributed.init_process_group(backend)

    def model(self, model: nn.Module) -> nn.Module:
        """Wrap the model so that its backward pass averages gradients over the ranks."""
        return model if self._count == 1 else DistributedDataParallel(model, **cast(Any, OWN_BUFFERS))

    def add_up(self, values: torch.Tensor) -> torch.Tensor:
        """Sum over the ranks, in place."""
        if self._count > 1:
            distributed.all_reduce(values)
        return values

    def average_buffers(self, model: nn.Module) -> None:
        """Average every floating-point buffer over the ranks, such as running statistics, in place."""
        moving = [buffer for buffer in model.buffers() if buffer.is_floating_point()]
        if self._count > 1 and moving:
            flat = self.add_up(torch.cat([buffer.flatten() for buffer in moving])) / self._count
            means = torch.split(flat, [buffer.numel() for buffer in moving])
            for buffer, mean in zip(moving, means, strict=True):
                buffer.copy_(mean.view_as(buffer))

    def sum_seconds(self, size: int, device: TorchDevice) -> float:
        """Seconds in which the ranks sum so many bytes of float32 values, from the last one's start."""
        values = torch.ones(size // 4, device=device.torch_name)
        device.synchronize()
        distributed.barrier()
        start_s = time.perf_counter()
        distributed.all_reduce(values)
        device.synchronize()
        return time.perf_counter() - start_s
