"""Kernel statistics of some cores: time by state, and frequency."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import psutil

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
    """The time of these cores by state; None if the counters are zero, as in some containers."""
    times = psutil.cpu_times(percpu=True)
    rows = [times[core]._asdict() for core in cores if core < len(times)]
    if not any(any(row.values()) for row in rows):
        return None
    busy = ("user", "nice", "system", "irq", "softirq")
    return CoreTimes(
        sum(row.get(name, 0.0) for row in rows for name in busy), sum(row.get("steal", 0.0) for row in rows)
    )


def mhz(cores: Sequence[int], root: Path = Path("/")) -> float | None:
    """The mean frequency of (some of) these cores; None if it is not known, as in most virtual machines."""
    sampled = cores[:: -(-len(cores) // MAX_CLOCKS) or 1]
    files = [root / f"sys/devices/system/cpu/cpu{core}/cpufreq/scaling_cur_freq" for core in sampled]
    try:
        clocks = [int(file.read_text()) / 1000 for file in files]
    except (OSError, ValueError):
        return None
    return sum(clocks) / len(clocks) if clocks else None
