"""Breakdown of a trial's wall time into disjoint sections."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager

NANO = 1e-9

SECTIONS = (
    "setup",
    "startup",
    "data",
    "build",
    "compile",
    "train",
    "input_wait",
    "evaluate",
    "compile_evaluate",
    "checkpoint",
    "other",
)
STEADY = ("train", "input_wait")  # sections of an epoch of training, without compilation
TRAINING = ("compile", *STEADY)  # sections of an epoch of training


def training_s(ledger: Mapping[str, float]) -> float:
    """Seconds of training in a ledger: compile + train + input_wait."""
    return sum(ledger.get(name, 0.0) for name in TRAINING)


EPOCH_SECTIONS = ("compile", "train", "input_wait", "evaluate", "compile_evaluate", "checkpoint")
COMPILATION = {"train": "compile", "evaluate": "compile_evaluate"}
"""The section that compilation in a section is charged to: in evaluation, it does not count as training time."""
ALWAYS_SHOWN = frozenset(SECTIONS) - {"startup", "compile_evaluate", "checkpoint"}


class Ledger:
    """Charges every nanosecond to exactly one section.

    One section is open at any moment: `setup` from the start, the innermost active `section(…)`, and otherwise `other`.
    So sections cannot overlap, and their sum is the wall time by construction. If a device has its own clock, its times
    of the epoch's sections are recorded separately.

    Args:
        started: when the process began, by `clock`; by default now.
        clock: a monotonic clock in nanoseconds, the same for the whole host.
        loading_s: seconds that loading the framework took before the process began.

    Attributes:
        failed: the innermost section that an error has ended; empty if none has.
    """

    def __init__(
        self, started: int | None = None, clock: Callable[[], int] = time.perf_counter_ns, loading_s: float = 0.0
    ) -> None:
        self._clock, self.loading_s = clock, round(loading_s, 6)
        self.started = clock() if started is None else started
        self._spent = dict.fromkeys(SECTIONS, 0)
        self._open, self._since, self._earlier = "setup", self.started, 0
        self.failed = ""
        self._spent_before, self._processor_before_ns = dict(self._spent), 0
        self._device: dict[str, int] = {}

    def enter(self, name: str) -> None:
        """Charge the time from now on to `name`, until another section is entered."""
        now = self._clock()
        self._spent[self._open] += now - self._since
        self._open, self._since = name, now

    def fail(self, outer: str) -> None:
        """Charge the time from now on to `outer`, since an error has ended the open section."""
        self.failed = self.failed or self._open
        self.enter(outer)

    @property
    def phase(self) -> str:
        """The section that an error has ended, or the open one."""
        return (self.failed or self._open).removeprefix("compile_")

    @contextmanager
    def section(self, name: str) -> Iterator[None]:
        """Charge the enclosed time to `name`, then return to the enclosing section."""
        outer = "other" if self._open == "setup" else self._open
        self.enter(name)
        try:
            yield
        finally:
            self.enter(outer)

    def move(self, nanoseconds: int, source: str, target: str) -> None:
        """Move time to another section, such as a first step's compilation; at most the time in `source`."""
        amount = min(max(nanoseconds, 0), self._spent[source])
        self._spent[source] -= amount
        self._spent[target] += amount

    def note_device(self, section: str, nanoseconds: int) -> None:
        """Add the device clock's time of a section to this epoch."""
        self._device[section] = self._device.get(section, 0) + nanoseconds

    def begin_epoch(self) -> None:
        """Start an epoch."""
        self.enter(self._open)
        self._spent_before, self._processor_before_ns = dict(self._spent), time.process_time_ns()
        self._device = {}

    def epoch(self) -> dict[str, float]:
        """Seconds of each section since `begin_epoch`."""
        self.enter(self._open)
        return _seconds({name: self._spent[name] - self._spent_before[name] for name in EPOCH_SECTIONS})

    def seconds(self, *names: str) -> float:
        """Seconds of some sections together, since the first process of the trial began."""
        self.enter(self._open)
        return sum(self._spent[name] for name in names) * NANO

    def epoch_cpu_s(self) -> float:
        """Processor seconds of all threads of the process since `begin_epoch`."""
        return round((time.process_time_ns() - self._processor_before_ns) * NANO, 6)

    def epoch_device(self) -> dict[str, float]:
        """Seconds of each section since `begin_epoch`, by the device's clock; empty if it has none."""
        return _seconds(self._device)

    def state(self) -> dict[str, int]:
        """Nanoseconds by section, for `go_on` in another process."""
        self.enter(self._open)
        return dict(self._spent)

    def go_on(self, state: Mapping[str, int]) -> None:
        """Continue from the accounts of a lost process, whose sections and wall time are added to those of this one.

        The time of this process so far is charged to `checkpoint`.
        """
        self.enter(self._open)
        spent = dict(state)
        spent["checkpoint"] += sum(self._spent.values())
        self._earlier += sum(spent.values()) - sum(self._spent.values())
        self._spent = spent

    def close(self) -> tuple[dict[str, float], float]:
        """Every section, and the wall time since the process started, in seconds."""
        self.enter(self._open)
        return _seconds(self._spent), round((self._since - self.started + self._earlier) * NANO, 6)


def _seconds(spent: Mapping[str, int]) -> dict[str, float]:
    """Convert nanoseconds to seconds, to the microsecond; omit unused optional sections."""
    return {name: round(ns * NANO, 6) for name, ns in spent.items() if ns or name in ALWAYS_SHOWN}
