"""torch_xla adapters: the XLA CPU client (`xla_cpu`), and the base for TPUs.

XLA is lazy: torch's calls only record a graph, `torch_xla.sync()` compiles and starts it, and the call returns before
it is done. So a clock measures work only between two `synchronize` calls.
"""

from __future__ import annotations

import logging
import os

from raybench.devices.base import DeviceKind
from raybench.devices.cpu import TorchDevice

KIND = DeviceKind(
    name="xla_cpu",
    label="XLA CPU device",
    adapters={"torch_xla": "raybench.devices.xla:XlaCpu"},
    precisions=("fp32", "bf16"),
    status="tests run it on every change: the code of a TPU trial on the host's cores, not a TPU's speed",
    hardware="cpu",
    environments={"torch_xla": "xla"},
    program_variables={"PJRT_DEVICE": "CPU"},
    in_use={"torch_xla": lambda torch_xla: True},
)


class Xla(TorchDevice):
    """One or more XLA devices in one process, of the PJRT client that the kind selects in the environment."""

    torch_name = "xla"
    synchronous, lazy = False, True

    def set_threads(self, count: int) -> None:
        """Set the threads of XLA's pool, and of torch for work on the host.

        PJRT sizes its pool by PJRT_NPROC, then NPROC, then the process's affinity, when the client is made.
        """
        super().set_threads(count)
        os.environ["PJRT_NPROC"] = os.environ["NPROC"] = str(count)

    def open(self, precision: str) -> None:
        """Set threads and the precision of float32 products, and create the client by the first call.

        A TPU multiplies float32 numbers as bfloat16 by default, so fp32 would differ from that of other devices.

        Raises:
            RuntimeError: there is no such device.
        """
        from torch_xla import backends, runtime

        super().open(precision)
        if precision == "fp32":
            backends.logger.setLevel(logging.ERROR)  # it warns at each call, also at the first
            backends.set_mat_mul_precision("highest")
        runtime.addressable_runtime_device_count()  # asking for a device would fix that SPMD is off

    def synchronize(self) -> None:
        """Start all recorded work, and wait until every device is done."""
        import torch_xla
        from torch_xla.core import xla_model

        torch_xla.sync(wait=True)
        xla_model.wait_device_ops()


class XlaCpu(Xla):
    """The host's cores through XLA: a TPU trial's code, but never presented as a TPU."""

    def hide_others(self) -> None:
        """Pin the process, and create virtual devices on its cores if several are assigned."""
        super().hide_others()
        os.environ["CPU_NUM_DEVICES"] = str(self.assignment.devices)

    def threads(self) -> int:
        return int(os.environ["PJRT_NPROC"])
