"""Timing of the sections of a training step.

The device is synchronised at every boundary.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from statistics import median

from raybench.core.ledger import NANO, STEP_SECTIONS


def untimed(section: str) -> None:
    """Do nothing; replaces `StepSections.enter` outside profiling."""


class StepSections:
    """Timer of consecutive training steps, by section (`raybench.core.ledger.STEP_SECTIONS`).

    Synchronising makes a step slower: the host no longer works ahead of the device, and kernels no longer overlap.

    Args:
        synchronize: waits for the device.
        clock: a monotonic clock in nanoseconds.
    """

    def __init__(self, synchronize: Callable[[], object], clock: Callable[[], int] = time.perf_counter_ns) -> None:
        self._synchronize, self._clock = synchronize, clock
        self._steps: list[dict[str, int]] = []

    def begin(self) -> None:
        """Start the first step, in its input section."""
        self._synchronize()
        self._spent = dict.fromkeys(STEP_SECTIONS, 0)
        self._open, self._since = "input", self._clock()

    def enter(self, section: str) -> None:
        """End the open section and start another; `input` starts the next step."""
        self._synchronize()
        now = self._clock()
        self._spent[self._open] += now - self._since
        self._open, self._since = section, now
        if section == "input":
            self._steps.append(self._spent)
            self._spent = dict.fromkeys(STEP_SECTIONS, 0)

    def medians(self) -> dict[str, float]:
        """Median seconds of each section over the steps, as the first may be slower."""
        return {name: round(median(step[name] for step in self._steps) * NANO, 9) for name in STEP_SECTIONS}
