"""Programs and a library that list GPUs which this machine does not have, in the formats of their vendors."""

import sys
from types import ModuleType, SimpleNamespace

MIB = 1024**2


def install_program(folder, name, outputs):
    """Write a program whose output depends on its arguments; with other arguments it fails."""
    cases = "".join(f"'{arguments}') cat <<'END'\n{text.rstrip()}\nEND\n;;\n" for arguments, text in outputs.items())
    path = folder / name
    path.write_text(f'#!/bin/sh\ncase "$*" in\n{cases}*) echo "not expected: $*" >&2; exit 2;;\nesac\n')
    path.chmod(0o755)


class NVMLError(Exception):
    """As the library's."""


class Nvml(ModuleType):
    """NVML over GPUs that are written as maps, a GPU in MIG mode with `slices`."""

    NVMLError = NVMLError
    NVML_DEVICE_MIG_ENABLE = 1
    NVML_P2P_CAPS_INDEX_NVLINK = 2
    NVML_P2P_STATUS_OK = 0

    def __init__(self, gpus, driver="550.54.15"):
        super().__init__("pynvml")
        self.gpus, self.driver, self.open = gpus, driver, 0

    def nvmlInit(self):
        self.open += 1

    def nvmlShutdown(self):
        self.open -= 1

    def nvmlSystemGetDriverVersion(self):
        return self.driver

    def nvmlDeviceGetCount(self):
        return len(self.gpus)

    def nvmlDeviceGetHandleByIndex(self, index):
        if self.gpus[index] is None:
            raise NVMLError("GPU is lost")
        return self.gpus[index]

    def nvmlDeviceGetHandleByUUID(self, uuid):
        for gpu in self.gpus:
            for device in [gpu, *(gpu.get("slices") or ())]:
                if device["uuid"] == uuid:
                    return device
        raise NVMLError("Not Found")

    def nvmlDeviceGetP2PStatus(self, first, second, capability):
        return int(first["name"] != second["name"])

    def nvmlDeviceGetTopologyCommonAncestor(self, first, second):
        return 40

    def nvmlDeviceGetUUID(self, gpu):
        return gpu["uuid"]

    def nvmlDeviceGetName(self, gpu):
        return gpu["name"]

    def nvmlDeviceGetMemoryInfo(self, gpu):
        if gpu["mib"] is None:
            raise NVMLError("Not Supported")
        return SimpleNamespace(total=gpu["mib"] * MIB)

    def nvmlDeviceGetMigMode(self, gpu):
        if "slices" not in gpu:
            raise NVMLError("Not Supported")
        return [int(gpu["slices"] is not None)] * 2

    def nvmlDeviceGetMaxMigDeviceCount(self, gpu):
        return 7

    def nvmlDeviceGetMigDeviceHandleByIndex(self, gpu, number):
        if number >= len(gpu["slices"]):
            raise NVMLError("Not Found")
        return gpu["slices"][number]


def install_nvml(monkeypatch, library):
    """Make it the module that is imported; None: the package is not installed."""
    monkeypatch.setitem(sys.modules, "pynvml", library)
