"""The end of a training whose budget is spent."""

from __future__ import annotations

import math
import time
from collections.abc import Callable

from raybench.core.job import Budget
from raybench.core.ledger import NANO
from raybench.training.clock import TrainingClock

ASK_PART = 0.01
"""The part of a budget of time after which a device that works behind the host, without marks, is waited for again."""

ENERGY_INTERVAL_S = 0.1  # seconds between two readings of energy: the counters are updated no more often
STANDSTILL_S = 10.0  # seconds without any energy after which a counter measures nothing, as in some virtual machines


class BudgetRule:
    """Says whether a training has spent its budget; without a budget it never has.

    Attributes:
        ask_ns: time of the host's clock at which to ask again inside an epoch; before it the budget cannot be spent.
    """

    def __init__(
        self,
        budget: Budget | None,
        read_joules: Callable[[], float] | None,
        in_epoch: bool,
        counted: Callable[[str], float],
    ) -> None:
        self._budget, self._read_joules, self._in_epoch = budget, read_joules, in_epoch
        self._counted = counted
        self.ask_ns = 0.0 if budget and in_epoch else math.inf
        self._began: tuple[float, float] | None = None
        self._is_spent = False

    def begin_epoch(self) -> None:
        """Note the energy at the beginning of the first epoch."""
        if self._read_joules and not self._began:
            self._began = time.perf_counter(), self._read_joules()

    def is_spent(self, clock: TrainingClock) -> bool:
        """Return whether the budget is spent, and from then on stays so."""
        if self._budget and not self._is_spent:
            if self._budget.work is None:  # work is counted by the host
                clock.catch_up()
            remaining, wait_s = self._remaining(self._budget, clock)
            self._is_spent = remaining <= 0
            if self._in_epoch:
                self.ask_ns = time.perf_counter_ns() + wait_s / NANO
        return self._is_spent

    def _remaining(self, budget: Budget, clock: TrainingClock) -> tuple[float, float]:
        """What is left of the budget, and the seconds in which it cannot be spent."""
        if budget.work is not None:
            return budget.work - self._counted(budget.unit), 0.0
        if budget.seconds is not None:
            left_s = budget.seconds - clock.training_s(budget.compile)
            if clock.device.own_clock:  # each step waits for the last but one, or the host would run far ahead of it
                return left_s, 0.0
            return left_s, left_s if clock.device.synchronous else ASK_PART * budget.seconds
        assert self._read_joules and self._began and budget.joules
        began_s, began_j = self._began
        used_j, seconds = self._read_joules() - began_j, time.perf_counter() - began_s
        if used_j <= 0 and seconds > STANDSTILL_S:
            raise RuntimeError("the budget is of energy, but the device's energy counter stands still")
        left_j = budget.joules - used_j
        return left_j, max(ENERGY_INTERVAL_S, seconds * left_j / used_j / 2 if used_j > 0 else 0.0)
