"""The sections of a training step, timed apart: at every boundary the device is waited for, and the clock read."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping

from raybench.trial.ledger import NANO, STEP_SECTIONS


class WholeSteps:
    """What every run has that was not asked for sections: nothing is waited for, and no clock is read."""

    def begin(self) -> None:
        """An epoch's training begins."""

    def enter(self, name: str) -> None:
        """What comes now belongs to this section."""

    def end(self) -> Mapping[str, float]:
        """The epoch's training is over; seconds of each section, none here."""
        return {}


class StepSections(WholeSteps):
    """Charges every moment of an epoch's training to one of `raybench.trial.ledger.STEP_SECTIONS`.

    This is intrusive. A device that works beside the host, or ahead of it, stands still at every boundary, and kernels
    that ran into one another no longer do: so many waits a step are part of what is measured.

    Args:
        synchronize: waits for the device.
        clock: a monotonic clock in nanoseconds.
    """

    def __init__(self, synchronize: Callable[[], object], clock: Callable[[], int] = time.perf_counter_ns) -> None:
        self._synchronize, self._clock = synchronize, clock
        self._open = ""

    def begin(self) -> None:
        """An epoch's training begins, and with it the first batch's `data`."""
        self._spent = dict.fromkeys(STEP_SECTIONS, 0)
        self._open, self._since = "data", self._clock()

    def enter(self, name: str) -> None:
        """What comes now belongs to this section; outside of training, as in evaluation, nothing does."""
        if self._open:
            self._synchronize()
            now = self._clock()
            self._spent[self._open] += now - self._since
            self._open, self._since = name, now

    def end(self) -> Mapping[str, float]:
        """The epoch's training is over; seconds of each section, to the microsecond."""
        self.enter("")
        return {name: round(spent * NANO, 6) for name, spent in self._spent.items()}
