"""Success rates and times to target of a grid's cells, as facts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from raybench.analysis.comparison import ACCURACY
from raybench.analysis.fact import Fact
from raybench.analysis.pairs import CellSummary, Comparison, SettingDifference
from raybench.analysis.statistics.accuracy import check_mean_accuracy
from raybench.analysis.statistics.time_to_target import MARGIN, NEVER, TargetRatio, compare_targets
from raybench.analysis.verdict import Outcome, outcome
from raybench.core.job import Target

SAME = 0.005
"""Largest relative difference of two numbers of epochs that are written alike."""


@dataclass(frozen=True)
class TargetFact(Fact):
    """Success rate and time to the target of a cell.

    Attributes:
        successes, tries: runs that reached it, and runs that are informative about it.
        censored: runs stopped by a time limit.
        share_low, share_high: the 95% interval of the success rate.
        mean_seconds: mean training time of successful runs until the target; None without one.
        seconds: expected time of a success, with restarts after misses; None without a success.
        low, high: the 95% interval of `seconds`.
    """

    name: str
    target: Target
    successes: int
    tries: int
    censored: int
    share_low: float
    share_high: float
    mean_seconds: float | None
    seconds: float | None
    low: float | None
    high: float | None


@dataclass(frozen=True)
class TargetRatioFact(Fact):
    """The speed-up in time to the target.

    Attributes:
        low, high: the 95% interval of the ratio; None with too few runs.
        restarts: whether times are those expected with restarts after misses.
        same_epochs: whether equivalence of the numbers of epochs was shown.
        epochs_ratio: the other's epochs to the target divided by the baseline's; None if not known.
        differences: settings that make the sides learn differently.
        with_startup: the ratio with loading and start-up, if this makes the other side the faster one.
    """

    other: str
    baseline: str
    target: Target
    ratio: float
    low: float | None
    high: float | None
    outcome: Outcome
    restarts: bool
    same_epochs: bool
    epochs_ratio: float | None
    differences: tuple[SettingDifference, ...]
    with_startup: float | None


@dataclass(frozen=True)
class NoTargetRatioFact(Fact):
    """Times to the target are not compared: learning equivalence was not shown.

    Attributes:
        outcome: of the comparison of epochs: `EQUAL` (but too few epochs to show it), `NOT_SIGNIFICANT`, or `HIGHER`
            and `LOWER` if a difference was shown.
        epochs_ratio: the other's epochs to the target divided by the baseline's.
        margin: the relative equivalence margin of the numbers of epochs.
    """

    margin: ClassVar[float] = MARGIN

    other: str
    baseline: str
    target: Target
    outcome: Outcome
    epochs_ratio: float


@dataclass(frozen=True)
class MeanAccuracyFact(Fact):
    """The comparison of a cell's mean accuracy with the target.

    Attributes:
        mean, low, high: fractions; the 95% interval is None with one run.
        at_least: the target, a fraction.
        outcome: `HIGHER` if the mean is shown to reach it, `LOWER` if it is shown to be below.
    """

    name: str
    runs: int
    mean: float
    low: float | None
    high: float | None
    at_least: float
    outcome: Outcome


def to_target(pair: Comparison) -> list[Fact]:
    """Return the target facts of both sides and, if fair, a ratio."""
    if pair.target is None:
        return []
    if pair.baseline is None:
        return [fact for fact in [reaching(pair.other, pair.target)] if fact]
    targets = compare_targets(pair.baseline.target_attempts, pair.other.target_attempts, _learn_differently(pair))
    facts: list[Fact | None] = [reaching(side, pair.target) for side in (pair.other, pair.baseline)]
    if targets.seconds is not None:
        facts.append(_ratio(pair, pair.baseline, pair.target, targets))
    elif targets.epochs is not None:
        facts.append(_no_ratio(pair, pair.baseline, pair.target, targets))
    return [fact for fact in facts if fact]


def _learn_differently(pair: Comparison) -> bool:
    return not pair.learns_alike or bool(pair.learning_differences)


def reaching(side: CellSummary, target: Target) -> TargetFact | None:
    """Return a cell's success rate and time to the target.

    None without informative runs.
    """
    estimate = side.to_target
    if estimate is None:
        return None
    hits = [each.seconds for each in side.target_attempts if each.reached]
    # Without a run that was long enough, the time of a success cannot be estimated.
    open_end = all(each.ending == NEVER for each in side.target_attempts)
    return TargetFact(
        name=side.name,
        target=target,
        successes=estimate.successes,
        tries=estimate.tries,
        censored=estimate.censored,
        share_low=estimate.share_low,
        share_high=estimate.share_high,
        mean_seconds=sum(hits) / len(hits) if hits else None,
        seconds=estimate.seconds,
        low=None if open_end else estimate.low,
        high=estimate.high,
    )


def _ratio(pair: Comparison, baseline: CellSummary, target: Target, targets: TargetRatio) -> TargetRatioFact | None:
    speedup = targets.seconds
    if speedup is None:
        return None
    startup_ratio = _with_startup(pair.other, baseline)
    return TargetRatioFact(
        other=pair.other.name,
        baseline=baseline.name,
        target=target,
        ratio=speedup.ratio,
        low=speedup.low,
        high=speedup.high,
        outcome=outcome(speedup.differs, speedup.ratio > 1, is_equal=False),
        restarts=targets.restarts,
        same_epochs=bool(targets.alike),
        epochs_ratio=1 / targets.epochs.ratio if targets.epochs else None,
        differences=pair.learning_differences,
        with_startup=startup_ratio if startup_ratio and (startup_ratio - 1) * (speedup.ratio - 1) < 0 else None,
    )


def _no_ratio(
    pair: Comparison, baseline: CellSummary, target: Target, targets: TargetRatio
) -> NoTargetRatioFact | None:
    if targets.epochs is None:
        return None
    ratio = 1 / targets.epochs.ratio
    differs = targets.alike is False
    result = outcome(differs, ratio > 1, abs(ratio - 1) < SAME)
    return NoTargetRatioFact(pair.other.name, baseline.name, target, result, ratio)


def _with_startup(other: CellSummary, baseline: CellSummary) -> float | None:
    """Return the ratio of times to the target including start-up.

    None if not known.
    """
    times = []
    for side in (baseline, other):
        estimate = side.to_target
        if estimate is None or not estimate.seconds or not side.before:
            return None
        # Each run that misses the target also pays for a start.
        times.append(estimate.seconds + side.before / estimate.share)
    return times[0] / times[1]


def mean_accuracy(pair: Comparison) -> MeanAccuracyFact | None:
    """Test whether a cell's mean accuracy over runs reaches the target.

    None if the target is on another metric, or if runs stop at the target: their accuracy is above it by construction.
    """
    side, target = pair.other, pair.target
    if target is None or target.metric != ACCURACY or target.at_least is None or side.stops:
        return None
    proof = check_mean_accuracy(side.accuracies, target.at_least, pair.examples)
    if proof is None:
        return None
    low, high = proof.low, proof.high
    below = high is not None and high < target.at_least
    result = outcome(None if low is None else proof.shown or below, proof.shown, is_equal=False)
    return MeanAccuracyFact(side.name, len(side.accuracies), proof.mean, low, high, target.at_least, result)
