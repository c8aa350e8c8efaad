"""Estimated duration of a trial, from earlier trials of similar cells."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from statistics import median

from raybench.core.cell import Cell
from raybench.core.settings import SPEED, TRAINING
from raybench.core.status import TrialStatus
from raybench.results.attempt import Attempt

OF_SPEED = sorted(name for name, one in TRAINING.items() if SPEED in one.affects and name != "batch_size")
"""The settings that must be equal; a time is converted from one batch size to another."""

ONCE = ("setup", "data", "build", "compile", "compile_evaluate", "other")
EVERY_EPOCH = ("train", "input_wait", "evaluate", "checkpoint")


@dataclass(frozen=True)
class Cost:
    """The cost of one finished trial.

    Attributes:
        once: seconds of fixed cost per trial.
        per_example: seconds per training example.
        batch_size: examples per step.
        per_epoch: training examples per epoch.
    """

    once: float
    per_example: float
    batch_size: int
    per_epoch: float


def _similar(cell: Cell) -> str:
    """The fields that must be equal to transfer a speed between cells: job, hardware, framework, arithmetic."""
    device, settings = cell.device, [getattr(cell.settings, name) for name in OF_SPEED]
    hardware = (device.kind, device.model, device.count, device.replicas, device.threads)
    return repr((cell.workload.name, cell.data.name, cell.framework, hardware, settings, cell.params))


def _same_length(cell: Cell) -> str:
    """The fields that must be equal to transfer the duration of a trial that does not count its examples."""
    settings = cell.settings
    return repr((_similar(cell), settings.batch_size, settings.epochs, settings.steps_per_epoch, cell.budget))


def _budget_s(cell: Cell) -> float | None:
    """The seconds of a budget of time or price."""
    return cell.budget.get("seconds") if cell.budget else None


class Estimator:
    """Estimator of a trial's duration in seconds, from trials of similar cells.

    It uses the trials with the nearest batch size on a logarithmic scale and assumes the same time per example. Trials
    that do not count their examples, such as those of a command, say how long a trial with equal settings takes.
    """

    def __init__(self, attempts: Iterable[Attempt] = ()) -> None:
        self._costs: dict[str, list[Cost]] = {}
        self._whole_s: dict[str, list[float]] = {}
        self._beside_budget_s: dict[str, list[float]] = {}
        self._known: dict[str, float | None] = {}
        for attempt in attempts:
            self.learn(attempt)

    def learn(self, attempt: Attempt) -> None:
        """Add a completed trial.

        Any other is ignored, since its time is not that of a whole trial.
        """
        if attempt.status != TrialStatus.COMPLETED or not attempt.ledger:
            return
        cell, batch = attempt.cell, attempt.cell.settings.batch_size
        examples = [epoch.examples for epoch in attempt.epochs]
        once_s = sum(attempt.ledger.get(name, 0.0) for name in ONCE)
        repeated_s = sum(attempt.ledger.get(name, 0.0) for name in EVERY_EPOCH)
        if batch and sum(examples):
            cost = Cost(once_s, repeated_s / sum(examples), batch, median(examples))
            self._costs.setdefault(_similar(cell), []).append(cost)
        else:
            self._whole_s.setdefault(_same_length(cell), []).append(once_s + repeated_s)
        if (budget_s := _budget_s(cell)) is not None:
            beside_s = max(0.0, once_s + repeated_s - budget_s)
            self._beside_budget_s.setdefault(_similar(cell), []).append(beside_s)
        self._known.clear()

    def seconds(self, cell: Cell) -> float | None:
        """The estimate for one trial; None if no similar cell has been run, and its budget is not one of time."""
        if not self._costs and not self._whole_s and not cell.budget:
            return None
        if cell.cell_id not in self._known:
            self._known[cell.cell_id] = self._compute(cell)
        return self._known[cell.cell_id]

    def total_seconds(self, cells: Iterable[Cell]) -> float | None:
        """The estimate for trials of these cells; those without an estimate are assumed to take as long as the others.

        None if no similar cell has been run.
        """
        estimates = [self.seconds(cell) for cell in cells]
        known = [seconds for seconds in estimates if seconds is not None]
        if not known:
            return None if estimates else 0.0
        return sum(known) * len(estimates) / len(known)

    def _compute(self, cell: Cell) -> float | None:
        budget_s = _budget_s(cell)
        by_epochs = self._by_epochs(cell) if cell.settings.epochs or budget_s is None else None
        if budget_s is None:
            return by_epochs
        by_budget = budget_s + median(self._beside_budget_s.get(_similar(cell), [0.0]))
        return by_budget if by_epochs is None else min(by_epochs, by_budget)

    def _by_epochs(self, cell: Cell) -> float | None:
        settings, train = cell.settings, cell.data.examples.train
        costs = self._costs.get(_similar(cell))
        if not (costs and settings.batch_size and settings.epochs):
            whole_s = self._whole_s.get(_same_length(cell))
            return median(whole_s) if whole_s else None
        batch = min((cost.batch_size for cost in costs), key=lambda size: abs(math.log(size / settings.batch_size)))
        nearest = [cost for cost in costs if cost.batch_size == batch]
        steps = settings.steps_per_epoch or (train // settings.batch_size if train else None)
        # The number of examples of the user's own data is known from earlier trials only.
        per_epoch = steps * settings.batch_size if steps else median(cost.per_epoch for cost in nearest)
        return median(cost.once + cost.per_example * settings.epochs * per_epoch for cost in nearest)
