"""TPUs of this host, detected without a framework, and their adapter for torch_xla.

Written to the documentation, and not run on a TPU yet.

Trials are assigned chips. A chip of v2, v3 or TPU7x has two cores, which frameworks see as two devices; others show a
chip as one device. Each half of a TPU7x is a function of its own on the PCI bus.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from raybench.devices.base import DeviceKind, Hardware, by_model
from raybench.devices.xla import Xla

GIB = 1024**3
GOOGLE = "0x1ae0"


@dataclass(frozen=True)
class Generation:
    """Properties of a TPU generation: name, memory, and cores and functions on the PCI bus per chip."""

    model: str
    memory_bytes: int
    cores: int = 1
    functions: int = 1


V2, V3 = Generation("TPU v2", 16 * GIB, 2), Generation("TPU v3", 32 * GIB, 2)
GENERATIONS = {
    ("0x0027", "0x004e"): V2,
    ("0x0027", "0x004f"): V3,
    ("0x005e", None): Generation("TPU v4", 32 * GIB),
    ("0x0062", None): Generation("TPU v5p", 95 * GIB),
    ("0x0063", None): Generation("TPU v5e", 16 * GIB),
    ("0x006f", None): Generation("TPU v6e", 32 * GIB),
    ("0x0076", None): Generation("TPU7x", 192 * GIB, 2, 2),
}
"""Generations by PCI device and subsystem device, from Google's `tpu-info` and torch_xla; memory is per chip."""

BOUNDS = {1: "1,1,1", 2: "1,2,1", 4: "2,2,1", 8: "2,4,1"}
"""Topology of a number of chips of one host, for libtpu, if a process uses only some of the chips."""

PEERS = ("TPU_PROCESS_ADDRESSES", "TPU_PROCESS_PORT", "CLOUD_TPU_TASK_ID")
"""Variables by which the processes of a topology find one another; those of the caller are not a trial's."""


def cores(model: str) -> int:
    """Devices per chip; 1 for an unknown model."""
    return next((generation.cores for generation in GENERATIONS.values() if generation.model == model), 1)


def probe(root: Path = Path("/")) -> list[Hardware]:
    """Detect the TPU chips on the PCI bus, one entry per model.

    Only chips that have a device file are included.

    A chip is identified by its position on the bus, from 0, as in `TPU_VISIBLE_CHIPS`, which is respected if it is set.
    Up to v4 the device file is `/dev/accelN`, later `/dev/vfio/GROUP`.
    """
    text = os.environ.get("TPU_VISIBLE_CHIPS")
    visible = None if text is None else {part.strip() for part in text.split(",") if part.strip()}
    entries, number = [], 0
    for chip in sorted(root.glob("sys/bus/pci/devices/*")):
        generation = _generation(chip)
        if generation is None:
            continue
        identity, number = str(number // generation.functions), number + 1
        if _has_file(chip, identity, root) and (visible is None or identity in visible):
            entries.append(Hardware("tpu", generation.model, 1, generation.memory_bytes, ids=(identity,)))
    return by_model(entries)


def _generation(chip: Path) -> Generation | None:
    def read(name: str) -> str:
        try:
            return (chip / name).read_text().strip()
        except OSError:
            return ""

    if read("vendor") != GOOGLE:
        return None
    device = read("device")
    return GENERATIONS.get((device, None)) or GENERATIONS.get((device, read("subsystem_device")))


def _has_file(chip: Path, identity: str, root: Path) -> bool:
    if (root / f"dev/accel{identity}").exists():
        return True
    group = chip / "iommu_group"
    return group.exists() and (root / "dev/vfio" / group.resolve().name).exists()


def show(chips: Sequence[str]) -> None:
    """Show this process only some chips; if there are none, those that its caller sees."""
    if chips:
        for name in PEERS:
            os.environ.pop(name, None)
        os.environ["TPU_VISIBLE_CHIPS"] = ",".join(chips)
        os.environ["TPU_CHIPS_PER_PROCESS_BOUNDS"] = BOUNDS[len(chips)]
        os.environ["TPU_PROCESS_BOUNDS"] = "1,1,1"


KIND = DeviceKind(
    name="tpu",
    label="TPU",
    adapters={
        "torch_xla": "raybench.devices.tpu:Tpu",
        "torch_tpu": "raybench.devices.torch_tpu:TorchTpu",
    },
    precisions=("fp32", "bf16"),
    status="never run on a TPU; tested with fakes of its host and of TorchTPU, and by the code shared with `xla_cpu`",
    probe=probe,
    ray_resource="TPU",
    counts=(1, 2, 4, 8),
    devices_per_accelerator=cores,
    environments={"torch_xla": "tpu", "torch_tpu": "torch_tpu"},
    visible_variables=("TPU_VISIBLE_CHIPS",),
    program_variables={"PJRT_DEVICE": "TPU"},
    show=show,
    in_use={
        "torch_xla": lambda torch_xla: os.environ.get("PJRT_DEVICE") == "TPU",
        "torch_tpu": lambda torch_tpu: True,
    },
)


class Tpu(Xla):
    """TPU chips of this host."""

    def peak_memory(self) -> int:
        import torch_xla
        from torch_xla.core import xla_model

        infos = [xla_model.get_memory_info(device) for device in torch_xla.devices()]
        return max(int(info["peak_bytes_used"]) for info in infos)

    def describe(self) -> Hardware:
        (hardware,) = probe()
        return hardware
