"""The NVIDIA GPUs of this machine, read from the driver without a framework.

NVML is read through the package `nvidia-ml-py`; without the package or the library, the output of `nvidia-smi`,
which describes no slices.
"""

from __future__ import annotations

import csv
import io
import shutil
import subprocess
from contextlib import suppress
from dataclasses import dataclass
from importlib import import_module
from typing import Any

from raybench.devices.visible import selected

LIBRARY = "pynvml"
"""The module of the package `nvidia-ml-py`."""

MIB = 1024**2


@dataclass(frozen=True)
class Gpu:
    """A GPU, or a slice of one in MIG mode (Multi-Instance GPU).

    Attributes:
        index: of the GPU, in the order of the PCI bus.
        uuid: of the GPU.
        model: its name; that of a slice ends with the profile, such as `MIG 1g.10gb`.
        memory_bytes: of the GPU or the slice; None if unknown.
        driver: the driver's version.
        slices: names of the slice, the driver's first; empty for a whole GPU.
    """

    index: str
    uuid: str
    model: str
    memory_bytes: int | None
    driver: str
    slices: tuple[str, ...] = ()

    @property
    def names(self) -> tuple[str, ...]:
        """Everything that selects it in `CUDA_VISIBLE_DEVICES`."""
        return (self.index, self.uuid, *self.slices)

    @property
    def full_name(self) -> str:
        """The driver's UUID of the GPU or the slice."""
        return self.slices[0] if self.slices else self.uuid


def is_slice(model: str) -> bool:
    """Return whether a model is that of a MIG slice, of which a process sees only one.

    Source: https://docs.nvidia.com/datacenter/tesla/mig-user-guide/mig-device-names.html.
    """
    return " MIG " in model


def visible(setting: str | None) -> dict[str, Gpu]:
    """GPUs and MIG slices by a name that CUDA accepts.

    UUIDs and names of slices are kept as they are in the variable. A GPU in MIG mode is replaced by its slices.

    Args:
        setting: the value of `CUDA_VISIBLE_DEVICES`, None if unset.
    """
    gpus = installed()
    if setting is None:
        names = {position: gpu.index for position, gpu in enumerate(gpus)}
    else:
        names = selected(setting, [gpu.names for gpu in gpus])
    return {_own_name(gpus[position], name): gpus[position] for position, name in names.items()}


def _own_name(gpu: Gpu, name: str) -> str:
    """The name itself, or that of a slice if the name is its GPU's."""
    is_of_gpu = name == gpu.index or gpu.uuid.startswith(name)
    return gpu.slices[0] if gpu.slices and is_of_gpu else name


def installed() -> list[Gpu]:
    """All GPUs and MIG slices; empty if there is no driver."""
    gpus = _from_nvml()
    return _from_nvidia_smi() if gpus is None else gpus


def _from_nvml() -> list[Gpu] | None:
    """The GPUs according to NVML; None if it cannot be loaded."""
    try:
        nvml: Any = import_module(LIBRARY)
    except ImportError:
        return None
    try:
        nvml.nvmlInit()
    except nvml.NVMLError:
        return None
    gpus = []
    try:
        driver = nvml.nvmlSystemGetDriverVersion()
        for index in range(nvml.nvmlDeviceGetCount()):
            with suppress(nvml.NVMLError):  # a GPU that has fallen off the bus
                gpus += _of_handle(nvml, nvml.nvmlDeviceGetHandleByIndex(index), str(index), driver)
    except nvml.NVMLError:
        return None
    finally:
        nvml.nvmlShutdown()
    return gpus


def _of_handle(nvml: Any, handle: Any, index: str, driver: str) -> list[Gpu]:
    """A GPU, or its slices if it is in MIG mode."""
    uuid = nvml.nvmlDeviceGetUUID(handle)
    try:
        has_slices = nvml.nvmlDeviceGetMigMode(handle)[0] == nvml.NVML_DEVICE_MIG_ENABLE
    except nvml.NVMLError:  # the GPU has no such mode
        has_slices = False
    if not has_slices:
        return [Gpu(index, uuid, nvml.nvmlDeviceGetName(handle), _memory(nvml, handle), driver)]
    slices = []
    for number in range(nvml.nvmlDeviceGetMaxMigDeviceCount(handle)):
        with suppress(nvml.NVMLError):  # no slice has this number
            part = nvml.nvmlDeviceGetMigDeviceHandleByIndex(handle, number)
            instances = f"{nvml.nvmlDeviceGetGpuInstanceId(part)}/{nvml.nvmlDeviceGetComputeInstanceId(part)}"
            names = (nvml.nvmlDeviceGetUUID(part), f"MIG-{uuid}/{instances}")
            slices.append(Gpu(index, uuid, nvml.nvmlDeviceGetName(part), _memory(nvml, part), driver, names))
    return slices


def _memory(nvml: Any, handle: Any) -> int | None:
    """Bytes of memory; None if the GPU shares the host's."""
    try:
        return int(nvml.nvmlDeviceGetMemoryInfo(handle).total)
    except nvml.NVMLError:
        return None


def _from_nvidia_smi() -> list[Gpu]:
    """The GPUs according to `nvidia-smi`, without those in MIG mode; empty if it is missing or fails."""
    program = shutil.which("nvidia-smi")
    if program is None:
        return []
    fields = "index,uuid,name,memory.total,driver_version,mig.mode.current"
    query = [program, f"--query-gpu={fields}", "--format=csv,noheader,nounits"]
    try:
        table = subprocess.run(query, capture_output=True, text=True, timeout=20, check=True).stdout
    except (OSError, subprocess.SubprocessError):
        return []
    rows = [row for row in csv.reader(io.StringIO(table), skipinitialspace=True) if len(row) == 6]
    return [
        Gpu(index, uuid, name, int(memory) * MIB if memory.isdecimal() else None, driver)
        for index, uuid, name, memory, driver, mode in rows
        if mode != "Enabled"
    ]
