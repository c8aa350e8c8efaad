"""The steps of one pass over data, by marks: what compiling took, what the device's clock says, how the steps went."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import cached_property
from statistics import fmean, median
from typing import Any

from raybench.core.ledger import COMPILATION, NANO, Ledger
from raybench.devices.base import Device

BLOCKS = 64
"""Numbers an epoch keeps of its steps at most: enough to see where they change, and a short line in the journal."""


class StepTimer:
    """Marks before and after each step, or each call of a framework that takes several steps.

    Where a mark tells the time and costs next to nothing (the host's clock on a synchronous device, an event in the
    stream of a device with a clock of its own), every step is marked. Elsewhere only those of a pass that meets a new
    shape are, and not timed any further: such a mark waits for the device, or tells only when work was handed over.

    Args:
        first: whether this pass meets a new shape with its first step.
        compiled: how many graphs the framework's compiler has made, where it tells: a step in which there are more
            was compiled, whichever it is.
    """

    def __init__(self, device: Device, first: bool, compiled: Callable[[], int] | None = None) -> None:
        self._device, self.first = device, first
        self._compiled, self._before = compiled, compiled() if compiled else 0
        self._graphs = self._before
        self._new: set[int] = {0} if first else set()
        self._timed = device.synchronous or device.own_clock
        self._wanted = first or self._timed
        self._marks: list[tuple[Any, Any, int]] = []
        self._begun: Any = None
        self._used: list[int] = []

    def begin(self) -> None:
        """A step begins."""
        if self._wanted:
            if self.first and not self._marks:
                self._used.append(time.process_time_ns())
            self._begun = self._device.mark()

    def end(self, steps: int = 1, wait: bool = False) -> None:
        """The step, or a call of so many, has been handed to the device.

        Args:
            wait: whether the device is waited for where this was the first step of a new shape.
        """
        if self._wanted:
            self._marks.append((self._begun, self._device.mark(), steps))
            if self.first and len(self._marks) == 1:
                if wait:
                    self._device.synchronize()
                self._used.append(time.process_time_ns())
            if self._compiled and self._graphs != (graphs := self._compiled()):
                self._new.add(len(self._marks) - 1)
                self._graphs = graphs

    @property
    def compilations(self) -> int:
        """The graphs made in this pass; where nobody counts them, 1 for a new shape."""
        return self._compiled() - self._before if self._compiled else int(self.first)

    def over(self) -> None:
        """The pass is over; still inside its section, so that its processor time is known."""
        if self.first:
            self._used.append(time.process_time_ns())

    def charge(self, ledger: Ledger, section: str) -> None:
        """Charge compilation, and note what the device's clock says; after a `synchronize`.

        What the first step of a new shape, or one that was compiled, took beyond the median of the others moves from
        the section to its compilation (`ledger.COMPILATION`); of the first one's processor time, what was beyond the
        others' mean. If there are no others, nothing is moved.
        """
        if self._device.own_clock and self._marks:
            ledger.note_device(section, self._device.elapsed(self._marks[0][0], self._marks[-1][1]))
        typical_ns = self._usual
        if not self._new or not typical_ns:
            return
        for index in sorted(self._new):
            steps = self._marks[index][2]
            cpu_ns = self._used_beyond() if self.first and index == 0 else None
            ledger.move(int((self._each[index] - median(typical_ns)) * steps), section, COMPILATION[section], cpu_ns)

    def _used_beyond(self) -> int:
        """Processor time of the first call beyond what the others, by their steps, would have taken for it."""
        start_ns, first_end_ns, end_ns = self._used
        first, *later = (steps for _, _, steps in self._marks)
        return int(first_end_ns - start_ns - (end_ns - first_end_ns) / sum(later) * first)

    def blocks(self) -> list[float]:
        """Mean seconds of a step in each of at most 64 consecutive blocks of equal length (the last may be shorter).

        Without steps that are partly `compile`; empty where marks do not tell the time of a step.
        """
        times_ns = self._usual if self._timed else []
        length = -(-len(times_ns) // BLOCKS)
        return [round(fmean(times_ns[i : i + length]) * NANO, 9) for i in range(0, len(times_ns), length or 1)]

    @cached_property
    def _each(self) -> list[float]:
        """Nanoseconds of a step, for each call; asked for when the pass is over."""
        return [self._device.elapsed(start, end) / steps for start, end, steps in self._marks]

    @property
    def _usual(self) -> list[float]:
        return [time_ns for index, time_ns in enumerate(self._each) if index not in self._new]
