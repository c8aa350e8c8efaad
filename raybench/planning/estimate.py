"""Estimated duration of a trial, from earlier trials of similar cells."""

from __future__ import annotations

import math
from collections.abc import Iterable
from statistics import median
from typing import NamedTuple

from raybench.core.cell import Cell
from raybench.core.settings import SPEED, TRAINING
from raybench.core.status import TrialStatus
from raybench.results.run_table import Run

OF_SPEED = {name for name, one in TRAINING.items() if SPEED in one.affects} - {"batch_size"} | {"steps_per_epoch"}
"""The settings that must be equal; a time is converted from one batch size to another."""

EVERY_EPOCH = ("train", "input_wait", "evaluate", "checkpoint")
"""Sections of the ledger whose time grows with the epochs; the others are needed once."""


class Cost(NamedTuple):
    """Seconds of one finished trial: once, and in each of its epochs."""

    once_s: float
    epoch_s: float
    epochs: int
    batch_size: int


def _similar(cell: Cell) -> str:
    """The fields that must be equal to transfer a time between cells: job, hardware, framework, arithmetic."""
    settings = [getattr(cell.settings, name) for name in sorted(OF_SPEED)]
    return repr((cell.workload, cell.data, cell.device, cell.engine, settings, cell.params))


class Estimator:
    """Estimator of a trial's duration in seconds, from cells that differ in epochs, budget or batch size at most.

    It uses the trials with the nearest batch size and assumes the same time per example.
    """

    def __init__(self, attempts: Iterable[Run] = ()) -> None:
        self._costs: dict[str, list[Cost]] = {}
        for attempt in attempts:
            self.learn(attempt)

    def learn(self, attempt: Run) -> None:
        """Add a completed trial; the time of any other is not that of a whole trial."""
        if attempt.status == TrialStatus.COMPLETED and attempt.ledger:
            repeated_s, epochs = sum(attempt.ledger.get(name, 0.0) for name in EVERY_EPOCH), max(1, len(attempt.epochs))
            once_s, batch = sum(attempt.ledger.values()) - repeated_s, attempt.cell.settings.batch_size or 1
            cost = Cost(once_s, repeated_s / epochs, epochs, batch)
            self._costs.setdefault(_similar(attempt.cell), []).append(cost)

    def seconds(self, cell: Cell) -> float | None:
        """The estimate for one trial; None if no similar cell has been run, and its budget is not one of time."""
        costs, epochs, batch = self._costs.get(_similar(cell), []), cell.settings.epochs, cell.settings.batch_size or 1
        nearest = min((cost.batch_size for cost in costs), key=lambda size: abs(math.log(size / batch)), default=batch)
        costs = [cost for cost in costs if cost.batch_size == nearest]
        part = batch / nearest if cell.settings.steps_per_epoch else 1.0  # of the examples in an epoch of theirs
        totals = [cost.once_s + part * cost.epoch_s * (epochs or cost.epochs) for cost in costs]
        by_epochs = median(totals) if totals else None
        budget_s = cell.budget.get("seconds") if cell.budget else None
        if budget_s is None:
            return by_epochs
        by_budget: float = budget_s + (median(cost.once_s for cost in costs) if costs else 0.0)
        return min(by_budget, by_epochs) if by_epochs and epochs else by_budget

    def total_seconds(self, cells: Iterable[Cell]) -> float | None:
        """The estimate for trials of these cells; those without an estimate are assumed to take as long as the others.

        None if no similar cell has been run.
        """
        estimates = [self.seconds(cell) for cell in cells]
        estimated = [seconds for seconds in estimates if seconds is not None]
        if not estimated:
            return None if estimates else 0.0
        return sum(estimated) * len(estimates) / len(estimated)
