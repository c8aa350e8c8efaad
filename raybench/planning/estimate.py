"""Estimated duration of a trial, from earlier trials of similar cells."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from statistics import median

from raybench.core.cell import Cell
from raybench.core.settings import SPEED, TRAINING, affecting
from raybench.core.status import TrialStatus
from raybench.results.attempt import Attempt

OF_SPEED = sorted(affecting(SPEED) & TRAINING.keys() - {"batch_size"})
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


class Estimator:
    """Estimator of a trial's duration in seconds, from trials of similar cells.

    It uses the trials with the nearest batch size on a logarithmic scale and assumes the same time per example.
    """

    def __init__(self, attempts: Iterable[Attempt] = ()) -> None:
        self._known: dict[str, list[Cost]] = {}
        for attempt in attempts:
            self.learn(attempt)

    def learn(self, attempt: Attempt) -> None:
        """Add a completed trial.

        Any other is ignored, since its time is not that of a whole trial.
        """
        examples = sum(epoch.examples for epoch in attempt.epochs)
        batch = attempt.cell.settings.batch_size
        if attempt.status != TrialStatus.COMPLETED or not batch or not attempt.ledger or not examples:
            return
        fixed_s = sum(attempt.ledger.get(name, 0.0) for name in ONCE)
        repeated_s = sum(attempt.ledger.get(name, 0.0) for name in EVERY_EPOCH)
        per_epoch = median(epoch.examples for epoch in attempt.epochs)
        cost = Cost(fixed_s, repeated_s / examples, batch, per_epoch)
        self._known.setdefault(similarity_key(attempt.cell), []).append(cost)

    def seconds(self, cell: Cell) -> float | None:
        """The estimate for one trial; None if no similar cell has been run."""
        costs = self._known.get(similarity_key(cell))
        batch, train = cell.settings.batch_size, cell.data.examples.train
        steps = cell.settings.steps_per_epoch or (train // batch if train else None)
        if not costs or not batch or not cell.settings.epochs:
            return None

        def distance(cost: Cost) -> float:
            return abs(math.log(cost.batch_size / batch))

        min_distance = min(map(distance, costs))
        closest = [cost for cost in costs if distance(cost) == min_distance]
        # The number of examples of the user's own data is known from earlier trials only.
        per_epoch = steps * batch if steps else median(cost.per_epoch for cost in closest)
        examples = cell.settings.epochs * per_epoch
        return float(median(cost.once + cost.per_example * examples for cost in closest))
