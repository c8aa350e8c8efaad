"""What a device is to raybench: something to find, to open inside a trial, and to time without being fooled."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
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


class Device(Protocol):
    """One device kind, opened for one trial.

    Every adapter hides what the trial was not given before a framework can touch it, and its `synchronize` returns
    only when all work handed to the device is done: without that, a clock measures the queue.

    Attributes:
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

    def fairness(self) -> dict[str, Any]:
        """The conditions a reader wants to know: threads, cores, what was visible, TF32."""

    def is_oom(self, error: BaseException) -> bool:
        """Whether an exception says that memory ran out."""


class TorchDevice(Device, Protocol):
    """A device that PyTorch computes on.

    `torch_name` is what `torch.device` calls it, `backend` what `torch.distributed` calls the way from one to another.
    """

    torch_name: str
    backend: str
