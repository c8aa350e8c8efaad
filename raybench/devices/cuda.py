"""NVIDIA GPUs through CUDA: asynchronous, so every clock synchronizes first."""

from __future__ import annotations

import os
from typing import Any

from raybench.devices import nvidia
from raybench.devices.base import Device, DeviceKind, Hardware, by_model
from raybench.devices.cpu import TorchDevice


def probe() -> list[Hardware]:
    """The GPUs and MIG slices that the driver lists, one entry per model.

    Empty if there is no driver. It needs no framework, and respects `CUDA_VISIBLE_DEVICES`.
    """
    gpus = nvidia.visible(os.environ.get("CUDA_VISIBLE_DEVICES"))
    return by_model(Hardware("cuda", gpu.model, 1, gpu.memory_bytes, gpu.driver, (name,)) for name, gpu in gpus.items())


KIND = DeviceKind(
    name="cuda",
    label="CUDA GPU",
    adapters={"torch": "raybench.devices.cuda:Cuda", "tensorflow": "raybench.devices.tensorflow:Cuda"},
    loop_adapters={"jax": "raybench.devices.jax:Cuda"},
    precisions=("fp32", "tf32", "bf16", "fp16"),
    status="under PyTorch its tests and six grids ran on one NVIDIA H200, under JAX one; never on several GPUs or "
    "under TensorFlow",
    probe=probe,
    ray_resource="GPU",
    one_per_trial=nvidia.is_slice,
    sensors="raybench.monitoring.nvidia:NvidiaSensors",
    energy="raybench.monitoring.nvidia:NvidiaEnergy",
    aliases=("gpu",),
    visible_variables=("CUDA_VISIBLE_DEVICES",),
    link=nvidia.link,
    program_variables={"JAX_PLATFORMS": "cuda"},
    in_use={
        "torch": lambda torch: torch.cuda.is_available() and not torch.version.hip,
        "tensorflow": lambda tf: bool(tf.config.list_physical_devices("GPU")),
        "jax": lambda jax: bool(jax.default_backend() == "gpu"),
    },
)


class Nvidia(Device):
    """A host with NVIDIA GPUs, under any framework."""

    def visible_hardware(self, name: str) -> Hardware:
        """The visible GPU of that name according to the driver, which adds the profile of a MIG slice."""
        entries = [entry for entry in probe() if entry.model == name or entry.model.startswith(f"{name} MIG ")]
        return min(entries, key=lambda entry: len(entry.model), default=Hardware(self.kind, name, 0))


class Cuda(Nvidia, TorchDevice):
    """One of the visible NVIDIA GPUs; of several ranks, each has its own."""

    synchronous, own_clock = False, True
    torch_name = "cuda"
    backend = "nccl"
    pins_memory = replays_graphs = True
    _used: tuple[int, ...] = (0,)
    _is_opened = False

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
        torch.cuda.set_device(self.assignment.index)
        self._used = (self.assignment.index,)
        torch.cuda.reset_peak_memory_stats()
        self._is_opened = True

    def synchronize(self) -> None:
        """Wait for every stream of the device; in a program of the user, of each GPU on which it has tensors.

        Those need not be the current one: a program may compute on several, and a rank on one that it never selects.
        """
        import torch

        if self._is_opened:
            torch.cuda.synchronize()
            return
        devices = range(torch.cuda.device_count())
        used = tuple(number for number in devices if torch.cuda.memory_reserved(number))
        self._used = used or (torch.cuda.current_device(),)
        for number in self._used:
            torch.cuda.synchronize(number)

    def mark(self) -> Any:
        """Record an event in the current stream; of several GPUs, the first that the program uses."""
        import torch

        if self._is_opened:
            event = torch.Event("cuda", enable_timing=True)  # finds the stream in less time than torch.cuda.Event
            event.record()
        else:
            event = torch.Event(f"cuda:{self._used[0]}", enable_timing=True)
            event.record(torch.cuda.current_stream(self._used[0]))
        return event

    def wait_for(self, mark: Any) -> None:
        mark.synchronize()

    def elapsed(self, start: Any, end: Any) -> int:
        """Nanoseconds between two events, by the device's clock (resolution about 0.5 µs)."""
        return int(start.elapsed_time(end) * 1e6)

    def peak_memory(self) -> int:
        """Peak bytes allocated by the caching allocator, of the GPU that held most."""
        import torch

        return max(int(torch.cuda.max_memory_allocated(number)) for number in self._used)

    def alloc_retries(self) -> int:
        import torch

        return sum(int(torch.cuda.memory_stats(number).get("num_alloc_retries", 0)) for number in self._used)

    def describe(self) -> Hardware:
        """The model of the first visible GPU, and the number of visible GPUs."""
        import torch

        properties = torch.cuda.get_device_properties(0)
        gpu = self.visible_hardware(properties.name)
        return Hardware(self.kind, gpu.model, torch.cuda.device_count(), properties.total_memory, gpu.driver)
