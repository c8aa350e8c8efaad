"""How long a trial will take, from earlier trials of like cells."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from statistics import median
from typing import Any

from raybench.analysis.results import Attempt

ONCE = ("setup", "data", "build", "compile", "other")
EVERY_EPOCH = ("train", "input_wait", "evaluate", "checkpoint")


@dataclass(frozen=True)
class Cost:
    """What one finished trial cost: seconds paid once, and for each example trained on."""

    once: float
    per_example: float
    batch_size: int


def likeness(cell: Mapping[str, Any]) -> str:
    """What has to agree for one cell's speed to say something of another's: job, hardware, framework, arithmetic."""
    device, settings = cell["device"], cell["settings"]
    kept = (
        cell["workload"]["name"],
        cell["data"]["name"],
        cell["framework"],
        device["kind"],
        device["model"],
        device["count"],
        device["replicas"],
        device.get("threads"),
        settings["precision"],
        settings["compile"],
        settings.get("input"),
        settings.get("model"),
    )
    return repr(kept)


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
        if attempt.status != "completed" or not attempt.cell or not attempt.ledger or not examples:
            return
        once = sum(attempt.ledger.get(name, 0.0) for name in ONCE)
        often = sum(attempt.ledger.get(name, 0.0) for name in EVERY_EPOCH)
        with suppress(KeyError, TypeError):  # a cell of which a part is missing is like no other
            cost = Cost(once, often / examples, attempt.cell["settings"]["batch_size"])
            self._known.setdefault(likeness(attempt.cell), []).append(cost)

    def seconds(self, cell: Mapping[str, Any]) -> float | None:
        """The estimate for one trial; None where nothing like it has been run, or its length is not known."""
        known = self._known.get(likeness(cell))
        settings = cell["settings"]
        batch, train = settings["batch_size"], cell["data"]["examples"]["train"]
        steps = settings["steps_per_epoch"] or (train // batch if train else None)
        if not known or not steps:
            return None

        def distance(cost: Cost) -> float:
            return abs(math.log(cost.batch_size / batch))

        nearest = min(map(distance, known))
        near = [cost for cost in known if distance(cost) == nearest]
        examples = settings["epochs"] * steps * batch
        return float(median(cost.once + cost.per_example * examples for cost in near))
