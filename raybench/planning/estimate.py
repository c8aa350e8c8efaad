"""Estimated duration of a trial, from earlier trials of similar cells."""

from __future__ import annotations

import math
from bisect import insort
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any, NamedTuple

from raybench.core.cell import Cell
from raybench.core.settings import PARAM, SPEED, TRAINING, affecting
from raybench.core.status import TrialStatus
from raybench.planning.resolve import ResolvedCell
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


class EstimateKey(NamedTuple):
    """Everything that the estimate of a trial depends on."""

    similar: str
    batch: int
    train: int | None
    steps_per_epoch: int | None
    epochs: float


_OF_ESTIMATE = (*OF_SPEED, "batch_size", "steps_per_epoch", "epochs")
"""The settings that are part of an `EstimateKey`."""


@dataclass
class _SortedTimes:
    """The sorted times of one key, by the costs of the closest batch sizes."""

    batches: frozenset[int]
    examples: float
    times: list[float]


class _SimilarCosts:
    """Costs of trials of similar cells by batch size.

    The sorted times of each key are kept, because the display of a running grid asks for them after each trial.
    """

    def __init__(self) -> None:
        self._by_batch: dict[int, list[Cost]] = {}
        self._per_epoch: dict[frozenset[int], list[float]] = {}
        self._times: dict[EstimateKey, _SortedTimes] = {}

    def add(self, cost: Cost) -> None:
        batch = cost.batch_size
        if batch not in self._by_batch:  # it may be the closest of any key
            self._by_batch[batch] = []
            self._times.clear()
        self._by_batch[batch].append(cost)
        for batches, numbers in self._per_epoch.items():
            if batch in batches:
                insort(numbers, cost.per_epoch)
        for known in self._times.values():
            if batch in known.batches:
                insort(known.times, cost.once + cost.per_example * known.examples)

    def seconds(self, key: EstimateKey) -> float:
        known = self._times.get(key)
        batches = known.batches if known else self._closest(key.batch)
        examples = key.epochs * self._examples_per_epoch(key, batches)
        if known is None or known.examples != examples:
            times = sorted(cost.once + cost.per_example * examples for cost in self._of(batches))
            known = self._times[key] = _SortedTimes(batches, examples, times)
        return _middle(known.times)

    def _examples_per_epoch(self, key: EstimateKey, batches: frozenset[int]) -> float:
        steps = key.steps_per_epoch or (key.train // key.batch if key.train else None)
        if steps:
            return steps * key.batch
        # The number of examples of the user's own data is known from earlier trials only.
        if batches not in self._per_epoch:
            self._per_epoch[batches] = sorted(cost.per_epoch for cost in self._of(batches))
        return _middle(self._per_epoch[batches])

    def _closest(self, batch: int) -> frozenset[int]:
        distances = {each: abs(math.log(each / batch)) for each in self._by_batch}
        min_distance = min(distances.values())
        return frozenset(each for each, distance in distances.items() if distance == min_distance)

    def _of(self, batches: frozenset[int]) -> Iterator[Cost]:
        return (cost for batch in batches for cost in self._by_batch[batch])


def _middle(numbers: Sequence[float]) -> float:
    """The median of sorted numbers."""
    half = len(numbers) // 2
    return numbers[half] if len(numbers) % 2 else (numbers[half - 1] + numbers[half]) / 2


class Estimator:
    """Estimator of a trial's duration in seconds, from trials of similar cells.

    It uses the trials with the nearest batch size on a logarithmic scale and assumes the same time per example. Trials
    that do not count their examples, such as those of a command, say how long a trial with equal settings takes.
    """

    def __init__(self, attempts: Iterable[Attempt] = ()) -> None:
        self._known: dict[str, _SimilarCosts] = {}
        self._whole_s: dict[EstimateKey, list[float]] = {}
        self._planned: dict[tuple[Any, ...], EstimateKey] = {}
        for attempt in attempts:
            self.learn(attempt)

    @property
    def knows_any(self) -> bool:
        """Whether it can estimate any cell."""
        return bool(self._known or self._whole_s)

    def learn(self, attempt: Attempt) -> None:
        """Add a completed trial.

        Any other is ignored, since its time is not that of a whole trial.
        """
        examples_by_epoch = [epoch.examples for epoch in attempt.epochs]
        examples = sum(examples_by_epoch)
        batch = attempt.cell.settings.batch_size
        if attempt.status != TrialStatus.COMPLETED or not attempt.ledger:
            return
        fixed_s = sum(attempt.ledger.get(name, 0.0) for name in ONCE)
        repeated_s = sum(attempt.ledger.get(name, 0.0) for name in EVERY_EPOCH)
        if not batch or not examples:
            insort(self._whole_s.setdefault(self.key(attempt.cell), []), fixed_s + repeated_s)
            return
        per_epoch = median(examples_by_epoch)
        cost = Cost(fixed_s, repeated_s / examples, batch, per_epoch)
        self._known.setdefault(similarity_key(attempt.cell), _SimilarCosts()).add(cost)

    @staticmethod
    def key(cell: Cell) -> EstimateKey:
        """What the estimate of a cell's trials depends on."""
        settings = cell.settings
        train = cell.data.examples.train
        return EstimateKey(similarity_key(cell), settings.batch_size, train, settings.steps_per_epoch, settings.epochs)

    def planned_key(self, cell: ResolvedCell) -> EstimateKey:
        """The key of a planned cell, made once for all cells that share it."""
        params = (name for name in cell.group.own if name.startswith(PARAM))
        variant = cell.variant((*_OF_ESTIMATE, *params))
        if variant not in self._planned:
            self._planned[variant] = self.key(cell.content)
        return self._planned[variant]

    def planned_seconds(self, cell: ResolvedCell) -> float | None:
        """The estimate for one trial of a planned cell; None if no similar cell has been run."""
        return self.seconds_of(self.planned_key(cell)) if self.knows_any else None

    def seconds(self, cell: Cell) -> float | None:
        """The estimate for one trial; None if no similar cell has been run."""
        return self.seconds_of(self.key(cell))

    def seconds_of(self, key: EstimateKey) -> float | None:
        """The estimate for a trial with this key; None if no similar cell has been run."""
        costs = self._known.get(key.similar)
        if costs and key.batch and key.epochs:
            return costs.seconds(key)
        whole_s = self._whole_s.get(key)
        return _middle(whole_s) if whole_s else None


class WaitingTime:
    """The estimated time of the waiting trials, kept up to date as trials start and end.

    Only the trials of similar cells are estimated again after each, because a grid may have a hundred thousand.
    """

    def __init__(self, estimator: Estimator, keys: Iterable[EstimateKey] = ()) -> None:
        self._estimator = estimator
        self._counts: dict[str, Counter[EstimateKey]] = {}
        for key, count in Counter(keys).items():
            self._counts.setdefault(key.similar, Counter())[key] = count
        self._estimates: dict[str, tuple[float, int]] = {}
        self._number = sum(sum(counts.values()) for counts in self._counts.values())
        self._seconds, self._estimated = 0.0, 0
        for similar in self._counts:
            self.update(similar)

    def start(self, key: EstimateKey) -> None:
        """Remove a trial that no longer waits."""
        self._counts[key.similar][key] -= 1
        self._number -= 1
        self.update(key.similar)

    def update(self, similar: str) -> None:
        """Estimate the trials of similar cells again (`similarity_key`), because one of them has ended."""
        seconds, estimated = 0.0, 0
        for key, count in self._counts.get(similar, Counter[EstimateKey]()).items():
            of_one = self._estimator.seconds_of(key) if count else None
            if of_one is not None:
                seconds, estimated = seconds + of_one * count, estimated + count
        old_seconds, old_estimated = self._estimates.get(similar, (0.0, 0))
        self._estimates[similar] = seconds, estimated
        self._seconds += seconds - old_seconds
        self._estimated += estimated - old_estimated

    @property
    def seconds(self) -> float | None:
        """Seconds of all waiting trials, as those of which an estimate exists; None if there is none of any."""
        if not self._estimated:
            return None if self._number else 0.0
        return self._seconds * self._number / self._estimated
