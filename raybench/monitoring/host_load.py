"""Load on this machine's cores by other programs."""

from __future__ import annotations

import os
import time
from dataclasses import dataclass

from raybench.devices.host import usable_cores
from raybench.monitoring import host
from raybench.monitoring.processes import family_usage

BUSY_PART = 0.1
"""Tolerated load by other programs as a fraction of the cores: an idle system uses a few percent of two cores."""

BUSY_CORES = 0.5
"""The same limit in cores, for many cores: evenly divided work waits for the slowest core."""

SECONDS = 1.0
"""Minimum seconds of a measurement: the kernel counts processor time in steps of 10 ms per core."""


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
        return self.busy >= min(BUSY_PART * self.cores, BUSY_CORES)

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
        busy, own = (now - earlier for now, earlier in zip(last, self._first, strict=True))
        return HostLoad(max(0.0, busy - max(0.0, own)) / seconds, len(self._cores))

    def _counters(self) -> tuple[float, float] | None:
        """Processor seconds of all processes and of raybench's own."""
        times, own = host.core_times(self._cores), family_usage(os.getpid())
        return None if times is None or own is None else (times.busy, own.cpu_s)
