"""Operations of known size through XLA: torch's, each compiled and started as a graph of its own."""

from __future__ import annotations

import torch_xla

from raybench.engines.torch import device_probes


class Operations(device_probes.Operations):
    """As torch's; the layout is XLA's to choose."""

    def _start(self) -> None:
        torch_xla.sync()
