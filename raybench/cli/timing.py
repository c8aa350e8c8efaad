"""`raybench grid --timing`: the wall-clock time of a command by phase."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import psutil

from raybench.core.events import ENDS, Event

if TYPE_CHECKING:
    from rich.console import Console

    from raybench.execution.progress import ProgressListener

PLAN, START, CHECKS, TRIALS, END = (
    "start of the command, plan",
    "Ray, MLflow, framework, first check",
    "checks",
    "trials",
    "report, MLflow, shutdown of Ray",
)


class TimedListener:
    """Passes callbacks to another listener and measures the time between them.

    Each phase includes the time since the previous callback that ended a phase; trials that run side by side count
    once, so that the phases add up to the time of the command.

    Attributes:
        seconds: seconds of each phase.
    """

    def __init__(self, listener: ProgressListener, started_at: float | None = None) -> None:
        """Args: `started_at` is the start in seconds since the epoch; by default that of this process."""
        self._listener = listener
        self._last = psutil.Process().create_time() if started_at is None else started_at
        self._began = self._tested = False
        self.seconds = dict.fromkeys((PLAN, START, CHECKS, TRIALS, END), 0.0)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._listener, name)

    def begin(self, *args: Any) -> None:
        """End the phase of planning."""
        self._count(PLAN)
        self._began = True
        self._listener.begin(*args)

    def event(self, event: Event) -> None:
        """End the phase that the event ends: a check or a trial."""
        self._listener.event(event)
        if event["event"] not in ENDS:
            return
        is_check = event["event"] == "check_ended"
        self._count(START if not self._tested else CHECKS if is_check else TRIALS)
        self._tested = True

    def stop(self) -> None:
        """End the last phase; call it when the command is done."""
        self._count(END if self._began else PLAN)

    def show(self, console: Console) -> None:
        """Print the phases."""
        total = sum(self.seconds.values())
        console.print(f"\nThis command took {total:.1f} s:", highlight=False)
        for phase, seconds in self.seconds.items():
            if seconds:
                console.print(f"  {seconds:6.1f} s  {seconds / total:4.0%}  {phase}", highlight=False)

    def _count(self, phase: str) -> None:
        now = time.time()
        self.seconds[phase] += max(0.0, now - self._last)
        self._last = now
