"""How often and how soon cells reach the target of a grid, as facts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from raybench.analysis.comparison import ACCURACY
from raybench.analysis.fact import Fact
from raybench.analysis.pairs import CellSummary, Comparison, SettingDifference
from raybench.analysis.statistics.accuracy import check_mean_accuracy
from raybench.analysis.statistics.time_to_target import MARGIN, NEVER, TargetRatio, compare_targets, expected
from raybench.analysis.verdict import Outcome, outcome
from raybench.core.job import Target

SAME = 0.005
"""The part by which two numbers of epochs may differ that people write as one."""


@dataclass(frozen=True)
class TargetFact(Fact):
    """How often and how soon a cell reaches the target.

    Attributes:
        successes, tries: runs that reached it, and runs that show whether they do.
        censored: runs that a time limit stopped.
        share_low, share_high: the 95 % interval of the share of successes.
        mean_seconds: of training until successful runs reached it; None without one.
        seconds: expected time of a success, with restarts after misses; None without a success.
        low, high: the 95 % interval of `seconds`.
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
    """How many times as fast the other reaches the target.

    Attributes:
        low, high: the 95 % interval of the ratio; None if runs are too few.
        restarts: whether times are those expected with restarts after misses.
        same_epochs: whether both are shown to take as many epochs.
        epochs_ratio: the other's epochs to the target in units of the baseline's; None if not known.
        differences: settings by which the sides learn differently.
        with_startup: the ratio with loading and start-up, if then the other side is the faster one.
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
    """Times to the target are not compared, because the sides are not shown to learn alike.

    Attributes:
        outcome: of the comparison of epochs: `EQUAL` (but too few to show it), `NOT_SIGNIFICANT`, or `HIGHER` and
            `LOWER` if they are shown to differ.
        epochs_ratio: the other's epochs to the target in units of the baseline's.
        margin: the part up to which numbers of epochs are alike.
    """

    margin: ClassVar[float] = MARGIN

    other: str
    baseline: str
    target: Target
    outcome: Outcome
    epochs_ratio: float


@dataclass(frozen=True)
class MeanAccuracyFact(Fact):
    """Whether the mean accuracy over runs is shown to reach the target.

    Attributes:
        mean, low, high: shares; the 95 % interval is None with one run.
        at_least: the target, a share.
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
    """What a comparison shows up to the target: each side, and a ratio if that is a fair question."""
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
    """How often and how soon a cell reaches the target; None if no run shows anything of it."""
    estimate = expected(side.target_attempts)
    if estimate is None:
        return None
    hits = [each.seconds for each in side.target_attempts if each.reached]
    # Without a run that was long enough nothing says what a success would take.
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
    """The ratio of times to the target with what each run pays before its training; None if that is not known."""
    times = []
    for side in (baseline, other):
        estimate = expected(side.target_attempts)
        if estimate is None or not estimate.seconds or not side.before:
            return None
        # Each run that misses pays for a start, too.
        times.append(estimate.seconds + side.before / estimate.share)
    return times[0] / times[1]


def mean_accuracy(pair: Comparison) -> MeanAccuracyFact | None:
    """Whether a cell's mean accuracy over runs is shown to reach the target.

    None if the target is on another metric, or runs stop at it: they are above it by their making.
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
