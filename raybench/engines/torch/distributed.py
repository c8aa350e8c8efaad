"""Ranks that train one model in PyTorch: gradients averaged, running statistics averaged, sums added up."""

from __future__ import annotations

import inspect
import os
import socket
from typing import Any, cast

import torch
from torch import distributed, nn
from torch.nn.parallel import DistributedDataParallel

from raybench.core.rank import Rank

LOOPBACK = ("lo", "lo0")
"""What Linux and macOS call the network interface on which a host talks to itself."""

_KNOWN = inspect.signature(DistributedDataParallel).parameters
OWN_BUFFERS = {"forward_sync_buffers" if "forward_sync_buffers" in _KNOWN else "broadcast_buffers": False}
"""Each rank keeps running statistics of its own between evaluations; torch 2.13 has another word for that than 2.9."""


class ProcessGroup:
    """What ranks do together; with one rank, each is what a process alone does.

    Over nccl, on several GPUs, it is written to torch's documentation and has not been run yet.

    Args:
        rank: which of them this process is; they meet when the first of these is made.
        backend: of `torch.distributed`: gloo between a host's cores, nccl between NVIDIA GPUs.
        device: the one this rank computes on.
    """

    def __init__(self, rank: Rank, backend: str, device: torch.device) -> None:
        self._count, self._device = rank.count, device
        if rank.count > 1 and not distributed.is_initialized():
            names = [name for _, name in socket.if_nameindex() if name in LOOPBACK]
            if names:  # all ranks are on this host, whatever its name resolves to
                os.environ.setdefault("GLOO_SOCKET_IFNAME", names[0])
            store = distributed.FileStore(rank.meeting, rank.count)  # type: ignore[attr-defined]
            distributed.init_process_group(backend, store=store, rank=rank.number, world_size=rank.count)

    def model(self, model: nn.Module) -> nn.Module:
        """The model whose backward pass leaves the mean of all ranks' gradients."""
        return model if self._count == 1 else DistributedDataParallel(model, **cast(Any, OWN_BUFFERS))

    def wait(self) -> None:
        """Have the device wait until all ranks have come here."""
        if self._count > 1:
            self.add_up(torch.zeros(1, device=self._device))

    def add_up(self, values: torch.Tensor) -> torch.Tensor:
        """The sum over the ranks, in place."""
        if self._count > 1:
            distributed.all_reduce(values)
        return values

    def average_buffers(self, model: nn.Module) -> None:
        """The mean over the ranks of every buffer that is not a count, such as running statistics, in place."""
        moving = [buffer for buffer in model.buffers() if buffer.is_floating_point()]
        if self._count > 1 and moving:
            flat = self.add_up(torch.cat([buffer.flatten() for buffer in moving])) / self._count
            means = torch.split(flat, [buffer.numel() for buffer in moving])
            for buffer, mean in zip(moving, means, strict=True):
                buffer.copy_(mean.view_as(buffer))
