"""Timing rules: compute a time from an attempt's ledgers, one function per rule.

Every rule takes an `Attempt` and returns seconds, or None if the attempt lacks the required values. Rules over epochs
also count the epochs of an attempt that did not finish. Ledgers have a resolution of a microsecond; results are rounded
to the nanosecond, so that sums contain no floating-point noise.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise, repeat
from statistics import fmean, median

from raybench.core.job import Target
from raybench.results.attempt import Attempt, kept
from raybench.results.epoch import Epoch

Rule = Callable[[Attempt], float | None]

DIGITS = 9
"""Decimals of a result."""

STEADY = ("train", "input_wait")
"""Sections of an epoch without compilation."""

TRAINING = ("compile", *STEADY)
"""Sections of an epoch of training."""


def epoch_seconds(epoch: Epoch) -> float:
    """Seconds of an epoch of training: compile + train + input_wait."""
    return seconds_of_each([epoch], TRAINING)[0]


def seconds_of_each(epochs: Sequence[Epoch], sections: Sequence[str]) -> list[float]:
    """Seconds of each epoch in some sections together."""
    # By `map`, as a report of a large grid sums millions of times, and a generator takes three times as long.
    return [round(sum(map(epoch.ledger.get, sections, repeat(0.0))), DIGITS) for epoch in epochs]


def steady_epochs(attempt: Attempt) -> list[Epoch]:
    """The epochs after the warm-up or, without any, the last one.

    If the number of epochs is fractional, such as 9.9, the last epoch is shorter than the others and does not count,
    unless it is the only one. One that a budget ended is not an epoch (`paced_epochs`).
    """
    return attempt.steady or attempt.full_epochs[-1:] or [epoch for epoch in attempt.epochs[-1:] if not epoch.partial]


@kept
def paced_epochs(attempt: Attempt) -> tuple[list[Epoch], Sequence[float]]:
    """The steady epochs for a rate, with a budget's partial epoch joined to the last one, and the seconds of each."""
    partial = attempt.partial_epoch
    steady = attempt.steady if partial else steady_epochs(attempt) or attempt.epochs[-1:]
    if partial is None:
        return steady, steady_seconds(attempt) or seconds_of_each(steady, STEADY)
    if not steady or steady[-1].counts.keys() - partial.counts.keys():
        return [partial], seconds_of_each([partial], STEADY)
    last = steady[-1]
    joined = replace(
        last,
        steps=last.steps + partial.steps,
        examples=last.examples + partial.examples,
        units=_added(last.units, partial.units),
        ledger=_added(last.ledger, partial.ledger),
        device_s=_added(last.device_s, partial.device_s),
    )
    epochs = [*steady[:-1], joined]
    return epochs, seconds_of_each(epochs, STEADY)


@kept
def steady_seconds(attempt: Attempt) -> Sequence[float]:
    """Train + input_wait of each of these epochs."""
    epochs = steady_epochs(attempt)
    return _shared(epochs, seconds_of_each(epochs, STEADY))


def _shared(epochs: Sequence[Epoch], seconds: list[float]) -> list[float]:
    """Give epochs of a command whose lines arrived together equal parts of their time, which the first has alone."""
    alone = [place for place, epoch in enumerate(epochs) if not epoch.epochs_in_read]
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
    counts = [epoch.count(unit) for epoch in epochs]
    paces = [each_s / count for each_s, count in zip(seconds, counts, strict=True) if count]
    pace = median(paces) if paces and len(paces) == len(counts) else 0.0
    return 1 / pace if pace > 0 else None


def rates(attempt: Attempt) -> dict[str, float]:
    """The rate of each unit that its steady epochs counted."""
    units = dict.fromkeys(unit for epoch in paced_epochs(attempt)[0] for unit in epoch.counts)
    return {unit: found for unit in units if (found := rate(attempt, unit))}


def mean_steady(attempt: Attempt) -> float | None:
    """As `steady`, with the mean instead of the median."""
    epochs_s = steady_seconds(attempt)
    return _clean(fmean(epochs_s)) if epochs_s else None


def steady_from_warmup(attempt: Attempt) -> bool:
    """Return whether `steady` uses a warm-up epoch because there is no other."""
    return bool(attempt.epochs) and not attempt.steady and not attempt.partial_epoch and attempt.clock != "run"


def first(attempt: Attempt) -> float | None:
    """The first, cold epoch: its compile + train + input_wait."""
    return epoch_seconds(attempt.epochs[0]) if attempt.epochs and attempt.epochs[0].epoch == 1 else None


def epochs(attempt: Attempt) -> float | None:
    """Training alone: compile + train + input_wait of every epoch."""
    return _sum(seconds_of_each(attempt.epochs, TRAINING)) if attempt.epochs else None


def total(attempt: Attempt) -> float | None:
    """Everything: loading the framework, and the process from its start to its end."""
    return None if attempt.wall is None else _sum((attempt.template_import or 0.0, attempt.wall))


RULES: dict[str, Rule] = {rule.__name__: rule for rule in (steady, mean_steady, first, epochs, total)}
"""Every rule by its name."""


def until_target(attempt: Attempt, target: Target) -> list[Epoch]:
    """The epochs up to the first one that reaches a target; empty if none does."""
    for place, epoch in enumerate(attempt.epochs, 1):
        value = epoch.metrics.get(target.metric)
        if value is not None and target.is_reached_by(value):
            return attempt.epochs[:place]
    return []


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
