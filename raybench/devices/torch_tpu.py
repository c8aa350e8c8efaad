"""TorchTPU's adapter: a TPU chip as PyTorch's device `tpu`, written to torch_tpu 0.2 and not run on a TPU yet."""

from __future__ import annotations

import os
from typing import Any

from raybench.devices import tpu
from raybench.devices.base import AsynchronousDevice, Hardware
from raybench.devices.cpu import TorchDevice

AUTOLOAD = "TORCH_DEVICE_BACKEND_AUTOLOAD"
"""Environment variable: whether torch loads the packages of other devices when it is imported.

They may open their device, which must not happen in a fork server; an adapter that needs one loads it."""

LEGACY = "TORCH_TPU_ALLOW_LEGACY_DEVICE_APIS"
"""Environment variable that admits `torch.tpu.get_rng_state`, which checkpoints need: torch 2.13 has no other."""


class TorchTpu(AsynchronousDevice, TorchDevice):
    """One TPU chip of this host; torch_tpu measures events on the host."""

    torch_name = "tpu"
    _last: Any = None

    def hide_others(self) -> None:
        """Show only the assigned chip; if none is assigned, those visible to the caller."""
        super().hide_others()
        if self.assignment.visible:
            os.environ["TPU_VISIBLE_DEVICES"] = ",".join(self.assignment.visible)  # has precedence over _CHIPS

    def open(self, precision: str) -> None:
        """Load torch_tpu, and set threads and the precision of float32 products.

        A TPU multiplies float32 numbers as bfloat16 by default, so fp32 would differ from that of other devices.

        Raises:
            RuntimeError: torch_tpu sees no TPU.
        """
        os.environ[LEGACY] = os.environ[AUTOLOAD] = "1"  # a fork template imports torch without other devices
        import torch
        import torch_tpu  # noqa: F401 — registers the device

        super().open(precision)
        accelerator = torch.accelerator.current_accelerator()
        if accelerator is None or accelerator.type != self.torch_name:
            raise RuntimeError("torch_tpu sees no TPU here; it supports v4, v5e, v5p, v6e and TPU7x")
        if precision == "fp32":
            torch.set_float32_matmul_precision("highest")
        self.synchronize()

    def synchronize(self) -> None:
        """Wait for the device, and for a value that it computes after all submitted work.

        A device computes in order. `torch.accelerator.synchronize` alone is documented for copies to the host.
        """
        import torch

        torch.accelerator.synchronize()
        if self._last is None:  # a program of the user opens the device itself
            self._last = torch.zeros(1, device=self.torch_name)
        self._last.add_(1.0).cpu()

    def peak_memory(self) -> int:
        import torch

        return int(torch.accelerator.max_memory_allocated())

    def describe(self) -> Hardware:
        (hardware,) = tpu.probe()
        return hardware
