"""Load on this machine's cores by other programs."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Self

from raybench.devices.host import usable_cores
from raybench.monitoring import host
from raybench.monitoring.processes import family_cpu_s

BUSY_PART = 0.1
"""Tolerated load by other programs as a fraction of the cores: an idle system uses a few percent of two cores."""

BUSY_CORES = 0.5
"""The same limit in cores, for many cores: evenly divided work waits for the slowest core."""

SECONDS = 1.0
"""Seconds per measurement: the kernel counts processor time in steps of 10 ms per core."""

OLDEST = 5.0
"""Maximum age of a meter, in seconds, for a measurement of the present load."""

WATCH_EVERY = 3.0
"""Seconds between two measurements while trials run."""


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
    """Measures the load between successive calls of `read`, starting at its creation.

    Args:
        cores: the cores to measure; by default all that this process may use.
    """

    def __init__(self, cores: Sequence[int] | None = None) -> None:
        self._cores = list(cores) if cores is not None else usable_cores()
        self._last, self._read_at = self._counters(), time.monotonic()

    @property
    def age(self) -> float:
        """Seconds since its creation or the last call of `read`."""
        return time.monotonic() - self._read_at

    def read(self) -> HostLoad | None:
        """The load since the last call; None if the system does not report it."""
        previous, self._last, self._read_at = self._last, self._counters(), time.monotonic()
        if previous is None or self._last is None:
            return None
        seconds, busy, own = (now - earlier for now, earlier in zip(self._last, previous, strict=True))
        if seconds <= 0:
            return None
        return HostLoad(max(0.0, busy - max(0.0, own)) / seconds, len(self._cores))

    def _counters(self) -> tuple[float, float, float] | None:
        """Wall-clock seconds, and processor seconds of all processes and of raybench's own."""
        times, own = host.core_times(self._cores), family_cpu_s(os.getpid())
        return None if times is None or own is None else (time.monotonic(), times.busy, own)


def measure_load(seconds: float = SECONDS, meter: LoadMeter | None = None) -> HostLoad | None:
    """Measure the load for some seconds; None if the system does not report it.

    Args:
        seconds: length of the measurement.
        meter: a meter that may have been started earlier, so that only the rest of the seconds is waited for. One older
            than `OLDEST` is not used: its mean would be of another time.
    """
    if meter is None or meter.age > OLDEST:
        meter = LoadMeter()
    time.sleep(max(0.0, seconds - meter.age))
    return meter.read()


class LoadWatch:
    """Measures the load repeatedly in a thread, until the context is left.

    Args:
        report: gets each measurement.
        every: seconds between measurements.
    """

    def __init__(self, report: Callable[[HostLoad], None], every: float = WATCH_EVERY) -> None:
        self._report, self._every = report, every
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._work, name="raybench-load", daemon=True)

    def _work(self) -> None:
        meter = LoadMeter()
        while not self._over.wait(self._every):
            load = meter.read()
            if load is not None:
                self._report(load)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self._over.set()
        self._thread.join()
