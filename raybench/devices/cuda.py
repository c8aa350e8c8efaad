"""NVIDIA GPUs through CUDA: asynchronous, so every clock synchronises first."""

from __future__ import annotations

import csv
import io
import os
import shutil
import subprocess
from typing import Any

from raybench.devices.base import DeviceKind, Hardware
from raybench.devices.cpu import TorchHost
from raybench.devices.host import Host

MIB = 1024 * 1024


def probe() -> list[Hardware]:
    """The GPUs that the driver lists, grouped by model.

    Empty if there is no driver. It needs no framework, and respects `CUDA_VISIBLE_DEVICES` if the user set it to
    indices.
    """
    program = shutil.which("nvidia-smi")
    if program is None:
        return []
    fields = "index,name,memory.total,driver_version"
    command = [program, f"--query-gpu={fields}", "--format=csv,noheader,nounits"]
    try:
        completed = subprocess.run(command, capture_output=True, text=True, timeout=20, check=True)
    except (OSError, subprocess.SubprocessError):
        return []
    return parse_nvidia_smi(completed.stdout, os.environ.get("CUDA_VISIBLE_DEVICES"))


def parse_nvidia_smi(text: str, visible: str | None) -> list[Hardware]:
    """Parse the GPUs in the driver's table, one entry per model.

    Args:
        text: lines of "index, name, memory in MiB, driver version".
        visible: the value of CUDA_VISIBLE_DEVICES, None if unset.
    """
    visible_ids = None if visible is None else {part.strip() for part in visible.split(",") if part.strip()}
    by_numbers = visible_ids is not None and all(part.isdigit() for part in visible_ids)
    by_model: dict[str, Hardware] = {}
    for row in csv.reader(io.StringIO(text), skipinitialspace=True):
        if len(row) != 4 or (by_numbers and visible_ids is not None and row[0] not in visible_ids):
            continue
        index, name, memory, driver = row
        ids = (*(by_model[name].ids if name in by_model else ()), index)
        size = int(memory) * MIB if memory.isdigit() else None
        by_model[name] = Hardware("cuda", name, len(ids), size, driver, ids)
    return list(by_model.values())


KIND = DeviceKind(
    name="cuda",
    label="CUDA GPU",
    adapters={"torch": "raybench.devices.cuda:Cuda", "tensorflow": "raybench.devices.tensorflow:Cuda"},
    loop_adapters={"jax": "raybench.devices.jax:Cuda"},
    precisions=("fp32", "tf32", "bf16", "fp16"),
    status="written from the vendor's documentation; has not run on a GPU yet",
    probe=probe,
    ray_resource="GPU",
    sensors="raybench.monitoring.nvidia:Nvidia",
    aliases=("gpu",),
    visible_variable="CUDA_VISIBLE_DEVICES",
    program_variables={"JAX_PLATFORMS": "cuda"},
)


class Nvidia(Host):
    """A host with NVIDIA GPUs, under any framework."""

    def hide_others(self) -> None:
        """Show only the assigned GPUs; if none is assigned, those visible to the caller."""
        inherited = os.environ.get("CUDA_VISIBLE_DEVICES")
        super().hide_others()
        devices = ",".join(self.assignment.visible) or inherited
        if devices is None:
            del os.environ["CUDA_VISIBLE_DEVICES"]
        else:
            os.environ["CUDA_VISIBLE_DEVICES"] = devices


class Cuda(Nvidia, TorchHost):
    """One or more NVIDIA GPUs; the trial uses the first visible one."""

    synchronous, own_clock = False, True
    torch_name = "cuda"
    backend = "nccl"
    _peak = 0  # before the last search

    def open(self, precision: str) -> None:
        """Set the host's threads, TF32 and cuDNN's algorithm search.

        The search for the fastest algorithm takes place in the first step.

        Raises:
            RuntimeError: this torch sees no GPU.
        """
        import torch

        if not torch.cuda.is_available():
            raise RuntimeError(f"torch {torch.__version__} sees no CUDA device (a build without CUDA, or no driver)")
        torch.set_num_threads(self.assignment.threads)
        if precision:
            torch.backends.cuda.matmul.allow_tf32 = precision == "tf32"
            torch.backends.cudnn.allow_tf32 = precision == "tf32"
        if not self.assignment.own_loop:
            torch.backends.cudnn.benchmark = True
        torch.cuda.set_device(0)
        torch.cuda.reset_peak_memory_stats()

    def synchronize(self) -> None:
        """Wait for every stream of the device."""
        import torch

        torch.cuda.synchronize()

    def mark(self) -> Any:
        """Record an event in the current stream."""
        import torch

        event = torch.cuda.Event(enable_timing=True)  # type: ignore[no-untyped-call]
        event.record()
        return event

    def elapsed(self, start: Any, end: Any) -> int:
        """Nanoseconds between two events, by the device's clock (resolution about 0.5 µs)."""
        return int(start.elapsed_time(end) * 1e6)

    def peak_memory(self) -> int:
        """Peak bytes allocated by the caching allocator, without cuDNN's search."""
        import torch

        return max(self._peak, int(torch.cuda.max_memory_allocated()))

    def begin_search(self) -> None:
        """Keep the peak before cuDNN's search, which tries algorithms that need more memory than the fastest."""
        self._peak = self.peak_memory()

    def end_search(self) -> None:
        """Forget the peak since `begin_search`."""
        import torch

        torch.cuda.reset_peak_memory_stats()

    def describe(self) -> Hardware:
        """The model of the first visible GPU, and the number of visible GPUs."""
        import torch

        properties = torch.cuda.get_device_properties(0)
        drivers = {entry.driver for entry in probe()}
        driver = drivers.pop() if len(drivers) == 1 else None
        return Hardware(self.kind, properties.name, torch.cuda.device_count(), properties.total_memory, driver)

    def runtime_conditions(self) -> dict[str, Any]:
        """Conditions of the host, uses of TF32, and versions of the compute libraries."""
        import torch

        return super().runtime_conditions() | {
            "tf32": bool(torch.backends.cuda.matmul.allow_tf32),
            "tf32_convolutions": bool(torch.backends.cudnn.allow_tf32),
            "cuda": torch.version.cuda,
            "cudnn": torch.backends.cudnn.version(),  # type: ignore[no-untyped-call]
            "cudnn_benchmark": bool(torch.backends.cudnn.benchmark),
            "visible": list(self.assignment.visible) or [str(i) for i in range(torch.cuda.device_count())],
        }
