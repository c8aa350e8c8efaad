"""Load of this machine: time of its cores by state, their frequency, processes, other programs."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import psutil

from raybench.devices.host import usable_cores
from raybench.monitoring.summary import is_busy

SECONDS = 1.0  # minimum seconds of a measurement: the kernel counts processor time in steps of 10 ms per core

MAX_CLOCKS = 8
"""Maximum number of cores whose frequency is read, spread evenly over the trial's: reading one can interrupt it."""


def core_times(cores: Sequence[int]) -> dict[str, float]:
    """Seconds since boot, summed over these cores; empty if the counters are zero, as in some containers.

    `busy_s` is that of all processes, with guests; in `steal_s` the hypervisor ran another guest.
    """
    times = psutil.cpu_times(percpu=True)
    rows = [times[core]._asdict() for core in cores if core < len(times)]
    if not any(any(row.values()) for row in rows):
        return {}
    states = {"busy_s": ("user", "nice", "system", "irq", "softirq"), "steal_s": ("steal",)}
    return {key: sum(row.get(name, 0.0) for row in rows for name in names) for key, names in states.items()}


def mhz(cores: Sequence[int], root: Path = Path("/")) -> float | None:
    """The mean frequency of (some of) these cores; None if it is not known, as in most virtual machines."""
    sampled = cores[:: -(-len(cores) // MAX_CLOCKS) or 1]
    files = [root / f"sys/devices/system/cpu/cpu{core}/cpufreq/scaling_cur_freq" for core in sampled]
    try:
        clocks = [int(file.read_text()) / 1000 for file in files]
    except (OSError, ValueError):
        return None
    return sum(clocks) / len(clocks) if clocks else None


@dataclass(frozen=True)
class Usage:
    """Resource usage of a family of processes.

    Attributes:
        cpu_s: processor seconds of its processes until now, including ended ones that were waited for.
        stopped: whether one of its processes is stopped (SIGSTOP).
    """

    cpu_s: float
    stopped: bool


def family_usage(root: int) -> Usage | None:
    """The usage of a process and all its descendants until now; None if it is gone."""
    try:
        process = psutil.Process(root)
        family = [process, *process.children(recursive=True)]
    except psutil.Error:
        return None
    cpu_s, stopped = 0.0, False
    for member in family:
        with suppress(psutil.Error):  # it has just ended
            times = member.cpu_times()
            cpu_s += times.user + times.system + times.children_user + times.children_system
            stopped |= member.status() == psutil.STATUS_STOPPED
    return Usage(cpu_s, stopped)


@dataclass(frozen=True)
class HostLoad:
    """Load on a machine's cores by other programs, without raybench's own.

    Attributes:
        busy: number of cores that they kept busy, such as 1.9.
        cores: number of cores for trials.
    """

    busy: float
    cores: int

    @property
    def high(self) -> bool:
        """Return whether it is enough to change trial times."""
        return is_busy(self.busy, self.cores)

    def __str__(self) -> str:
        return f"{min(self.busy, self.cores):.1f} of {self.cores} cores"


class LoadMeter:
    """Measures the load from its creation on."""

    def __init__(self) -> None:
        self._cores = usable_cores()
        self._first, self._began_s = self._counters(), time.monotonic()

    def read(self) -> HostLoad | None:
        """The load since its creation, for at least a second; None if the system does not report it."""
        time.sleep(max(0.0, self._began_s + SECONDS - time.monotonic()))
        last, seconds = self._counters(), time.monotonic() - self._began_s
        if self._first is None or last is None:
            return None
        busy, raybench_s = (now - earlier for now, earlier in zip(last, self._first, strict=True))
        return HostLoad(max(0.0, busy - max(0.0, raybench_s)) / seconds, len(self._cores))

    def _counters(self) -> tuple[float, float] | None:
        """Processor seconds of all processes and of raybench's own."""
        times, usage = core_times(self._cores), family_usage(os.getpid())
        return (times["busy_s"], usage.cpu_s) if times and usage else None
