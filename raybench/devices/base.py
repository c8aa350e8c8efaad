"""Interfaces of a device: its kind, its hardware on a node, and the adapter that a trial uses it through."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol


@dataclass(frozen=True)
class Hardware:
    """What one node has of one kind, read without any framework.

    `count` is the number of accelerators or, for a CPU, of cores this process may use; `memory_bytes` is one
    accelerator's memory or the node's; `ids` are the numbers that cores and accelerators go by.
    """

    kind: str
    model: str
    count: int
    memory_bytes: int | None = None
    driver: str | None = None
    ids: tuple[str, ...] = ()


@dataclass(frozen=True)
class Assignment:
    """What a trial was given: its cores, the accelerators it may see, and how many threads it is to use.

    `devices` is how many devices the process computes on: more than one where a framework spreads a batch over several
    (on a host without accelerators, virtual ones).
    """

    cores: Sequence[int]
    visible: Sequence[str]
    threads: int
    devices: int = 1


@dataclass(frozen=True, kw_only=True)
class DeviceKind:
    """A kind of device. Each is declared once, as `KIND` of a module in this package.

    Classes are named by "module:Class" and imported only when they are used: a declaration loads no framework.

    Attributes:
        name: `kind:` of a device in a grid file.
        label: its name in messages, such as "CUDA GPU".
        adapters: for each framework that runs on it, the class that implements `Device`; the default framework first.
        precisions: the settings of `precision` that it can compute in.
        status: how it has been tested, for `raybench devices` and the README.
        probe: returns this machine's hardware of the kind without loading a framework; None for a virtual kind.
        hardware: for a virtual kind, the name of the kind on whose hardware it computes.
        ray_resource: Ray's name for its accelerators; empty if Ray does not count them.
        counts: how many accelerators a trial may take, as aligned blocks; empty if any number will do.
        devices_per_accelerator: from the model of an accelerator to the devices that a framework sees in it.
        sensors: the class that reads its clocks and temperatures during a trial (`raybench.monitoring.accelerators`).
        environments: for a framework that needs an environment of its own here, that environment's name.
        aliases: other names, which an error message for a grid file translates.
    """

    name: str
    label: str
    adapters: Mapping[str, str]
    precisions: Sequence[str]
    status: str
    probe: Callable[[], list[Hardware]] | None = None
    hardware: str = ""
    ray_resource: str = ""
    counts: Sequence[int] = ()
    devices_per_accelerator: Callable[[str], int] = lambda model: 1
    sensors: str = ""
    environments: Mapping[str, str] = field(default_factory=dict)
    aliases: Sequence[str] = ()

    @property
    def virtual(self) -> bool:
        """Whether it is another way to use the hardware of another kind."""
        return bool(self.hardware)

    @property
    def on_host(self) -> bool:
        """Whether it computes on the host's cores and takes no accelerator."""
        return (self.hardware or self.name) == "cpu"


class Device(Protocol):
    """One device kind, opened for one trial.

    Every adapter hides what the trial was not given before a framework can touch it, and its `synchronize` returns
    only when all work handed to the device is done: without that, a clock measures the queue.

    Attributes:
        kind: the name of its kind, set by `raybench.devices.open_device`.
        synchronous: whether work is done when the call that asks for it returns, so that the host's clock, which its
            marks are, times every step.
        own_clock: whether marks are events in the device's stream, timed by its own clock and not by the host's.
    """

    kind: str
    synchronous: bool
    own_clock: bool

    def hide_others(self) -> None:
        """Make everything else invisible; called after the framework's import, before its first device call."""

    def open(self, precision: str) -> None:
        """Set threads and the arithmetic the precision asks for (TF32 on or off)."""

    def synchronize(self) -> None:
        """Wait until the device has nothing left to do."""

    def mark(self) -> Any:
        """A point in the device's stream of work.

        Costs next to nothing where the device is synchronous or has a clock of its own. Elsewhere it may have to wait
        for the device, or be of the moment when work was handed over, and only a pass with a new shape is marked.
        """

    def elapsed(self, start: Any, end: Any) -> int:
        """Nanoseconds between two marks, after a `synchronize`."""

    def peak_memory(self) -> int:
        """The most bytes the trial has held: on the accelerator or, on a CPU, in the process."""

    def describe(self) -> Hardware:
        """What the trial really runs on."""

    def runtime_conditions(self) -> dict[str, Any]:
        """The conditions a reader wants to know: threads, cores, what was visible, TF32."""

    def is_oom(self, error: BaseException) -> bool:
        """Whether an exception says that memory ran out."""


class TorchDevice(Device, Protocol):
    """A device that PyTorch computes on.

    `torch_name` is what `torch.device` calls it, `backend` what `torch.distributed` calls the way from one to another.
    """

    torch_name: str
    backend: str
