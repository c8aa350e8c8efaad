"""Facts of torch_xla about a training loop of the user."""

from __future__ import annotations

import torch_xla

from raybench.devices.base import Device
from raybench.engines.torch import user_loop
from raybench.engines.torch_xla.engine import compilations


class Loop(user_loop.Loop):
    """A loop in torch_xla, whose recorded work starts when a step has ended."""

    counts_compilation = True

    def __init__(self, device: Device) -> None:
        super().__init__(device)
        self.graphs = lambda: compilations()[0]
        self.after_step = torch_xla.sync  # compiles and starts the recorded work

    @property
    def device_name(self) -> str:
        """The name of the first XLA device."""
        return str(torch_xla.device())

    def compile_ns(self) -> int:
        """Nanoseconds of compilation in this process, as counted by XLA."""
        return compilations()[1]
