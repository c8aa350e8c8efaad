"""AMD GPUs through ROCm, whose PyTorch has the interface of CUDA; written to its documentation, and not run yet."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from typing import Any

from raybench.devices.base import DeviceKind, Hardware, by_model
from raybench.devices.cuda import Cuda
from raybench.devices.visible import selected

BYTES = {"B": 1, "KB": 1024, "MB": 1024**2, "GB": 1024**3}  # bytes of a unit in the output of `amd-smi`


def probe() -> list[Hardware]:
    """The GPUs that `amd-smi` lists, one entry per model; empty if it is missing or fails, as before ROCm 6.4.

    `ROCR_VISIBLE_DEVICES` is respected, and after it `HIP_VISIBLE_DEVICES` or `CUDA_VISIBLE_DEVICES`, which count the
    GPUs that it leaves (https://rocm.docs.amd.com/projects/HIP/en/latest/reference/env_variables.html).
    """
    program = shutil.which("amd-smi") or shutil.which("/opt/rocm/bin/amd-smi")
    if program is None:
        return []
    try:
        gpus = {gpu["gpu"]: gpu for gpu in _read(program, "static", "--asic", "--vram", "--driver")}
        entries = []
        for name, number in _visible_numbers(_read(program, "list", "-e")).items():
            gpu = gpus[number]
            model, size = gpu["asic"]["market_name"], gpu["vram"]["size"]
            memory = int(size["value"]) * BYTES[size["unit"]] if isinstance(size, dict) else None
            entries.append(Hardware("rocm", model, 1, memory, gpu["driver"]["version"], (name,)))
        return by_model(entries)
    except (OSError, subprocess.SubprocessError, LookupError, TypeError, ValueError):
        return []


def _read(program: str, *arguments: str) -> list[dict[str, Any]]:
    command = [program, *arguments, "--json"]
    text = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True).stdout
    entries = json.loads(text)
    return list(entries["gpu_data"] if isinstance(entries, dict) else entries)


def _visible_numbers(identities: list[dict[str, Any]]) -> dict[str, Any]:
    """The numbers of the visible GPUs in `amd-smi` by their names for HIP.

    `amd-smi`, ROCR and HIP number them in different orders
    (https://rocm.docs.amd.com/projects/amdsmi/en/latest/how-to/amdsmi-cli-tool.html).
    """
    rocr = os.environ.get("ROCR_VISIBLE_DEVICES")
    hip = os.environ.get("HIP_VISIBLE_DEVICES", os.environ.get("CUDA_VISIBLE_DEVICES"))
    ordered = sorted(identities, key=lambda entry: int(entry["hip_id" if rocr is None else "hsa_id"]))
    if rocr is not None:
        ordered = [ordered[position] for position in selected(rocr, _names(ordered))]
    names = {position: str(position) for position in range(len(ordered))}
    if hip is not None:
        names = selected(hip, _names(ordered))
    return {name: ordered[position]["gpu"] for position, name in names.items()}


def _names(identities: list[dict[str, Any]]) -> list[tuple[str, str]]:
    return [(str(position), str(entry["hip_uuid"])) for position, entry in enumerate(identities)]


KIND = DeviceKind(
    name="rocm",
    label="AMD GPU",
    adapters={"torch": "raybench.devices.rocm:Rocm"},
    precisions=("fp32", "bf16", "fp16"),
    status="never run on an AMD GPU; only its detection is tested, on fake output of `amd-smi`",
    probe=probe,
    ray_resource="GPU",
    aliases=("amd", "hip"),
    visible_variables=("HIP_VISIBLE_DEVICES", "CUDA_VISIBLE_DEVICES"),  # HIP and torch read both
    program_variables={"JAX_PLATFORMS": "rocm"},
    in_use={"torch": lambda torch: torch.cuda.is_available() and bool(torch.version.hip)},
)


class Rocm(Cuda):
    """One or more AMD GPUs; the trial uses the first visible one."""

    def open(self, precision: str) -> None:
        import torch

        if not torch.version.hip or not torch.cuda.is_available():
            raise RuntimeError(f"torch {torch.__version__} sees no AMD GPU (a build without ROCm, or no driver)")
        super().open(precision)

    def describe(self) -> Hardware:
        """The model of the visible GPUs by the driver, or by torch if it lists several or none, and their number."""
        import torch

        properties = torch.cuda.get_device_properties(0)
        entries = probe()
        model, driver = (entries[0].model, entries[0].driver) if len(entries) == 1 else (properties.name, None)
        return Hardware(self.kind, model, torch.cuda.device_count(), properties.total_memory, driver)
