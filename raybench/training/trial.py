"""`Trial`: the interface between a user's training loop and raybench."""

from __future__ import annotations

import math
import os
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cached_property
from itertools import count as count_from
from pathlib import Path
from typing import Any, Generic, TypeVar

from raybench import datasets
from raybench.core.job import Budget, StopRule, Target
from raybench.datasets.splits import Data
from raybench.engines.batch_order import total_steps
from raybench.engines.loop_facts import LoopFacts
from raybench.training.budget import BudgetRule
from raybench.training.clock import TrainingClock
from raybench.training.epoch_record import Diverged, EpochRecord, add_counts, finite
from raybench.training.values import ArrayPath, array_in, examples_in, number_of

T = TypeVar("T")
Scalar = Any  # a number, or an array of one number
SECTIONS = ("data", "build", "compile", "checkpoint")  # the sections that a loop may name itself

NOT_JOINED = (
    "the processes trained separate models, as torch.distributed was not initialized in the first epoch: the sum of "
    "their counts is no speed-up; use DDP, for example"
)

_END: Any = object()


@dataclass(frozen=True)
class TrialOptions:
    """What a training is to do, and where.

    Attributes:
        epochs: how many, whatever number the loop has; None if the loop says so or, with a budget, for no limit.
        steps_per_epoch: after how many steps an epoch ends; None: with its batches.
        target: the metric to reach.
        stop_at_target: whether training ends when it is reached.
        budget: what the training may spend; None for no limit.
        read_joules: reads the device's energy counters, for a budget of energy.
        rank: the number of this process among those that train the model together, from 0.
        world_size: how many they are.
        data_dir: the folder of data sets.
        output_dir: a folder for the user's own files.
    """

    epochs: float | None
    data_dir: Path
    output_dir: Path
    steps_per_epoch: int | None = None
    target: Target | None = None
    stop_at_target: bool = False
    budget: Budget | None = None
    read_joules: Callable[[], float] | None = None
    seed: int = 0
    rank: int = 0
    world_size: int = 1


@dataclass(frozen=True)
class SavedState:
    """The user's functions that save the state of a training to a path, and load it."""

    save: Callable[[Path], object]
    load: Callable[[Path], object]


class Recorder:
    """The receiver of what a trial reports: the journal, or a terminal; this one ignores it.

    Attributes:
        counted_before: what earlier attempts, from which training goes on, have counted, by unit.
    """

    counted_before: Mapping[str, float] = {}

    def begin(self, state: SavedState | None) -> int:
        """Note that training begins; load the state of an earlier attempt, and return the number of its epochs."""
        return 0

    def epoch_ended(self, fields: dict[str, Any], more: bool) -> None:
        """Record an epoch, from the fields of its event; if more follow, a checkpoint may be made."""

    def loop_left(self, fields: dict[str, Any]) -> None:
        """Note that the loop was left after an epoch, by `break` or by an error; `Trial.finish` records it."""

    def decide(self, epoch: int, stop: bool) -> bool:
        """Return whether training ends with an epoch (from 1), for all ranks alike; `stop`: it does for this rank."""
        return stop

    def logged_later(self, metrics: Mapping[str, float]) -> None:
        """Record metrics that were logged after the last epoch."""

    def warn(self, message: str) -> None:
        """Record a warning."""


class Trial:
    """One training run: its loop reports epochs, steps, evaluations and metrics.

    A training function gets it as its first argument, a script from `raybench.current_trial()`. Outside of raybench it
    prints one line per epoch.

    Attributes:
        seed: for random generators; the repeats of a configuration have different ones.
        rank, world_size: of this process, among the processes that train the model together.
        data_dir: the folder of data sets, as `RAYBENCH_DATA`.
    """

    def __init__(self, options: TrialOptions, recorder: Recorder, clock: Callable[[], TrainingClock]) -> None:
        self.seed, self.rank, self.world_size = options.seed, options.rank, options.world_size
        self.data_dir = options.data_dir
        self._options, self._recorder = options, recorder
        self._open_clock = clock
        self._state: SavedState | None = None
        self._epoch: EpochRecord | None = None
        self._last: EpochRecord | None = None
        self._total: float | None = None
        self._in_steps = self._left_steps = False
        self._steps_before: int | None = None
        self._left: tuple[dict[str, Any] | None, str] | None = None
        self._diverged = ""
        self._decision = 0, False  # of the last epoch (from 1) that rank 0 decided
        self._stop_rule = StopRule(options.target) if options.target and options.stop_at_target else None
        # Ranks train in step, and each has its own clock, so that they can agree only between two epochs.
        self._budget = BudgetRule(options.budget, options.read_joules, options.world_size == 1, self._work_done)
        self._done: dict[str, float] = {}  # in the epochs that have ended
        self._names: set[str] = set()
        self._process = os.getpid()

    @property
    def device(self) -> str:
        """The framework's name of the device, such as `cuda:0`."""
        return self._loop.device_name

    @property
    def output_dir(self) -> Path:
        """A folder for your own files; it is created on first use."""
        self._options.output_dir.mkdir(parents=True, exist_ok=True)
        return self._options.output_dir

    def load(self, dataset: str) -> Data:
        """Load one of raybench's data sets.

        Args:
            dataset: its name.

        Raises:
            DataError: it is missing or damaged.
        """
        return datasets.get(dataset).load(self.data_dir)

    def epochs(self, count: float | None = None) -> Iterator[int]:
        """Iterate over the epochs, numbered from 0, instead of `range(count)`.

        An epoch ends when the loop asks for the next one. The iteration ends at the target, if the grid sets
        `stop_at_target`, and when the grid's `budget` is spent.

        Args:
            count: how many, if the grid sets neither `epochs` nor `budget`; a fraction, such as 9.9, makes the last one
                shorter.
        """
        self._begin(count)
        return self._iterate()

    def steps(
        self,
        batches: Iterable[T],
        *,
        examples: int | Callable[[T], int] | None = None,
        steps: int | Callable[[T], int] = 1,
    ) -> Steps[T]:
        """Iterate over the batches of an epoch, instead of the batches themselves.

        Waiting for the next batch is recorded as `input_wait`. If the grid sets `steps_per_epoch`, the iteration ends
        after that many steps; if it sets a `budget`, after the step that spends it. Outside of `epochs()` the iteration
        is the whole training: it starts again with the batches until all epochs are done.

        Args:
            batches: any iterable; an iterator continues in the next epoch.
            examples: the number of examples in a batch, or a function of the batch, if it is not the first dimension
                that the arrays of a batch have in common.
            steps: the number of optimizer steps that the loop takes with a batch, or a function of the batch, if it is
                a stack of several that one compiled call trains on; an integer in `examples` then counts one step.
        """
        self._note_use()
        return Steps(self, batches, examples, steps)

    @contextmanager
    def evaluation(self, name: str = "val") -> Iterator[None]:
        """Count the enclosed time as evaluation, anywhere in the loop or after it.

        Args:
            name: of the data; metrics of this evaluation are logged as `{name}/…`.
        """
        self._note_use()
        if self._epoch is None and self._last is None:
            raise RuntimeError("trial.evaluation() before the first epoch: call it inside `for … in trial.epochs()`")
        with self._clock.section("evaluate"):
            yield

    @contextmanager
    def section(self, name: str) -> Iterator[None]:
        """Count the enclosed time as `data`, `build`, `compile` or `checkpoint`."""
        self._note_use()
        if name not in SECTIONS:
            raise ValueError(f"trial.section({name!r}): use one of {', '.join(SECTIONS)}")
        with self._clock.section(name):
            yield

    def log(self, metrics: Mapping[str, Scalar]) -> None:
        """Log metrics of an epoch, such as `{"train/loss": loss, "val/accuracy": accuracy}`.

        They are numbers, or arrays of one number, which are copied at once and fetched from their device when the epoch
        ends. The last value of an epoch counts. A loss that is not finite ends the training, as diverged.
        """
        self._note_use()
        if self._epoch is not None:
            self._epoch.log(metrics)
        elif self._last is not None:
            self._last.log(metrics)
            values = {name: number_of(value) for name, value in metrics.items()}
            later = self._finite(values, "after the last epoch")
            if self._left and self._left[0]:
                self._left[0]["metrics"] |= later
            self._recorder.logged_later(later)
        else:
            raise RuntimeError("trial.log() before the first epoch: call it inside `for … in trial.epochs()`")
        self._names.update(metrics)

    def count(self, **units: Scalar) -> None:
        """Count units of this epoch, such as `tokens=n`.

        `steps=` and `examples=` count those that `steps()` cannot see.
        """
        self._note_use()
        if self._epoch is None:
            raise RuntimeError("trial.count() outside of an epoch: call it inside `for … in trial.epochs()`")
        self._epoch.add(units)

    def checkpoint(self, save: Callable[[Path], object], load: Callable[[Path], object]) -> None:
        """Name the functions that save the state of training to a path and load it; before `epochs()`.

        If the grid sets `checkpoint_every` and the machine is lost, training goes on after the last saved epoch.

        Args:
            save: writes a file or a folder at the path, which does not exist yet.
            load: reads it.
        """
        self._check_process()
        if self._total is not None:
            raise RuntimeError("trial.checkpoint() after trial.epochs(): call it before, so that training can resume")
        self._state = SavedState(save, load)

    @property
    def in_epoch(self) -> bool:
        """Return whether an epoch has begun and has not ended."""
        return self._epoch is not None

    @property
    def ended_epochs(self) -> int:
        """The number of epochs that have ended, those of earlier attempts included."""
        return self._last.number + 1 if self._last else 0

    @property
    def logged(self) -> frozenset[str]:
        """The names of all metrics that were logged."""
        return frozenset(self._names)

    def finish(self) -> None:
        """Record the epoch in or after which the loop was left, as no error has ended the training.

        Raises:
            Diverged: its loss is not finite.
        """
        if self._epoch is not None and self._total is not None:  # the iterator over epochs is still referred to
            self._leave(self._epoch.number)
        (fields, message), self._left = self._left or (None, ""), None
        if fields:
            self._recorder.epoch_ended(fields, False)
        if self._diverged:
            raise Diverged(self._diverged)
        if message:
            self._recorder.warn(message)

    def abandon(self) -> None:
        """Ignore everything from here on: training has ended, perhaps by an error."""
        self._epoch = None

    @cached_property
    def _clock(self) -> TrainingClock:
        return self._open_clock()

    @property
    def _loop(self) -> LoopFacts:
        return self._clock.loop

    def _check_process(self) -> None:
        if os.getpid() != self._process:
            raise RuntimeError("this trial belongs to a different process: only the one that trains can report to it")

    def _note_use(self) -> None:
        """Check the process; an epoch whose steps were left by `break` goes on, and counts."""
        self._check_process()
        if self._left_steps:
            self._in_steps = self._left_steps = False

    def _begin(self, count: float | None) -> None:
        self._check_process()
        if self._total is not None:
            raise RuntimeError("trial.epochs() a second time: a trial trains once")
        options = self._options
        total = count if options.epochs is None else options.epochs
        if options.budget and options.epochs is None:
            total = math.inf
        if total is None:
            raise ValueError("how many epochs? Set `epochs` in the grid file, or write trial.epochs(10)")
        if not isinstance(total, (int, float)) or not total > 0:
            raise ValueError(f"trial.epochs({total!r}): use a number above 0")
        self._total = total

    @property
    def _numbers(self) -> float:
        """The number of epochs; the last one may be shorter."""
        assert self._total is not None
        return math.ceil(self._total) if math.isfinite(self._total) else math.inf

    @property
    def _too_early(self) -> str:
        """The part of a warning that says what a loop that is left early leaves undone."""
        return f" of {self._numbers}" if math.isfinite(self._numbers) else ", before its budget was spent"

    def _resume(self) -> int:
        """Load the state of an earlier attempt, if there is one; return the number of its epochs."""
        first = self._recorder.begin(self._state)
        self._done = dict(self._recorder.counted_before)
        if first:
            self._last = EpochRecord(first - 1)
        return first

    def _begin_epoch(self, number: int) -> None:
        self._budget.begin_epoch()
        self._clock.begin_epoch()
        self._epoch, self._in_steps, self._left_steps = EpochRecord(number), False, False

    def _iterate(self) -> Iterator[int]:
        for number in count_from(self._resume()):
            if number >= self._numbers:
                break
            self._begin_epoch(number)
            try:
                yield number
            except GeneratorExit:
                phase = self._clock.ledger.phase
                with suppress(Exception):  # an error of the loop may have left the device unusable
                    self._leave(number)
                self._clock.ledger.failed = phase  # if an error ended the loop, until the next section
                raise
            if self._end_epoch(number + 1 < self._numbers):
                break

    def _leave(self, number: int) -> None:
        """End the loop early, by `break` or an error: an epoch counts unless this happened in one of its steps."""
        epoch = self._epoch
        if epoch is None or sys.is_finalizing():
            return
        if self._in_steps:
            self._clock.end_epoch(all_ranks=False)
            self._epoch = None
            self._left = None, f"the loop was left in epoch {number + 1}{self._too_early}; that epoch does not count"
            return
        fields = self._close(epoch, all_ranks=False)  # an error may have ended this one only
        more = number + 1 < self._numbers
        self._left = fields, f"the loop was left after epoch {number + 1}{self._too_early}" if more else ""
        self._recorder.loop_left(fields)

    def _close(self, epoch: EpochRecord, all_ranks: bool = True) -> dict[str, Any]:
        """End an epoch; return the fields of its event."""
        measured = self._clock.end_epoch(all_ranks)
        if self.world_size > 1 and not epoch.number and not _have_joined():
            self._recorder.warn(NOT_JOINED)
        if not epoch.taken:  # not measured: the loop does not use `steps`
            del measured["ledger"]["input_wait"]
        self._epoch, self._last = None, epoch
        self._steps_before = epoch.taken or None
        values = {name: number_of(value) for name, value in epoch.metrics.items()}
        steps = self._loop.optimizer_steps()
        optimizers = [
            {"class": group.name, "lr": group.lr, "weight_decay": group.weight_decay}
            for group in self._loop.optimizers()
        ]
        counted = epoch.counted()
        add_counts(self._done, counted)
        return {
            "epoch": epoch.number + 1,
            **counted,
            **epoch.facts,
            **({"optimizer_steps": steps} if steps else {}),
            **({"optimizers": optimizers} if optimizers else {}),
            **measured,
            "metrics": self._finite(values, f"in epoch {epoch.number + 1}"),
        }

    def _end_epoch(self, more: bool) -> bool:
        """Record the epoch; return whether training ends with it."""
        assert self._epoch
        fields = self._close(self._epoch)
        try:
            reached = self._stops(fields["epoch"], fields["metrics"])
        except ValueError:
            self._recorder.epoch_ended(fields, False)
            raise
        self._recorder.epoch_ended(fields, more and not reached and not self._diverged)
        if self._diverged:
            raise Diverged(self._diverged)
        return reached

    def _stops(self, epoch: int, metrics: Mapping[str, float]) -> bool:
        """Whether training ends with an epoch (from 1), for all ranks alike: target reached, or budget spent."""
        if not self._stop_rule and not self._options.budget:
            return False
        if self.world_size > 1 and not self._diverged and self._decision[0] == epoch:
            return self._decision[1]  # rank 0 decides once, as others may have read it
        stops = bool(self._stop_rule and self._stop_rule.ends_with(metrics)) or self._budget.is_spent(self._clock)
        if self.world_size > 1 and not self._diverged:
            stops = self._recorder.decide(epoch, stops)
            self._decision = epoch, stops
        return stops

    def _work_done(self, unit: str) -> float:
        """Return what all ranks have counted of a unit so far; they train in step."""
        work = self._done.get(unit, 0.0)
        if epoch := self._epoch:
            work += number_of(epoch.counts.get(unit, 0)) + (epoch.examples if unit == "examples" else 0)
        return self.world_size * work

    def _spends_budget(self) -> bool:
        """Return whether the budget is spent inside of the open epoch; the epoch is then partial."""
        assert self._epoch
        if time.perf_counter_ns() < self._budget.ask_ns or not self._budget.is_spent(self._clock):
            return False
        self._epoch.facts["partial"] = True
        return True

    def _finite(self, values: Mapping[str, float], when: str) -> dict[str, float]:
        """The finite metrics, with a warning about others; a loss that is not finite ends the training."""
        kept, diverged = finite(values, self._recorder.warn)
        self._diverged = f"{diverged} {when}" if diverged else self._diverged
        return kept

    def _limit(self, length: int | None) -> int | None:
        """The number of steps in this epoch; None: as many as there are batches."""
        epoch, total, limit = self._epoch, self._total, self._options.steps_per_epoch
        assert epoch and total is not None
        if epoch.number + 1 <= total:
            return limit
        whole = limit or length or self._steps_before
        if not whole:
            raise ValueError(f"{total:g} epochs of an unknown number of steps: set `steps_per_epoch` in the grid file")
        return total_steps(whole, total) - epoch.number * whole


def _have_joined() -> bool:
    """Return whether the processes may train one model together; other libraries than PyTorch are not looked at."""
    distributed = sys.modules.get("torch.distributed")
    if distributed is None or not distributed.is_available() or sys.modules.keys() & {"jax", "tensorflow", "torch_xla"}:
        return True
    return bool(distributed.is_initialized())


class Steps(Generic[T]):
    """The batches of an epoch, or of a whole training; made by `Trial.steps`."""

    def __init__(
        self,
        trial: Trial,
        batches: Iterable[T],
        examples: int | Callable[[T], int] | None,
        steps: int | Callable[[T], int],
    ) -> None:
        self._trial, self._batches, self._examples, self._steps = trial, batches, examples, steps
        self._iterator: Iterator[T] | None = None
        self._passes = 0
        self._path: ArrayPath | None = None
        self._on_host: bool | None = None

    def __len__(self) -> int:
        """The number of batches in an epoch; fails if the batches have no length."""
        length = len(self._batches)  # type: ignore[arg-type]
        limit = self._trial._options.steps_per_epoch
        return min(length, limit) if limit and self._steps == 1 else length

    def __iter__(self) -> Iterator[T]:
        """Iterate over one epoch or, outside of `Trial.epochs`, over all."""
        trial = self._trial
        trial._check_process()
        self._iterator = None
        if trial._epoch is not None:
            yield from self._batches_of_epoch(restart=False)
        elif trial._total is None:
            trial._begin(None)
            for _ in trial._iterate():
                yield from self._batches_of_epoch(restart=True)
        else:
            raise RuntimeError("trial.steps() after the last epoch: call it inside `for … in trial.epochs()`")

    def _batches_of_epoch(self, restart: bool) -> Iterator[T]:
        trial, clock = self._trial, self._trial._clock
        epoch, timer = trial._epoch, clock.timer
        assert epoch and timer
        if clock.is_evaluating:
            raise RuntimeError("trial.steps() in trial.evaluation(): it counts batches of training; use the loader")
        length = self._length
        limit = trial._limit(length)
        last = limit or (epoch.taken + length if length else None)
        trial._in_steps, trial._left_steps = True, False
        self._passes = 0 if self._iterator is None else 1
        # As few calls as possible: after a step, which displaces their code from the processor's caches, each takes
        # about a microsecond, a thousandth of a short step (benchmarks/training_loop.py).
        examples, steps, path = self._examples, self._steps, self._path
        budget, now = trial._budget, time.perf_counter_ns
        while limit is None or epoch.taken < limit:
            start_ns = now()
            if start_ns >= budget.ask_ns and epoch.taken not in (0, last):
                if trial._spends_budget():
                    break
                start_ns = now()
            batch = next(self._iterator, _END) if self._iterator else _END
            if batch is _END:
                batch = self._first_batch(restart and limit is not None)
            clock.waited_ns += now() - start_ns
            if batch is _END:
                self._iterator = None
                break
            taken = steps(batch) if callable(steps) else steps
            if examples is None:
                try:
                    count, path = examples_in(batch, path)
                except ValueError as error:
                    trial._recorder.warn(str(error))
                    examples = count = self._examples = 0
            else:
                count = int(examples(batch)) if callable(examples) else examples * taken
            epoch.examples += count
            if self._on_host is None:
                array = array_in(batch, path)
                self._on_host = array is None or trial._loop.on_host(array)
            timer.begin(not self._on_host, taken)
            try:
                yield batch
            except GeneratorExit:  # the loop was left with `break`, which usually follows the work of a step
                if trial._epoch is epoch:  # otherwise an iterator of an earlier epoch is thrown away
                    epoch.taken += taken
                    trial._left_steps = True
                    trial._in_steps = last is None or epoch.taken < last
                    with suppress(Exception):  # or by an error, which may have left the device unusable
                        clock.end_step()
                raise
            epoch.taken += taken
            if timer.in_step:
                timer.end(wait=True)
        self._path = path
        if not restart:
            start_ns = time.perf_counter_ns()
            self._iterator = None  # ends the processes of a loader
            clock.waited_ns += time.perf_counter_ns() - start_ns
        if examples == 0:
            epoch.examples = 0  # of an epoch in part it would be no rate
        if not epoch.taken:
            raise RuntimeError("trial.steps() has no batch in this epoch: give it a loader or a list, not an iterator")
        trial._in_steps = False

    def _first_batch(self, restart: bool) -> Any:
        """The first batch of a pass, if there may be one: in an epoch only the first, unless it restarts."""
        if self._passes and not restart:
            return _END
        self._passes += 1
        self._iterator = iter(self._batches)
        return next(self._iterator, _END)

    @property
    def _length(self) -> int | None:
        """The number of steps that the batches have; None if it is not known."""
        if callable(self._steps):
            return None
        try:
            return len(self._batches) * self._steps  # type: ignore[arg-type]
        except TypeError:
            return None
