"""How torch_xla uses a device: the host's cores through XLA's own CPU client (kind `xla_cpu`), and what a TPU shares.

XLA is lazy: torch's calls only write a graph down, `torch_xla.sync()` compiles and starts it, and the call returns
before it is done. So a clock tells the time of work only between two `synchronize` calls.
"""

from __future__ import annotations

import os
from typing import Any

from raybench.devices.base import DeviceKind
from raybench.devices.cpu import TorchHost

KIND = DeviceKind(
    name="xla_cpu",
    label="XLA CPU device",
    adapters={"torch_xla": "raybench.devices.xla:XlaCpu"},
    precisions=("fp32", "bf16"),
    status="run by the tests: the code of a TPU trial on the host's cores, which says nothing about a TPU's speed",
    hardware="cpu",
    environments={"torch_xla": "xla"},
)


class Xla(TorchHost):
    """One or more XLA devices in one process; the adapter of a kind says which client PJRT is to make."""

    torch_name = "xla"
    synchronous = False
    pjrt: str

    def hide_others(self) -> None:
        """Pin the process and name the client; PJRT reads its environment when the first device is asked for."""
        super().hide_others()
        os.environ["PJRT_DEVICE"] = self.pjrt

    def set_threads(self, count: int) -> None:
        """XLA's own pool, and torch's for what is prepared on the host.

        PJRT sizes its pool by PJRT_NPROC, then NPROC, then the process's affinity, when the client is made.
        """
        super().set_threads(count)
        os.environ["PJRT_NPROC"] = os.environ["NPROC"] = str(count)

    def open(self, precision: str) -> None:
        """Threads, and the first call that makes the client.

        Raises:
            ValueError: the device does not have that precision.
            RuntimeError: there is no such device.
        """
        from torch_xla import runtime

        super().open(precision)
        runtime.addressable_runtime_device_count()  # a device itself would settle that there is no SPMD

    def synchronize(self) -> None:
        """Start what is still only written down, and wait until every device is done."""
        import torch_xla
        from torch_xla.core import xla_model

        torch_xla.sync(wait=True)
        xla_model.wait_device_ops()

    def runtime_conditions(self) -> dict[str, Any]:
        """The host's part, and how exactly XLA computes products of float32: `default` is a TPU's bfloat16."""
        from torch_xla import backends

        return super().runtime_conditions() | {"float32_products": backends.get_mat_mul_precision()}


class XlaCpu(Xla):
    """The host's cores through XLA: the code of a TPU trial without a TPU, and never to be taken for one."""

    pjrt = "CPU"

    def hide_others(self) -> None:
        """Pin the process; where several devices are wanted, as many virtual ones share its cores."""
        super().hide_others()
        os.environ["CPU_NUM_DEVICES"] = str(self.assignment.devices)

    def runtime_conditions(self) -> dict[str, Any]:
        """The host's part, with the threads of XLA's pool."""
        return super().runtime_conditions() | {"threads": int(os.environ["PJRT_NPROC"])}
