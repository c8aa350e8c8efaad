"""Kernel statistics of some cores: time by state, frequency, load average."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

TICKS = os.sysconf("SC_CLK_TCK") if hasattr(os, "sysconf") else 100
"""Kernel clock ticks per second, the unit of its counters, on every architecture."""

MOST_CLOCKS = 8
"""Number of cores whose frequency is read, spread evenly over the trial's: reading one can interrupt it."""


@dataclass(frozen=True)
class CoreTimes:
    """Seconds since boot, summed over cores; one tick (10 ms) per core.

    Attributes:
        busy: user, nice, system and interrupts, of all processes; includes guests.
        idle: idle time.
        iowait: idle while waiting for a disk; unreliable according to the kernel's documentation.
        steal: runnable, while the hypervisor ran another guest.
    """

    busy: float
    idle: float
    iowait: float
    steal: float


def core_times(cores: Sequence[int], proc: Path = Path("/proc")) -> CoreTimes | None:
    """The time of these cores by state.

    None if the system does not report it, or the counters are zero.

    The columns of /proc/stat are proc_stat(5)'s: user, nice, system, idle, iowait, irq, softirq, steal, …
    """
    labels = {f"cpu{core}" for core in cores}
    total = [0] * 8
    try:
        with (proc / "stat").open() as file:
            for line in file:
                name, *counts = line.split(None, 9)
                if name in labels:
                    total = [sum(pair) for pair in zip(total, map(int, counts[:8]), strict=True)]
                elif not name.startswith("cpu"):
                    break
    except (OSError, ValueError):
        return None
    if not any(total):
        return None
    user, nice, system, idle, iowait, irq, softirq, steal = (count / TICKS for count in total)
    return CoreTimes(user + nice + system + irq + softirq, idle, iowait, steal)


def load() -> float | None:
    """The load average of the last minute: the number of runnable processes of the whole host."""
    try:
        return os.getloadavg()[0]
    except (OSError, AttributeError):
        return None


def mhz(cores: Sequence[int], root: Path = Path("/")) -> float | None:
    """The mean frequency of (some of) these cores.

    A virtual machine may report a constant or nothing.
    """
    step = -(-len(cores) // MOST_CLOCKS) or 1
    sampled = cores[::step]
    files = [root / f"sys/devices/system/cpu/cpu{core}/cpufreq/scaling_cur_freq" for core in sampled]
    try:
        clocks = [int(file.read_text()) / 1000 for file in files]
    except (OSError, ValueError):
        try:
            text = (root / "proc/cpuinfo").read_text()
        except OSError:
            return None
        entries = re.findall(r"^processor\s*:\s*(\d+)$.*?^cpu MHz\s*:\s*([\d.]+)$", text, re.MULTILINE | re.DOTALL)
        clocks = [float(value) for core, value in entries if int(core) in sampled]
    return sum(clocks) / len(clocks) if clocks else None
