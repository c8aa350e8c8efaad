"""From an attempt's ledgers to a time: one function for each rule by which training times are published.

Every rule takes an `Attempt` and returns seconds, or None where the attempt does not have what the rule counts. Rules
over epochs count those there are, also of an attempt that did not finish. Ledgers are kept to the microsecond; results
are rounded to the nanosecond, so that sums carry no noise of binary floats.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from statistics import fmean, median

from raybench.analysis.results import Attempt, Epoch
from raybench.trial.job import Target

Rule = Callable[[Attempt], float | None]

MLPERF_LEFT_OUT = 1200.0
"""Seconds of preparation and compilation that MLPerf's training rules leave out at most: twenty minutes."""


def epoch_seconds(epoch: Epoch) -> float:
    """What an epoch of training takes: compile + train + input_wait."""
    return _sum(epoch.ledger.get(name, 0.0) for name in ("compile", "train", "input_wait"))


def steady_seconds(epoch: Epoch) -> float:
    """The same without compilation: train + input_wait."""
    return _sum(epoch.ledger.get(name, 0.0) for name in ("train", "input_wait"))


def steady_epochs(attempt: Attempt) -> list[Epoch]:
    """The epochs after the warm-up or, where none comes after it, the last one."""
    return [epoch for epoch in attempt.epochs if epoch.epoch > attempt.warmup_epochs] or attempt.epochs[-1:]


def steady(attempt: Attempt) -> float | None:
    """The headline: the median of train + input_wait over the epochs after the warm-up, a time for one epoch.

    Where no epoch comes after the warm-up it is the last epoch's, and `steady_from_warmup` says so.
    """
    counted = list(map(steady_seconds, steady_epochs(attempt)))
    return _clean(median(counted)) if counted else None


def mean_steady(attempt: Attempt) -> float | None:
    """As `steady`, with the mean instead of the median."""
    counted = list(map(steady_seconds, steady_epochs(attempt)))
    return _clean(fmean(counted)) if counted else None


def steady_from_warmup(attempt: Attempt) -> bool:
    """Whether `steady` had to be taken from a warm-up epoch, for want of any other."""
    return bool(attempt.epochs) and attempt.epochs[-1].epoch <= attempt.warmup_epochs


def first(attempt: Attempt) -> float | None:
    """The first, cold epoch: its compile + train + input_wait."""
    opening = attempt.epochs[:1]
    return epoch_seconds(opening[0]) if opening and opening[0].epoch == 1 else None


def epochs(attempt: Attempt) -> float | None:
    """Training alone: compile + train + input_wait of every epoch."""
    return _sum(map(epoch_seconds, attempt.epochs)) if attempt.epochs else None


def total(attempt: Attempt) -> float | None:
    """Everything: loading the framework, and the process from its start to its end."""
    return None if attempt.wall is None else _sum((attempt.template_import or 0.0, attempt.wall))


def airbench(attempt: Attempt) -> float | None:
    """As airbench reports: train + input_wait of every epoch, and the last evaluation; no compilation, no loading."""
    if not attempt.epochs:
        return None
    return _sum((*map(steady_seconds, attempt.epochs), attempt.epochs[-1].ledger.get("evaluate", 0.0)))


def dawnbench(attempt: Attempt) -> float | None:
    """As DAWNBench counts: preparing the data, then train + input_wait of every epoch; no evaluation."""
    if not attempt.epochs or "data" not in attempt.ledger:
        return None
    return _sum((attempt.ledger["data"], *map(steady_seconds, attempt.epochs)))


def mlperf(attempt: Attempt) -> float | None:
    """As MLPerf counts: the wall time less setup, build and compile, of which at most 1,200 s are left out."""
    if attempt.wall is None:
        return None
    before = _sum(attempt.ledger.get(name, 0.0) for name in ("setup", "build", "compile"))
    return _clean(attempt.wall - min(before, MLPERF_LEFT_OUT))


RULES: dict[str, Rule] = {
    rule.__name__: rule for rule in (steady, mean_steady, first, epochs, total, airbench, dawnbench, mlperf)
}
"""Every rule by its name."""


def time_to_target(attempt: Attempt, target: Target) -> float | None:
    """Training time until the target: compile + train + input_wait up to the end of the first epoch that reaches it.

    Evaluation is left out, for how often one looks is no part of the training. None where it is never reached.
    """
    spent: list[float] = []
    for epoch in attempt.epochs:
        spent.append(epoch_seconds(epoch))
        if target.metric in epoch.metrics and target.reached(epoch.metrics):
            return _sum(spent)
    return None


def _sum(seconds: Iterable[float]) -> float:
    return _clean(sum(seconds))


def _clean(seconds: float) -> float:
    return round(seconds, 9)
