"""A device: its kind, its hardware on a node, and the base of its adapters."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from raybench.core.memory import looks_like_oom, peak_resident
from raybench.devices.host import model_name, total_memory, usable_cores


@dataclass(frozen=True)
class Hardware:
    """The hardware of one kind on a node, read without any framework.

    `count` is the number of accelerators or, for a CPU, of cores this process may use; `memory_bytes` is the memory of
    one accelerator or of the node; `ids` are the identifiers of the cores or accelerators.
    """

    kind: str
    model: str
    count: int
    memory_bytes: int | None = None
    driver: str | None = None
    ids: tuple[str, ...] = ()


def by_model(entries: Iterable[Hardware]) -> list[Hardware]:
    """One entry per model, in the order of their first ids, from one or more per accelerator."""
    models: dict[str, Hardware] = {}
    for entry in entries:
        ids = models[entry.model].ids if entry.model in models else ()
        ids += tuple(name for name in entry.ids if name not in ids)
        models[entry.model] = replace(entry, count=len(ids), ids=ids)
    return list(models.values())


@dataclass(frozen=True)
class Assignment:
    """The resources assigned to a trial: cores, accelerators and threads.

    `devices` is the number of devices that the process computes on: more than one if a framework spreads a batch over
    several (on a host without accelerators, virtual ones). `own_loop`: the training loop is the user's, whose modes of
    arithmetic are left alone. `index`: the number of this process's accelerator among the visible ones.
    """

    cores: Sequence[int]
    visible: Sequence[str]
    threads: int
    devices: int = 1
    own_loop: bool = False
    index: int = 0


@dataclass(frozen=True, kw_only=True)
class DeviceKind:
    """A kind of device, declared once as `KIND` of a module in this package.

    Classes are named by "module:Class" and imported only when they are used: a declaration loads no framework.

    Attributes:
        name: `kind:` of a device in a grid file.
        label: its name in messages, such as "CUDA GPU".
        adapters: for each framework that runs on it, the class that implements `Device`; the default framework first.
        loop_adapters: the same for frameworks of which raybench has no training loop, only the user has
            (`raybench.engines.loop_facts`).
        precisions: the values of `precision` that it supports.
        status: its test status, for the README.
        probe: returns this machine's hardware of the kind without loading a framework; None for a virtual kind.
        hardware: for a virtual kind, the kind whose hardware it uses.
        ray_resource: Ray's name for its accelerators; empty if Ray does not count them.
        counts: how many accelerators a trial may take, as aligned blocks; empty if any number is allowed.
        one_per_trial: returns whether a trial takes at most one accelerator of a given model.
        devices_per_accelerator: returns the number of devices that a framework sees in an accelerator of a given model.
        sensors: the class that reads its clocks and temperatures during a trial (`raybench.monitoring.sampler`).
        energy: the class that reads its energy counters during a trial (`raybench.devices.energy`).
        environments: by framework, the name of the Python environment, if it needs its own on this kind.
        aliases: other names, which error messages for a grid file translate.
        visible_variables: the environment variables that select the accelerators a process sees, of which the first is
            set.
        program_variables: environment variables by which JAX and PyTorch/XLA choose the kind.
        link: returns the slowest connection between its devices of these names; empty if it is not known.
        show: shows this process and its programs some accelerators only, if `visible_variables` alone do not.
        in_use: by framework, returns whether its imported module computes on the kind by default in this process.
    """

    name: str
    label: str
    adapters: Mapping[str, str]
    precisions: Sequence[str]
    status: str
    probe: Callable[[], list[Hardware]] | None = None
    loop_adapters: Mapping[str, str] = field(default_factory=dict)
    hardware: str = ""
    ray_resource: str = ""
    counts: Sequence[int] = ()
    one_per_trial: Callable[[str], bool] = lambda model: False
    devices_per_accelerator: Callable[[str], int] = lambda model: 1
    sensors: str = ""
    energy: str = ""
    environments: Mapping[str, str] = field(default_factory=dict)
    aliases: Sequence[str] = ()
    visible_variables: Sequence[str] = ()
    program_variables: Mapping[str, str] = field(default_factory=dict)
    link: Callable[[Sequence[str]], str] = lambda names: ""
    show: Callable[[Sequence[str]], None] | None = None
    in_use: Mapping[str, Callable[[Any], bool]] = field(default_factory=dict)

    @property
    def virtual(self) -> bool:
        """Return whether it is a different way to use the hardware of some other kind."""
        return bool(self.hardware)

    @property
    def on_host(self) -> bool:
        """Return whether it computes on the host's cores and takes no accelerator."""
        return (self.hardware or self.name) == "cpu"


class Device:
    """One device kind, opened for one trial; of the CPU, what all kinds share: the trial's cores and threads.

    Every adapter hides hardware that is not assigned to the trial before a framework can use it, and its `synchronize`
    returns only when all work submitted to the device is done; otherwise, a clock would measure the queue. An adapter
    of a framework implements setting threads (`set_threads`) and, if the framework knows it, their number (`threads`).

    Attributes:
        kind: the name of its kind, set by `raybench.devices.open_device`.
        hardware: what `describe` returned when a trial opened it, set by `raybench.trial.opening.open_assigned`.
        synchronous: whether work is done when the call returns, so that the host's clock, which its marks read, times
            every step.
        own_clock: whether marks are events in the device's stream, timed by the device's clock instead of the host's.
    """

    kind = "cpu"
    hardware: Hardware
    synchronous = True
    own_clock = False

    def __init__(self, assignment: Assignment) -> None:
        self.assignment = assignment

    def hide_others(self) -> None:
        """Pin the process to its cores, and show it and its programs only the assigned accelerators of its kind.

        If none is assigned, those visible to the caller stay. Called after the framework's import, before its first
        device call.
        """
        from raybench.devices import KINDS

        if self.assignment.cores and hasattr(os, "sched_setaffinity"):
            os.sched_setaffinity(0, self.assignment.cores)
        kind = KINDS[self.kind]
        inherited = next((os.environ[name] for name in kind.visible_variables if name in os.environ), None)
        visible = ",".join(self.assignment.visible) or inherited
        os.environ["CUDA_DEVICE_ORDER"] = "PCI_BUS_ID"
        os.environ["CUDA_VISIBLE_DEVICES"] = ""
        os.environ["HIP_VISIBLE_DEVICES"] = "-1"  # HIP ignores an empty value
        for name in kind.visible_variables:
            os.environ.pop(name, None)
        if kind.visible_variables and visible is not None:
            os.environ[kind.visible_variables[0]] = visible
        if kind.show:
            kind.show(self.assignment.visible)
        os.environ.update(kind.program_variables)

    def open(self, precision: str) -> None:
        """Set the number of threads through the framework and, unless the precision is empty, its arithmetic.

        OMP_NUM_THREADS is read only at import.
        """
        self.set_threads(self.assignment.threads)

    def set_threads(self, count: int) -> None:
        """Set the number of the framework's threads on the host."""
        raise NotImplementedError

    def threads(self) -> int:
        """The framework's number of threads."""
        return self.assignment.threads

    def synchronize(self) -> None:
        """Wait until all work submitted to the device is done; on a CPU it is when the call returns."""

    def mark(self) -> Any:
        """A point in the device's stream of work; of a CPU, the host's clock.

        It costs almost nothing if the device is synchronous or has its own clock. Otherwise it may wait for the device,
        or be the time at which work was submitted, and only a pass with a new shape is marked.
        """
        return time.perf_counter_ns()

    def wait_for(self, mark: Any) -> None:
        """Wait until the device has come to a mark."""

    def elapsed(self, start: Any, end: Any) -> int:
        """Nanoseconds between two marks, after a `synchronize`."""
        return int(end - start)

    def peak_memory(self) -> int:
        """Peak bytes held by the trial: on the accelerator or, for a CPU, in the process."""
        return peak_resident()

    def alloc_retries(self) -> int | None:
        """How often the allocator freed what it had kept because memory ran out; None if it does not count that."""
        return None

    def describe(self) -> Hardware:
        """The hardware that the trial actually runs on."""
        return Hardware(self.kind, model_name(), len(self.assignment.cores) or len(usable_cores()), total_memory())

    def is_oom(self, error: BaseException) -> bool:
        """Return whether memory ran out, also by the message: frameworks raise one type for every error."""
        return isinstance(error, MemoryError) or (isinstance(error, RuntimeError) and looks_like_oom(str(error)))


class AsynchronousDevice(Device):
    """Common part of adapters whose devices do work later, and have no clock of their own."""

    synchronous = False

    def mark(self) -> Any:
        """The host's clock after a `synchronize`."""
        self.synchronize()
        return time.perf_counter_ns()
