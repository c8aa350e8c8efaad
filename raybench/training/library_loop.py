"""The training loop of a library, which reports to a `Trial` from callbacks."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from raybench.training.trial import Trial
from raybench.training.values import ArrayPath, examples_in, number_of


class LibraryLoop:
    """A loop that belongs to a library: its callbacks say when an epoch, a step or a wait begins and ends.

    Calls outside of an epoch are ignored, except those of an evaluation after the last one.

    Attributes:
        trial: which it reports to.
        epochs: the number that the grid sets; None: the library's own number.
        steps_per_epoch: after how many batches an epoch ends; None: with its data.
    """

    def __init__(self, trial: Trial) -> None:
        trial._check_process()
        self.trial, self._clock = trial, trial._clock
        self.epochs, self.steps_per_epoch = trial._options.epochs, trial._options.steps_per_epoch
        self._number = 0
        self._path: ArrayPath | None = None
        self._counts_examples = True
        self._batches = 0
        self._evaluating: Any = None

    @property
    def in_epoch(self) -> bool:
        """Whether an epoch has begun and has not ended."""
        return self.trial.in_epoch

    @property
    def _has_begun(self) -> bool:
        return self.in_epoch or self.trial.ended_epochs > 0

    def resumable(self, save: Callable[[Path], object], load: Callable[[Path], object]) -> None:
        """Name the functions that save and load the library's state, unless the user has named some."""
        if self.trial._state is None:
            self.trial.checkpoint(save, load)

    def begin(self, epochs: float | None) -> int:
        """Begin training from the state of an earlier attempt, if there is one; return the number of its epochs."""
        self.trial._begin(epochs if self.epochs is None else None)
        self._number = self.trial._resume()
        return self._number

    def begin_epoch(self) -> None:
        """Begin the next epoch."""
        self.trial._begin_epoch(self._number)
        self._number += 1

    @property
    def is_last(self) -> bool:
        """Whether training ends with this epoch: it is the last one, has reached the target or spent the budget."""
        epoch = self.trial._epoch
        assert epoch
        if epoch.number + 1 >= self.trial._numbers:
            return True
        target = self.trial._options.target
        reached = {name: value for name, value in epoch.metrics.items() if target and name == target.metric}
        return self.trial._stops(epoch.number + 1, {name: number_of(value) for name, value in reached.items()})

    def end_epoch(self, more: bool = True) -> None:
        """End the epoch, if one has begun."""
        trial = self.trial
        if trial._epoch is None:
            return
        number, numbers = trial._epoch.number + 1, trial._numbers
        reached = trial._end_epoch(more and number < numbers)
        if not more and not reached and number < numbers:
            trial._recorder.warn(f"the loop was left after epoch {number}{trial._too_early}")

    def spends_budget(self) -> bool:
        """Return whether training ends with this step, before the last of its epoch, since its budget is spent."""
        return self.in_epoch and self.trial._spends_budget()

    def limit(self, batches: int | None) -> int | None:
        """The number of batches in this epoch; None: as many as there are."""
        return self.trial._limit(batches)

    @contextmanager
    def waiting(self) -> Iterator[None]:
        """Charge the enclosed time, in which the host waits for a batch, to `input_wait`."""
        start_ns = time.perf_counter_ns()
        yield
        if self.in_epoch:
            self._clock.waited_ns += time.perf_counter_ns() - start_ns

    def begin_step(self, *batches: Any) -> None:
        """Begin a step on one batch, or on several whose gradients are added up."""
        epoch = self.trial._epoch
        if epoch is None:
            return
        for batch in batches:
            epoch.examples += self._examples(batch)
        self._batches = len(batches)
        if self._clock.timer:
            self._clock.timer.begin(steps=len(batches))

    def _examples(self, batch: Any) -> int:
        if not self._counts_examples:
            return 0
        try:
            count, self._path = examples_in(batch, self._path)
        except ValueError as error:
            self._counts_examples = False
            self.trial._recorder.warn(f"examples were not counted: {str(error).partition(';')[0]}")
            return 0
        return count

    def end_step(self) -> None:
        """End the step, if one has begun."""
        epoch = self.trial._epoch
        if epoch is not None and self._batches:
            self._clock.end_step()
            epoch.taken += self._batches
        self._batches = 0

    @property
    def taken(self) -> int:
        """The batches of the steps that have ended in this epoch."""
        return self.trial._epoch.taken if self.trial._epoch else 0

    def begin_evaluation(self, name: str) -> None:
        """Begin an evaluation; one before the first epoch is part of `build`."""
        if self._evaluating is None and self._has_begun:
            self._evaluating = self.trial.evaluation(name)
            self._evaluating.__enter__()

    def end_evaluation(self, metrics: Mapping[str, Any]) -> None:
        """End the evaluation, if one has begun, and log its metrics, with names that begin with the evaluation's."""
        if self._evaluating is not None:
            self._evaluating.__exit__(None, None, None)
            self._evaluating = None
            self.log(metrics)

    def log(self, metrics: Mapping[str, Any]) -> None:
        """Log metrics of this epoch or, after the last one, of the training."""
        if self._has_begun:
            self.trial.log(metrics)

    def diverged(self, reason: str) -> None:
        """End the training as `diverged` at the end of this epoch."""
        epoch = self.trial._epoch
        if epoch is not None and not self.trial._diverged:
            self.trial._diverged = f"{reason} in epoch {epoch.number + 1}"
