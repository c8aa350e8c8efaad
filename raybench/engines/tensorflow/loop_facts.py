"""Facts of TensorFlow about a training loop of the user."""

from __future__ import annotations

from raybench.engines.loop_facts import LoopFacts


class Loop(LoopFacts):
    """A loop in TensorFlow or Keras."""

    @property
    def device_name(self) -> str:
        return "GPU:0" if self._device.kind == "cuda" else "CPU:0"
