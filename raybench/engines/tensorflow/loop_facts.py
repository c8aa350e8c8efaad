"""Facts of TensorFlow about a training loop of the user."""

from __future__ import annotations

from typing import Any, cast

from raybench.devices.tensorflow import TensorFlowHost
from raybench.engines.loop_facts import LoopFacts

_TYPES = {"cuda": "GPU", "tpu": "TPU"}
"""TensorFlow's types of devices, by device kind."""


class Loop(LoopFacts):
    """A loop in TensorFlow or Keras."""

    @property
    def device_name(self) -> str:
        """The name for `tf.device`."""
        return f"{_TYPES.get(self._device.kind, 'CPU')}:0"

    def strategy(self) -> Any:
        """The `tf.distribute` strategy over the trial's devices."""
        return cast(TensorFlowHost, self._device).strategy()
