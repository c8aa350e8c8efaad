"""Timing rules: compute a time from an attempt's ledgers, one function per rule.

Every rule takes an `Attempt` and returns seconds, or None if the attempt lacks the required values. Rules over epochs
also count the epochs of an attempt that did not finish. Ledgers have a resolution of a microsecond; results are rounded
to the nanosecond, so that sums contain no floating-point noise.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from statistics import fmean, median

from raybench.core.job import Target
from raybench.results.attempt import Attempt, kept
from raybench.results.epoch import Epoch
from raybench.results.epochs import Epochs

Rule = Callable[[Attempt], float | None]

DIGITS = 9
"""Decimals of a result."""

STEADY = ("train", "input_wait")
"""Sections of an epoch without compilation."""

TRAINING = ("compile", *STEADY)
"""Sections of an epoch of training."""


def epoch_seconds(epoch: Epoch) -> float:
    """Seconds of an epoch of training: compile + train + input_wait."""
    return _sum(epoch.ledger.get(name, 0.0) for name in TRAINING)


def seconds_of_each(epochs: Epochs, sections: Iterable[str]) -> list[float]:
    """Seconds of each epoch in some sections together."""
    columns = (epochs.column("ledger", name, 0.0) for name in sections)
    return [round(sum(parts), DIGITS) for parts in zip(*columns, strict=True)]


def steady_epochs(attempt: Attempt) -> Epochs:
    """The epochs after the warm-up or, without any, the last one.

    If the number of epochs is fractional, such as 9.9, the last epoch is shorter than the others and does not count,
    unless it is the only one. One that a budget ended is not an epoch (`paced_epochs`).
    """
    return attempt.steady or attempt.full_epochs[-1:] or attempt.epochs[: 0 if attempt.ends_partial else 1]


@kept
def paced_epochs(attempt: Attempt) -> tuple[Epochs, Sequence[float]]:
    """The steady epochs for a rate, with a budget's partial epoch joined to the last one, and the seconds of each."""
    partial = attempt.partial_epoch
    steady = attempt.steady if partial else steady_epochs(attempt) or attempt.epochs[-1:]
    if partial is None:
        return steady, steady_seconds(attempt) or seconds_of_each(steady, STEADY)
    last = steady[-1] if steady else None
    if not last or last.counts.keys() - partial.counts.keys():
        return attempt.epochs[-1:], seconds_of_each(attempt.epochs[-1:], STEADY)
    joined = replace(
        last,
        steps=last.steps + partial.steps,
        examples=last.examples + partial.examples,
        units=_added(last.units, partial.units),
        ledger=_added(last.ledger, partial.ledger),
        device_s=_added(last.device_s, partial.device_s),
    )
    epochs = Epochs([*steady, joined])
    return epochs, seconds_of_each(epochs, STEADY)


@kept
def steady_seconds(attempt: Attempt) -> Sequence[float]:
    """Train + input_wait of each of these epochs."""
    epochs = steady_epochs(attempt)
    return _shared(epochs, seconds_of_each(epochs, STEADY))


def _shared(epochs: Epochs, seconds: list[float]) -> list[float]:
    """Give epochs of a command whose lines arrived together equal parts of their time, which the first has alone."""
    alone = [place for place, together in enumerate(epochs.column("epochs_in_read")) if not together]
    if len(alone) in (0, len(epochs)):
        return seconds
    parts = [fmean(seconds[place:end]) for place, end in pairwise([*alone, len(epochs)]) for _ in range(place, end)]
    return [median(parts)] * alone[0] + parts  # those before came together with an epoch of the warm-up


def steady(attempt: Attempt) -> float | None:
    """The headline: the median of train + input_wait over the epochs after the warm-up, a time for one epoch.

    If there is no epoch after the warm-up, the last epoch is used, and `steady_from_warmup` returns true.
    """
    epochs_s = steady_seconds(attempt)
    return _clean(median(epochs_s)) if epochs_s else None


@kept
def rate(attempt: Attempt, unit: str) -> float | None:
    """Units per second: the inverse of the median seconds per unit; None if a steady epoch counted nothing."""
    epochs, seconds = paced_epochs(attempt)
    counts = epochs.counts(unit)
    paces = [each_s / count for each_s, count in zip(seconds, counts, strict=True) if count]
    pace = median(paces) if paces and len(paces) == len(counts) else 0.0
    return 1 / pace if pace > 0 else None


def rates(attempt: Attempt) -> dict[str, float]:
    """The rate of each unit that its steady epochs counted."""
    return {unit: found for unit in paced_epochs(attempt)[0].counted if (found := rate(attempt, unit))}


def mean_steady(attempt: Attempt) -> float | None:
    """As `steady`, with the mean instead of the median."""
    epochs_s = steady_seconds(attempt)
    return _clean(fmean(epochs_s)) if epochs_s else None


def steady_from_warmup(attempt: Attempt) -> bool:
    """Return whether `steady` uses a warm-up epoch because there is no other."""
    return bool(attempt.epochs) and not attempt.steady and not attempt.partial_epoch and attempt.clock != "run"


def first(attempt: Attempt) -> float | None:
    """The first, cold epoch: its compile + train + input_wait."""
    return seconds_of_each(attempt.epochs[:1], TRAINING)[0] if 1 in attempt.epochs.column("epoch") else None


def epochs(attempt: Attempt) -> float | None:
    """Training alone: compile + train + input_wait of every epoch."""
    return _sum(seconds_of_each(attempt.epochs, TRAINING)) if attempt.epochs else None


def total(attempt: Attempt) -> float | None:
    """Everything: loading the framework, and the process from its start to its end."""
    return None if attempt.wall is None else _sum((attempt.template_import or 0.0, attempt.wall))


RULES: dict[str, Rule] = {rule.__name__: rule for rule in (steady, mean_steady, first, epochs, total)}
"""Every rule by its name."""


def until_target(attempt: Attempt, target: Target) -> Epochs:
    """The epochs up to the first one that reaches a target; empty if none does."""
    for place, value in enumerate(attempt.epochs.column("metrics", target.metric), 1):
        if value is not None and target.is_reached_by(value):
            return attempt.epochs[:place]
    return Epochs()


def time_to_target(attempt: Attempt, target: Target) -> float | None:
    """Training time until the target: compile + train + input_wait up to the end of the first epoch that reaches it.

    Evaluation is excluded, because its frequency is not part of the training. None if the target is never reached.
    """
    epochs = until_target(attempt, target)
    return _sum(seconds_of_each(epochs, TRAINING)) if epochs else None


def _added(first: Mapping[str, float], second: Mapping[str, float]) -> dict[str, float]:
    return {name: first.get(name, 0.0) + second.get(name, 0.0) for name in {**first, **second}}


def _sum(seconds: Iterable[float]) -> float:
    return _clean(sum(seconds))


def _clean(seconds: float) -> float:
    return round(seconds, DIGITS)
