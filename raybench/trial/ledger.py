"""Where a trial's time went: sections that exclude each other and add up to the wall time."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager

NANO = 1e-9

SECTIONS = ("setup", "data", "build", "compile", "train", "input_wait", "evaluate", "checkpoint", "other")
EPOCH_SECTIONS = ("compile", "train", "input_wait", "evaluate", "checkpoint")
ALWAYS_SHOWN = frozenset(SECTIONS) - {"checkpoint"}


class Ledger:
    """Charges every nanosecond to exactly one section.

    One section is open at any moment: `setup` from the start, the innermost `section(…)` where one is entered, `other`
    elsewhere. So sections cannot overlap, and their sum is the wall time by construction.

    Args:
        started: when the process began, by `clock`; now, where it is not known.
        clock: a monotonic clock in nanoseconds, the same for the whole host.
    """

    def __init__(self, started: int | None = None, clock: Callable[[], int] = time.perf_counter_ns) -> None:
        self._clock = clock
        self.started = clock() if started is None else started
        self._spent = dict.fromkeys(SECTIONS, 0)
        self._open = "setup"
        self._since = self.started
        self._epoch_began: dict[str, int] = dict(self._spent)

    def _switch(self, name: str) -> None:
        now = self._clock()
        self._spent[self._open] += now - self._since
        self._open, self._since = name, now

    @contextmanager
    def section(self, name: str) -> Iterator[None]:
        """Charge what happens inside to `name`, and then go on with the section around it."""
        outer = "other" if self._open == "setup" else self._open
        self._switch(name)
        try:
            yield
        finally:
            self._switch(outer)

    def move(self, nanoseconds: int, source: str, target: str) -> None:
        """Charge a time to another section after all, such as a first step's compilation."""
        moved = min(max(nanoseconds, 0), self._spent[source])
        self._spent[source] -= moved
        self._spent[target] += moved

    def begin_epoch(self) -> None:
        """Start the account of an epoch."""
        self._switch(self._open)
        self._epoch_began = dict(self._spent)

    def epoch(self) -> dict[str, float]:
        """Seconds of each section since `begin_epoch`."""
        self._switch(self._open)
        spent = {name: self._spent[name] - self._epoch_began[name] for name in EPOCH_SECTIONS}
        return _seconds(spent)

    def close(self) -> tuple[dict[str, float], float]:
        """Every section, and the wall time since the process started, in seconds."""
        self._switch(self._open)
        return _seconds(self._spent), round((self._since - self.started) * NANO, 6)


def _seconds(spent: Mapping[str, int]) -> dict[str, float]:
    """Nanoseconds to seconds, to the microsecond; a section nobody asked for is left out."""
    return {name: round(ns * NANO, 6) for name, ns in spent.items() if ns or name in ALWAYS_SHOWN}
