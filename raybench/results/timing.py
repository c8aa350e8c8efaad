"""Timing rules: compute a time from an attempt's ledgers, one function per rule.

Every rule takes an `Attempt` and returns seconds, or None if the attempt lacks the required values. Rules over epochs
also count the epochs of an attempt that did not finish. Ledgers have a resolution of a microsecond; results are rounded
to the nanosecond, so that sums contain no floating-point noise.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterable, Sequence
from math import nan
from statistics import fmean, median

import numpy as np

from raybench.core.job import Target
from raybench.results.attempt import Attempt
from raybench.results.epoch import Epoch
from raybench.results.epoch_table import Epochs, stacks

Rule = Callable[[Attempt], float | None]

DIGITS = 9
"""Decimals of a result."""

STEADY = ("train", "input_wait")
"""Sections of an epoch without compilation."""

TRAINING = ("compile", *STEADY)
"""Sections of an epoch of training."""

MLPERF_LEFT_OUT = 1200.0
"""Maximum of the seconds of preparation and compilation that MLPerf's training rules exclude: twenty minutes."""


def epoch_seconds(epoch: Epoch) -> float:
    """Seconds of an epoch of training: compile + train + input_wait."""
    return _sum(epoch.ledger.get(name, 0.0) for name in TRAINING)


def seconds_of_each(epochs: Epochs, sections: Iterable[str]) -> list[float]:
    """Seconds of each epoch in some sections together, from the columns of their table."""
    columns = (epochs.column("ledger", name, 0.0) for name in sections)
    return [round(sum(seconds), DIGITS) for seconds in zip(*columns, strict=True)]


def steady_epochs(attempt: Attempt) -> Epochs:
    """The epochs after the warm-up or, without any, the last one.

    If the number of epochs is fractional, such as 9.9, the last epoch is shorter than the others and does not count,
    unless it is the only one.
    """
    return attempt.steady or attempt.full_epochs[-1:] or attempt.epochs[-1:]


def steady_seconds(attempt: Attempt) -> Sequence[float]:
    """Train + input_wait of each of these epochs."""
    # A list would take four times the memory.
    return attempt.computed("steady_seconds", lambda: array("d", seconds_of_each(steady_epochs(attempt), STEADY)))


def steady(attempt: Attempt) -> float | None:
    """The headline: the median of train + input_wait over the epochs after the warm-up, a time for one epoch.

    If there is no epoch after the warm-up, the last epoch is used, and `steady_from_warmup` returns true.
    """
    return attempt.computed("steady_s", lambda: _median(steady_seconds(attempt)))


def mean_steady(attempt: Attempt) -> float | None:
    """As `steady`, with the mean instead of the median."""
    epochs_s = steady_seconds(attempt)
    return _clean(fmean(epochs_s)) if epochs_s else None


def steady_from_warmup(attempt: Attempt) -> bool:
    """Return whether `steady` uses a warm-up epoch because there is no other."""
    return bool(attempt.epochs) and not attempt.steady


def first(attempt: Attempt) -> float | None:
    """The first, cold epoch: its compile + train + input_wait."""
    first_epochs = attempt.epochs[:1]
    return seconds_of_each(first_epochs, TRAINING)[0] if first_epochs.numbers == [1] else None


def epochs(attempt: Attempt) -> float | None:
    """Training alone: compile + train + input_wait of every epoch."""
    return attempt.computed(
        "epochs_s", lambda: _sum(seconds_of_each(attempt.epochs, TRAINING)) if attempt.epochs else None
    )


def total(attempt: Attempt) -> float | None:
    """Everything: loading the framework, and the process from its start to its end."""
    return None if attempt.wall is None else _sum((attempt.template_import or 0.0, attempt.wall))


def airbench(attempt: Attempt) -> float | None:
    """As airbench reports: train + input_wait of every epoch, and the last evaluation; no compilation, no loading."""
    if not attempt.epochs:
        return None
    return _sum((*seconds_of_each(attempt.epochs, STEADY), *attempt.epochs[-1:].column("ledger", "evaluate", 0.0)))


def dawnbench(attempt: Attempt) -> float | None:
    """As DAWNBench counts: preparing the data, then train + input_wait of every epoch; no evaluation."""
    if not attempt.epochs or "data" not in attempt.ledger:
        return None
    return _sum((attempt.ledger["data"], *seconds_of_each(attempt.epochs, STEADY)))


def mlperf(attempt: Attempt) -> float | None:
    """As MLPerf counts: the wall time less setup, build and compile, of which at most 1,200 s are left out.

    Unknown for a training function without a section for its data, whose loading is then part of `build`.
    """
    if attempt.wall is None or (attempt.cell.has_own_loop and "data" not in attempt.ledger):
        return None
    startup_s = _sum(attempt.ledger.get(name, 0.0) for name in ("setup", "build", "compile"))
    return _clean(attempt.wall - min(startup_s, MLPERF_LEFT_OUT))


RULES: dict[str, Rule] = {
    rule.__name__: rule for rule in (steady, mean_steady, first, epochs, total, airbench, dawnbench, mlperf)
}
"""Every rule by its name."""


def time_to_target(attempt: Attempt, target: Target) -> float | None:
    """Training time until the target: compile + train + input_wait up to the end of the first epoch that reaches it.

    Evaluation is excluded, because its frequency is not part of the training. None if the target is never reached.
    """
    place = _first_place(attempt, target)
    if place is None:
        return None
    return attempt.computed(("until", place), lambda: _sum(seconds_of_each(attempt.epochs[: place + 1], TRAINING)))


def first_reaching(attempt: Attempt, target: Target) -> int | None:
    """The number of the first epoch that reaches a target."""
    place = _first_place(attempt, target)
    return None if place is None else attempt.epochs.numbers[place]


def _first_place(attempt: Attempt, target: Target) -> int | None:
    """The position of the first epoch that reaches a target."""

    def find() -> int | None:
        values = attempt.epochs.column("metrics", target.metric, nan)
        return next((place for place, value in enumerate(values) if target.is_reached_by(value)), None)

    return attempt.computed(("first to reach", target), find)


def compute_together(attempts: Sequence[Attempt]) -> None:
    """Compute the times of many attempts at once and remember them.

    The rules then take a fraction of the time.
    """
    for positions, stack in stacks((attempt.epochs.table for attempt in attempts), "ledger"):
        columns = {name: stack.column("ledger", name) for name in TRAINING}
        steady, training = (
            np.round(sum(columns[name] for name in sections), DIGITS) for sections in (STEADY, TRAINING)
        )
        elapsed = np.round(training.cumsum(axis=1), DIGITS)
        for row, position in enumerate(positions):
            attempt = attempts[position]
            places = steady_epochs(attempt).places
            seconds = steady[row, places.start : places.stop] if isinstance(places, range) else steady[row, places]
            attempt.remember("steady_seconds", array("d", seconds.tobytes()))
            attempt.remember("epochs_s", float(elapsed[row, -1]))
            place = _first_place(attempt, attempt.target) if attempt.target else None
            if place is not None:
                attempt.remember(("until", place), float(elapsed[row, place]))


def _sum(seconds: Iterable[float]) -> float:
    return _clean(sum(seconds))


def _median(numbers: Iterable[float]) -> float | None:
    values = list(numbers)
    return _clean(median(values)) if values else None


def _clean(seconds: float) -> float:
    return round(seconds, DIGITS)
