"""How long a trial will take, from earlier trials of like cells."""

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
"""The settings that have to agree; a time is converted from one batch size to another."""

ONCE = ("setup", "data", "build", "compile", "compile_evaluate", "other")
EVERY_EPOCH = ("train", "input_wait", "evaluate", "checkpoint")


@dataclass(frozen=True)
class Cost:
    """The cost of one finished trial.

    Attributes:
        once: seconds paid once.
        per_example: seconds for each example trained on.
        batch_size: examples in a step.
        per_epoch: examples trained on in an epoch.
    """

    once: float
    per_example: float
    batch_size: int
    per_epoch: float


def similarity_key(cell: Cell) -> str:
    """What has to agree for one cell's speed to say something of another's: job, hardware, framework, arithmetic."""
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
    )
    return repr(key_fields)


class Estimator:
    """Seconds a trial of a cell will take, where like cells have been run.

    The batch size nearest on a logarithmic scale counts; its time for an example is taken to hold.
    """

    def __init__(self, attempts: Iterable[Attempt] = ()) -> None:
        self._known: dict[str, list[Cost]] = {}
        for attempt in attempts:
            self.learn(attempt)

    def learn(self, attempt: Attempt) -> None:
        """Take a completed trial into account; any other says nothing of a whole one."""
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
        """The estimate for one trial; None if nothing like it has been run."""
        costs = self._known.get(similarity_key(cell))
        batch, train = cell.settings.batch_size, cell.data.examples.train
        steps = cell.settings.steps_per_epoch or (train // batch if train else None)
        if not costs:
            return None

        def distance(cost: Cost) -> float:
            return abs(math.log(cost.batch_size / batch))

        min_distance = min(map(distance, costs))
        closest = [cost for cost in costs if distance(cost) == min_distance]
        # The number of examples of the user's own data is known from earlier trials only.
        per_epoch = steps * batch if steps else median(cost.per_epoch for cost in closest)
        examples = cell.settings.epochs * per_epoch
        return float(median(cost.once + cost.per_example * examples for cost in closest))
