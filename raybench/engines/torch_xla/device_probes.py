"""Operations of known size through XLA: torch's, each compiled as a separate graph."""

from __future__ import annotations

import torch_xla

from raybench.engines.torch import device_probes


class Operations(device_probes.Operations):
    """As torch's; XLA chooses the layout."""

    def _start(self) -> None:
        torch_xla.sync()
