"""Estimated duration of a trial, from earlier trials of similar cells."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from statistics import median
from typing import NamedTuple

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


def similarity_key(cell: Cell) -> str:
    """The fields that must be equal to transfer a speed between cells: job, hardware, framework, arithmetic."""
    device = cell.device
    key_fields = (
        cell.workload.name,
        cell.data.name,
        cell.framework,
        device.kind,
        device.model,
        device.count,
        device.replicas,
        device.threads,
        *(getattr(cell.settings, name) for name in OF_SPEED),
        *([cell.params] if cell.params else []),
    )
    return repr(key_fields)


class EstimateKey(NamedTuple):
    """Everything that the estimate of a trial depends on."""

    similar: str
    batch: int
    train: int | None
    steps_per_epoch: int | None
    epochs: float


class Estimator:
    """Estimator of a trial's duration in seconds, from trials of similar cells.

    It uses the trials with the nearest batch size on a logarithmic scale and assumes the same time per example. Trials
    that do not count their examples, such as those of a command, say how long a trial with equal settings takes.
    """

    def __init__(self, attempts: Iterable[Attempt] = ()) -> None:
        self._costs: dict[str, list[Cost]] = {}
        self._whole_s: dict[EstimateKey, list[float]] = {}
        self._known: dict[EstimateKey, float | None] = {}
        for attempt in attempts:
            self.learn(attempt)

    def learn(self, attempt: Attempt) -> None:
        """Add a completed trial.

        Any other is ignored, since its time is not that of a whole trial.
        """
        if attempt.status != TrialStatus.COMPLETED or not attempt.ledger:
            return
        key = self.key(attempt.cell)
        self._known = {other: seconds for other, seconds in self._known.items() if other.similar != key.similar}
        examples_by_epoch = [epoch.examples for epoch in attempt.epochs]
        examples = sum(examples_by_epoch)
        fixed_s = sum(attempt.ledger.get(name, 0.0) for name in ONCE)
        repeated_s = sum(attempt.ledger.get(name, 0.0) for name in EVERY_EPOCH)
        if key.batch and examples:
            cost = Cost(fixed_s, repeated_s / examples, key.batch, median(examples_by_epoch))
            self._costs.setdefault(key.similar, []).append(cost)
        else:
            self._whole_s.setdefault(key, []).append(fixed_s + repeated_s)

    @staticmethod
    def key(cell: Cell) -> EstimateKey:
        """What the estimate of a cell's trials depends on."""
        settings = cell.settings
        train = cell.data.examples.train
        return EstimateKey(similarity_key(cell), settings.batch_size, train, settings.steps_per_epoch, settings.epochs)

    def seconds(self, cell: Cell) -> float | None:
        """The estimate for one trial; None if no similar cell has been run."""
        return self.seconds_of(self.key(cell)) if self._costs or self._whole_s else None

    def seconds_of(self, key: EstimateKey) -> float | None:
        """The estimate for a trial with this key; None if no similar cell has been run."""
        if key not in self._known:
            self._known[key] = self._compute(key)
        return self._known[key]

    def _compute(self, key: EstimateKey) -> float | None:
        costs = self._costs.get(key.similar)
        if not (costs and key.batch and key.epochs):
            whole_s = self._whole_s.get(key)
            return median(whole_s) if whole_s else None
        distance = min(abs(math.log(cost.batch_size / key.batch)) for cost in costs)
        nearest = [cost for cost in costs if abs(math.log(cost.batch_size / key.batch)) == distance]
        steps = key.steps_per_epoch or (key.train // key.batch if key.train else None)
        # The number of examples of the user's own data is known from earlier trials only.
        per_epoch = steps * key.batch if steps else median(cost.per_epoch for cost in nearest)
        return median(cost.once + cost.per_example * key.epochs * per_epoch for cost in nearest)


class WaitingTime:
    """The estimated time of the waiting trials."""

    def __init__(self, estimator: Estimator, keys: Iterable[EstimateKey] = ()) -> None:
        self._estimator, self._counts = estimator, Counter(keys)

    def start(self, key: EstimateKey) -> None:
        """Remove a trial that no longer waits."""
        self._counts[key] -= 1

    @property
    def seconds(self) -> float | None:
        """Seconds of all waiting trials, as those of which an estimate exists; None if there is none of any."""
        estimates = {key: self._estimator.seconds_of(key) for key, count in self._counts.items() if count}
        known = {key: seconds for key, seconds in estimates.items() if seconds is not None}
        estimated = sum(self._counts[key] for key in known)
        if not estimated:
            return None if estimates else 0.0
        return sum(self._counts[key] * seconds for key, seconds in known.items()) * self._counts.total() / estimated
