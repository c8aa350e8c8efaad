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
    """

    def __init__(self, trial: Trial) -> None:
        trial._check_process()
        self._trial, self._clock = trial, trial._clock
        self._number = 0
        self._done: int | None = None
        self._path: ArrayPath | None = None
        self._counts_examples = True
        self._batches = 0
        self._evaluating: Any = None

    @property
    def epochs(self) -> float | None:
        """The number of epochs that the grid sets; None: the library's own number."""
        return self._trial._options.epochs

    @property
    def steps_per_epoch(self) -> int | None:
        """After how many batches an epoch ends; None: with its data."""
        return self._trial._options.steps_per_epoch

    @property
    def output_dir(self) -> Path:
        """A folder for files of the library, created when it is first asked for."""
        return self._trial.output_dir

    @property
    def in_epoch(self) -> bool:
        """Whether an epoch has begun and has not ended."""
        return self._trial.in_epoch

    @property
    def _has_begun(self) -> bool:
        return self.in_epoch or self._trial.ended_epochs > 0

    def resumable(self, save: Callable[[Path], object], load: Callable[[Path], object]) -> None:
        """Name the functions that save and load the library's state, unless the user has named some."""
        if self._trial._state is None:
            self._trial.checkpoint(save, load)

    def resume(self) -> int:
        """Load the state of an earlier attempt, if there is one; return the number of its epochs."""
        if self._done is None:
            self._done = self._number = self._trial._resume()
        return self._done

    def begin(self, epochs: float | None) -> int:
        """Begin training; return the number of epochs of an earlier attempt."""
        self._trial._begin(epochs if self.epochs is None else None)
        return self.resume()

    def begin_epoch(self) -> None:
        """Begin the next epoch."""
        self._trial._begin_epoch(self._number)
        self._number += 1

    @property
    def is_last(self) -> bool:
        """Whether training ends with this epoch: it is the last one, has reached the target or spent the budget."""
        epoch = self._trial._epoch
        assert epoch
        if epoch.number + 1 >= self._trial._numbers:
            return True
        target = self._trial._options.target
        reached = {name: value for name, value in epoch.metrics.items() if target and name == target.metric}
        return self._trial._stops(epoch.number + 1, {name: number_of(value) for name, value in reached.items()})

    def end_epoch(self, more: bool = True) -> None:
        """End the epoch, if one has begun."""
        trial = self._trial
        if trial._epoch is None:
            return
        number, numbers = trial._epoch.number + 1, trial._numbers
        reached = trial._end_epoch(more and number < numbers)
        if not more and not reached and number < numbers:
            trial._recorder.warn(f"the loop was left after epoch {number}{trial._too_early}")

    def spends_budget(self) -> bool:
        """Return whether training ends with this step, before the last of its epoch, since its budget is spent."""
        return self.in_epoch and self._trial._spends_budget()

    def limit(self, batches: int | None) -> int | None:
        """The number of batches in this epoch; None: as many as there are."""
        return self._trial._limit(batches)

    @contextmanager
    def waiting(self) -> Iterator[None]:
        """Charge the enclosed time, in which the host waits for a batch, to `input_wait`."""
        start_ns = time.perf_counter_ns()
        yield
        if self.in_epoch:
            self._clock.waited_ns += time.perf_counter_ns() - start_ns

    def begin_step(self, *batches: Any) -> None:
        """Begin a step on one batch, or on several whose gradients are added up."""
        epoch = self._trial._epoch
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
            self._trial._recorder.warn(f"examples were not counted: {str(error).partition(';')[0]}")
            return 0
        return count

    def end_step(self) -> None:
        """End the step, if one has begun."""
        epoch = self._trial._epoch
        if epoch is not None and self._batches:
            self._clock.end_step()
            epoch.taken += self._batches
        self._batches = 0

    @property
    def taken(self) -> int:
        """The batches of the steps that have ended in this epoch."""
        return self._trial._epoch.taken if self._trial._epoch else 0

    def count(self, **units: float) -> None:
        """Count units, such as tokens, and steps and examples that were not reported one by one."""
        self._trial.count(**units)

    def begin_evaluation(self, name: str) -> None:
        """Begin an evaluation; one before the first epoch is part of `build`."""
        if self._evaluating is None and self._has_begun:
            self._evaluating = self._trial.evaluation(name)
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
            self._trial.log(metrics)

    def diverged(self, reason: str) -> None:
        """End the training as `diverged` at the end of this epoch."""
        epoch = self._trial._epoch
        if epoch is not None and not self._trial._diverged:
            self._trial._diverged = f"{reason} in epoch {epoch.number + 1}"

    def checkpoint(self) -> Any:
        """A context whose time is that of a checkpoint."""
        return self._trial.section("checkpoint")
