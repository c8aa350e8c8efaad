"""The NVIDIA GPUs of this machine, read from the driver (NVML, package `nvidia-ml-py`) without a framework."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from importlib import import_module
from itertools import combinations
from typing import Any

from raybench.devices.visible import selected

LIBRARY = "pynvml"  # the module of the package `nvidia-ml-py`


@dataclass(frozen=True)
class Gpu:
    """A GPU, or a slice of one in MIG mode (Multi-Instance GPU).

    Attributes:
        index: of the GPU, in the order of the PCI bus.
        uuid: of the GPU.
        model: its name; that of a slice ends with the profile, such as `MIG 1g.10gb`.
        memory_bytes: of the GPU or the slice; None if unknown.
        driver: the driver's version.
        slice_uuid: of the slice; empty for a whole GPU.
    """

    index: str
    uuid: str
    model: str
    memory_bytes: int | None
    driver: str
    slice_uuid: str = ""

    @property
    def names(self) -> tuple[str, ...]:
        """Everything that selects it in `CUDA_VISIBLE_DEVICES`."""
        return (self.index, self.uuid, *filter(None, [self.slice_uuid]))


def is_slice(model: str) -> bool:
    """Return whether a model is that of a MIG slice, of which a process sees only one.

    Source: https://docs.nvidia.com/datacenter/tesla/mig-user-guide/mig-device-names.html.
    """
    return " MIG " in model


def visible(setting: str | None) -> dict[str, Gpu]:
    """GPUs and MIG slices by a name that CUDA accepts.

    A GPU in MIG mode is replaced by its slices.

    Args:
        setting: the value of `CUDA_VISIBLE_DEVICES`, None if unset.
    """
    gpus = installed()
    if setting is None:
        names = {position: gpu.index for position, gpu in enumerate(gpus)}
    else:
        names = selected(setting, [gpu.names for gpu in gpus])
    return {gpus[position].slice_uuid or name: gpus[position] for position, name in names.items()}


def installed() -> list[Gpu]:
    """All GPUs and MIG slices; empty without the package or a driver."""
    try:
        nvml: Any = import_module(LIBRARY)
    except ImportError:
        return []
    try:
        nvml.nvmlInit()
    except nvml.NVMLError:
        return []
    gpus = []
    try:
        driver = nvml.nvmlSystemGetDriverVersion()
        for index in range(nvml.nvmlDeviceGetCount()):
            with suppress(nvml.NVMLError):  # a GPU that has fallen off the bus
                gpus += _of_handle(nvml, nvml.nvmlDeviceGetHandleByIndex(index), str(index), driver)
    except nvml.NVMLError:
        return []
    finally:
        nvml.nvmlShutdown()
    return gpus


def handles(nvml: Any, names: Sequence[str]) -> dict[str, Any]:
    """The handles of GPUs by their indices on the PCI bus, or UUIDs; of all if there are no names."""
    return {
        name: nvml.nvmlDeviceGetHandleByIndex(int(name)) if name.isdecimal() else nvml.nvmlDeviceGetHandleByUUID(name)
        for name in names or map(str, range(nvml.nvmlDeviceGetCount()))
    }


LINKS = {-1: "NVLink", 0: "one board", 10: "PCIe, one switch", 20: "PCIe, several switches"}
LINKS |= {30: "PCIe, one host bridge", 40: "PCIe, several host bridges", 50: "PCIe, between processors"}
"""The connection of two GPUs by NVML's topology level; -1 with NVLink."""


def link(names: Sequence[str]) -> str:
    """The slowest connection between visible GPUs of these names; empty if it is not known."""
    levels = []
    with suppress(Exception):  # no package, no driver, or one that does not know
        nvml: Any = import_module(LIBRARY)
        gpus = visible(",".join(names))
        nvml.nvmlInit()
        handles = [nvml.nvmlDeviceGetHandleByIndex(int(gpu.index)) for gpu in gpus.values()]
        for pair in combinations(handles, 2):
            has_nvlink = nvml.nvmlDeviceGetP2PStatus(*pair, nvml.NVML_P2P_CAPS_INDEX_NVLINK) == nvml.NVML_P2P_STATUS_OK
            levels.append(-1 if has_nvlink else nvml.nvmlDeviceGetTopologyCommonAncestor(*pair))
        nvml.nvmlShutdown()
    return LINKS.get(max(levels), "") if levels else ""


def _of_handle(nvml: Any, handle: Any, index: str, driver: str) -> list[Gpu]:
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
            name, memory = nvml.nvmlDeviceGetName(part), _memory(nvml, part)
            slices.append(Gpu(index, uuid, name, memory, driver, nvml.nvmlDeviceGetUUID(part)))
    return slices


def _memory(nvml: Any, handle: Any) -> int | None:
    """Bytes of memory; None if the GPU shares the host's."""
    try:
        return int(nvml.nvmlDeviceGetMemoryInfo(handle).total)
    except nvml.NVMLError:
        return None
