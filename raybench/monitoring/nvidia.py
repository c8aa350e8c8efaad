"""Sensors of NVIDIA GPUs through NVML, without a context on the GPU."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from importlib import import_module
from typing import Any

from raybench.devices.energy import Joules, Unavailable
from raybench.devices.nvidia import LIBRARY, handles

REASONS: Mapping[int, str] = {
    0x2: "applications_clocks",
    0x4: "power_cap",
    0x8: "hardware_slowdown",
    0x10: "sync_boost",
    0x20: "thermal",
    0x40: "hardware_thermal",
    0x80: "power_brake",
    0x100: "display_clocks",
}
"""NVML's clock event reasons (nvml.h), without 0x1, which means that the GPU is idle."""


class _Gpus:
    """Handles of some NVIDIA GPUs.

    Args:
        names: their indices on the PCI bus, or UUIDs; empty for all.
    """

    def __init__(self, names: Sequence[str]) -> None:
        try:
            self._nvml: Any = import_module(LIBRARY)
        except ImportError:
            raise Unavailable("the package nvidia-ml-py is not installed") from None
        try:
            self._nvml.nvmlInit()
        except self._nvml.NVMLError as error:
            raise Unavailable(str(error)) from None
        try:
            self._gpus = handles(self._nvml, names)
        except self._nvml.NVMLError as error:
            self.close()
            raise Unavailable(str(error)) from None

    def close(self) -> None:
        """Release the library, whose users the driver counts."""
        with suppress(self._nvml.NVMLError):
            self._nvml.nvmlShutdown()


class NvidiaSensors(_Gpus):
    """The sensors of some NVIDIA GPUs (`raybench.monitoring.sampler`)."""

    def read(self) -> list[dict[str, Any]]:
        """The reasons for reduced clocks of each GPU, as `throttled`, and `busy`: the share of the last second or less.

        A GPU counts as busy while any kernel runs on it. What it does not report is left out.
        """
        values: list[dict[str, Any]] = []
        for name, gpu in self._gpus.items():
            values.append({"id": name})
            with suppress(self._nvml.NVMLError):
                bits = int(self._nvml.nvmlDeviceGetCurrentClocksEventReasons(gpu))
                values[-1]["throttled"] = [reason for bit, reason in REASONS.items() if bits & bit]
            with suppress(self._nvml.NVMLError):
                values[-1]["busy"] = int(self._nvml.nvmlDeviceGetUtilizationRates(gpu).gpu) / 100
        return values


class NvidiaEnergy(_Gpus):
    """The energy counters of some NVIDIA GPUs; GPUs before Volta and slices of a GPU have none."""

    def read(self) -> Joules:
        """The joules of each GPU since its driver was loaded."""
        read = self._nvml.nvmlDeviceGetTotalEnergyConsumption  # in millijoules
        try:
            return {f"gpu {name}": read(gpu) / 1000 for name, gpu in self._gpus.items()}
        except self._nvml.NVMLError as error:
            raise Unavailable(str(error)) from None
