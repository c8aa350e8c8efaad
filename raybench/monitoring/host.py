"""Kernel statistics of some cores: time by state, and frequency."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

TICKS = os.sysconf("SC_CLK_TCK") if hasattr(os, "sysconf") else 100
"""Kernel clock ticks per second, the unit of its counters, on every architecture."""

MAX_CLOCKS = 8
"""Maximum number of cores whose frequency is read, spread evenly over the trial's: reading one can interrupt it."""


@dataclass(frozen=True)
class CoreTimes:
    """Seconds since boot, summed over cores; one tick (10 ms) per core.

    Attributes:
        busy: user, nice, system and interrupts, of all processes; includes guests.
        steal: runnable, while the hypervisor ran another guest.
    """

    busy: float
    steal: float


def core_times(cores: Sequence[int]) -> CoreTimes | None:
    """The time of these cores by state; None if the system does not report it, or the counters are zero.

    The columns of /proc/stat are proc_stat(5)'s: user, nice, system, idle, iowait, irq, softirq, steal, …
    """
    labels = {f"cpu{core}" for core in cores}
    try:
        lines = map(str.split, Path("/proc/stat").read_text().splitlines())
        rows = [[int(count) / TICKS for count in counts[:8]] for name, *counts in lines if name in labels]
    except (OSError, ValueError):
        return None
    if not any(map(any, rows)):
        return None
    user, nice, system, _, _, irq, softirq, steal = map(sum, zip(*rows, strict=True))
    return CoreTimes(user + nice + system + irq + softirq, steal)


def mhz(cores: Sequence[int], root: Path = Path("/")) -> float | None:
    """The mean frequency of (some of) these cores; None if it is not known, as in most virtual machines."""
    sampled = cores[:: -(-len(cores) // MAX_CLOCKS) or 1]
    files = [root / f"sys/devices/system/cpu/cpu{core}/cpufreq/scaling_cur_freq" for core in sampled]
    try:
        clocks = [int(file.read_text()) / 1000 for file in files]
    except (OSError, ValueError):
        return None
    return sum(clocks) / len(clocks) if clocks else None
