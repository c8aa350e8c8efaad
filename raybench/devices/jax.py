"""JAX adapters for CPUs and NVIDIA GPUs, for loops of the user."""

from __future__ import annotations

import os
from dataclasses import replace

from raybench.core.memory import looks_like_oom
from raybench.devices import cuda
from raybench.devices.base import AsynchronousDevice, Hardware


class JaxDevice(AsynchronousDevice):
    """A device on which JAX computes: asynchronously also on the CPU."""

    def set_threads(self, count: int) -> None:
        """Set the threads of XLA's pool, which is made by the first computation."""
        os.environ["NPROC"] = os.environ["PJRT_NPROC"] = str(count)

    def synchronize(self) -> None:
        import jax

        jax.block_until_ready(jax.live_arrays())

    def is_oom(self, error: BaseException) -> bool:
        return super().is_oom(error) or looks_like_oom(str(error))


class Cpu(JaxDevice):
    """A CPU trial: it owns its cores, by default all of the node."""

    def hide_others(self) -> None:
        """Pin the process to its cores, as virtual devices if several are assigned."""
        super().hide_others()
        os.environ["JAX_NUM_CPU_DEVICES"] = str(self.assignment.devices)


class Cuda(cuda.Nvidia, JaxDevice):
    """NVIDIA GPUs: JAX computes on the first visible one by default, and fails without one."""

    def peak_memory(self) -> int:
        import jax

        return max(int((device.memory_stats() or {}).get("peak_bytes_in_use", 0)) for device in jax.local_devices())

    def describe(self) -> Hardware:
        import jax

        gpus = jax.local_devices()
        return replace(self.visible_hardware(gpus[0].device_kind), count=len(gpus), ids=())
