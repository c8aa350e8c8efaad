"""Facts of torch_xla about a training loop."""

from __future__ import annotations

import torch_xla
from torch_xla import runtime
from torch_xla.debug import metrics

from raybench.devices.base import Device
from raybench.engines.torch import loop_facts


def compilations() -> tuple[int, int]:
    """Number of compiled graphs in this process and their nanoseconds, as counted by XLA."""
    data = metrics.metric_data("CompileTime")
    return (int(data[0]), int(data[1])) if data else (0, 0)


class Loop(loop_facts.Loop):
    """A loop in torch_xla, whose recorded work starts when a step has ended."""

    counts_compilation = True

    def __init__(self, device: Device) -> None:
        super().__init__(device)
        self.graphs = lambda: compilations()[0]
        self.after_step = torch_xla.sync  # compiles and starts the recorded work

    @property
    def device_name(self) -> str:
        return str(torch_xla.device())

    def compile_ns(self) -> int:
        return compilations()[1]

    def misuse(self) -> str:
        """Devices that the program has left idle."""
        devices = self._device.assignment.devices
        if devices == 1 or runtime.is_spmd():
            return ""
        how = "call `torch_xla.runtime.use_spmd()` at its beginning, and shard the batch"
        return f"count is {devices}, but the function used one device: {how}; `torch_xla.launch` does not work here"
