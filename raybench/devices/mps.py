"""Apple's GPU through Metal (MPS), written to its documentation and not run on such a machine yet."""

from __future__ import annotations

import platform

from raybench.devices.base import AsynchronousDevice, DeviceKind, Hardware
from raybench.devices.cpu import TorchDevice
from raybench.devices.host import model_name, total_memory


def probe() -> list[Hardware]:
    """The GPU of a Mac with Apple silicon; it shares the host's memory."""
    if platform.system() != "Darwin" or platform.machine() != "arm64":
        return []
    return [Hardware("mps", f"{model_name()} GPU", 1, total_memory(), platform.mac_ver()[0], ids=("0",))]


KIND = DeviceKind(
    name="mps",
    label="Apple GPU",
    adapters={"torch": "raybench.devices.mps:Mps"},
    precisions=("fp32", "bf16", "fp16"),
    status="never run on an Apple GPU; tested with a fake Mac and a fake `torch.mps`",
    probe=probe,
    ray_resource="GPU",
    in_use={"torch": lambda torch: bool(torch.backends.mps.is_available())},
)


class Mps(AsynchronousDevice, TorchDevice):
    """The one GPU of an Apple machine; its events cannot be timed in every version of torch."""

    torch_name = "mps"

    def open(self, precision: str) -> None:
        import torch

        super().open(precision)
        if not torch.backends.mps.is_available():
            raise RuntimeError(f"torch {torch.__version__} sees no MPS device")

    def synchronize(self) -> None:
        import torch

        torch.mps.synchronize()

    def peak_memory(self) -> int:
        """Bytes that the driver holds for this process now; Metal records no peak."""
        import torch

        return int(torch.mps.driver_allocated_memory())

    def describe(self) -> Hardware:
        return probe()[0]
