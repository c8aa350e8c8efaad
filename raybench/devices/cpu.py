"""The CPU: detection of the processor, and its PyTorch adapter."""

from __future__ import annotations

from raybench.devices.base import Assignment, AsynchronousDevice, Device, DeviceKind, Hardware
from raybench.devices.host import model_name, total_memory, usable_cores


def probe() -> list[Hardware]:
    """The processor of this node: always exactly one entry."""
    cores = usable_cores()
    return [Hardware("cpu", model_name(), len(cores), total_memory(), ids=tuple(map(str, cores)))]


KIND = DeviceKind(
    name="cpu",
    label="CPU",
    adapters={"torch": "raybench.devices.cpu:Cpu", "tensorflow": "raybench.devices.tensorflow:Cpu"},
    loop_adapters={"jax": "raybench.devices.jax:Cpu", "none": "raybench.devices.no_framework:Cpu"},
    precisions=("fp32", "bf16", "fp16"),
    status="tests run it on every change",
    probe=probe,
    link=lambda names: "the machine's memory",
    program_variables={"JAX_PLATFORMS": "cpu"},
    in_use={
        "torch": lambda torch: not torch.accelerator.is_available(),
        "tensorflow": lambda tf: all(device.device_type == "CPU" for device in tf.config.list_physical_devices()),
        "jax": lambda jax: bool(jax.default_backend() == "cpu"),
    },
)


class TorchDevice(Device):
    """A device that PyTorch computes on; of the CPU, what all of them share.

    Attributes:
        torch_name: its name for `torch.device`.
        backend: the communication backend for `torch.distributed`.
        lazy: whether operations are recorded, and compiled and run later: a value made on the device is a constant of
            the program, and one copied to it is an input.
        pins_memory: whether the host need not wait for a copy from its pinned memory.
        replays_graphs: whether `torch.compile` can record the kernels of a step, and replay them (CUDA graphs).
    """

    torch_name = "cpu"
    backend = "gloo"
    lazy = pins_memory = replays_graphs = False

    def set_threads(self, count: int) -> None:
        """Set threads through torch, which reads OMP_NUM_THREADS only at import."""
        import torch

        torch.set_num_threads(count)

    def threads(self) -> int:
        import torch

        return torch.get_num_threads()


class Cpu(TorchDevice):
    """A CPU trial: it owns its cores, by default all of the node."""


class OtherAccelerator(AsynchronousDevice, TorchDevice):
    """An accelerator of a kind that raybench does not know, in a program of the user; PyTorch waits for any."""

    def __init__(self, assignment: Assignment) -> None:
        import torch

        super().__init__(assignment)
        self.torch_name = str(torch.accelerator.current_accelerator())

    def synchronize(self) -> None:
        import torch

        torch.accelerator.synchronize()
