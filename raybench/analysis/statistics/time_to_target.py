"""Time to a quality target where not every run reaches it: misses are observations, not gaps.

A run that reached the target has a time to it. One whose time was up before its epochs were over is *censored*: it
might have got there in those that it was not given. One that had them all *missed* it; one that diverged or ran out of
memory would *never* have reached it.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean, geometric_mean

from raybench.analysis.statistics import intervals
from raybench.analysis.statistics.accuracy import wilson
from raybench.analysis.statistics.speedup import Speedup, as_speedup, speedup
from raybench.core.job import Target
from raybench.core.settings import MISSING
from raybench.core.status import TrialStatus
from raybench.results import timing
from raybench.results.attempt import Attempt

REACHED, CENSORED, MISSED, NEVER = "reached", "censored", "missed", "never"

ENDINGS: Mapping[str | None, str] = {
    TrialStatus.COMPLETED: MISSED,
    TrialStatus.TIMEOUT: CENSORED,
    TrialStatus.OOM: NEVER,
    TrialStatus.DIVERGED: NEVER,
}
"""What a run that did not reach its target shows, by its status. Others (failed, lost, killed, skipped) show nothing of
the target and are no observations."""

MARGIN = 0.10
"""Epochs to the target are alike where they are shown to differ by less than 10 %: one epoch of ten, less than which a
grid that looks once an epoch does not see."""


@dataclass(frozen=True)
class TargetAttempt:
    """One run towards a target.

    Attributes:
        seconds: to the target or, without it, all that the run took.
        ending: `REACHED`, `CENSORED`, `MISSED` or `NEVER`.
        epochs: as many as it took to the target, or was given.
        host: the machine on which it ran.
        miss: of one that reached it, what it would have taken without: all the epochs that it was given; None where
            that is not known.
    """

    seconds: float
    ending: str = REACHED
    epochs: float | None = None
    miss: float | None = None
    host: str | None = None

    @property
    def reached(self) -> bool:
        """Whether it reached the target."""
        return self.ending == REACHED


def target_attempt_of(attempt: Attempt, target: Target) -> TargetAttempt | None:
    """A run towards its target, in seconds of training.

    None if its status says nothing about the target (`ENDINGS`).
    """
    seconds = timing.time_to_target(attempt, target)
    if seconds is not None:
        epochs = next(
            epoch.epoch for epoch in attempt.epochs if target.metric in epoch.metrics and target.reached(epoch.metrics)
        )
        return TargetAttempt(seconds, REACHED, epochs, _whole(attempt), attempt.host.get("name"))
    if attempt.status not in ENDINGS:
        return None
    return TargetAttempt(timing.epochs(attempt) or 0.0, ENDINGS[attempt.status], len(attempt.epochs))


def _whole(attempt: Attempt) -> float | None:
    """Seconds of all the epochs that a run was given: those that it had and, where it stopped early, the rest."""
    taken_s, epoch_s = timing.epochs(attempt), timing.steady(attempt)
    planned_epochs = attempt.cell.settings.epochs
    if taken_s is None or epoch_s is None or planned_epochs is MISSING:
        return taken_s
    return taken_s + max(0.0, planned_epochs - len(attempt.epochs)) * epoch_s


@dataclass(frozen=True)
class Expected:
    """What it takes to reach the target once, if a run that misses it is followed by another.

    Attributes:
        share: of the runs that reached it.
        share_low, share_high: Wilson's 95 % interval.
        seconds: expected, with restarts; None where no run reached it.
        low, high: the 95 % interval. Where no run reached it, `low` is what it takes at least. None where one success
            only, or one run only, shows no spread.
        successes, tries: how many.
        censored: how many of the tries had used up their time limit before their epochs were over.
    """

    share: float
    share_low: float
    share_high: float
    seconds: float | None
    low: float | None
    high: float | None
    successes: int
    tries: int
    censored: int = 0


def expected(tries: Sequence[TargetAttempt]) -> Expected | None:
    """The share of runs that reach the target, and the expected time with restarts.

    With p the share, a success costs its own time and, before it, (1 − p) ÷ p misses on average. The interval joins
    those of the three (Wilson's, and Student's on either mean) by their distances from the value, each kept apart to
    either side (MOVER). If nothing missed, a miss would cost all the epochs that a run is given or, if that is not
    known, what the longest success did. A censored run counts in the share as long as it ran (`curve`); the interval of
    the share holds whether it would have reached the target or not.

    Returns:
        None without a run.
    """
    if not tries:
        return None
    hits = [each.seconds for each in tries if each.reached]
    misses = [each.seconds for each in tries if each.ending in (MISSED, NEVER)]
    censored = len(tries) - len(hits) - len(misses)
    share = kaplan_meier(tries)[-1].share if hits else 0.0
    low, high = wilson(len(hits), len(tries))[0], wilson(len(hits) + censored, len(tries))[1]
    miss = fmean(misses) if misses else max(max(each.miss or 0.0, each.seconds) for each in tries)
    miss_low, miss_high = _ends(misses) or (miss, miss)
    if not hits:
        return Expected(share, low, high, None, miss_low * _odds(high), None, 0, len(tries), censored)
    odds = _odds(share)
    seconds = fmean(hits) + odds * miss
    hit_ends = _ends(hits)
    if hit_ends is None:
        return Expected(share, low, high, seconds, None, None, 1, len(tries), censored)
    below = math.hypot(fmean(hits) - hit_ends[0], (odds - _odds(high)) * miss, odds * (miss - miss_low))
    above = math.hypot(hit_ends[1] - fmean(hits), (_odds(low) - odds) * miss, odds * (miss_high - miss))
    ends = max(0.0, seconds - below), seconds + above
    return Expected(share, low, high, seconds, *ends, len(hits), len(tries), censored)


@dataclass(frozen=True)
class SurvivalStep:
    """The share of runs that have reached the target after some seconds, with its 95 % interval."""

    seconds: float
    share: float
    low: float
    high: float


def kaplan_meier(tries: Sequence[TargetAttempt]) -> list[SurvivalStep]:
    """How large a part of runs has reached the target by when: Kaplan and Meier's estimate, a step at each success.

    A run that was stopped early counts as long as it ran. One that had all its epochs, or never would have reached it,
    counts to the end: the curve is of as many epochs as were given. Intervals are Greenwood's on the scale log(−log),
    which stay inside 0 to 1.
    """
    hits = [each.seconds for each in tries if each.reached]
    if not hits:
        return []
    from scipy.stats import CensoredData, ecdf

    end = max(each.seconds for each in tries) + 1
    misses = [each.seconds if each.ending == CENSORED else end for each in tries if not each.reached]
    survival = ecdf(CensoredData(uncensored=hits, right=misses)).sf
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # of the last step, if no run is left at risk
        interval = survival.confidence_interval(method="log-log")
    steps: list[SurvivalStep] = []
    for moment in sorted(set(hits)):
        share_left, low, high = (float(each.evaluate(moment)) for each in (survival, interval.low, interval.high))
        if share_left == 0:
            # Greenwood's formula ends here. The step before it, or Wilson, says what is sure.
            share_low = steps[-1].low if steps else wilson(len(hits), len(hits))[0]
            steps.append(SurvivalStep(moment, 1.0, share_low, 1.0))
            break
        steps.append(SurvivalStep(moment, 1 - share_left, 1 - high, 1 - low))
    return steps


def median_time_to_target(tries: Sequence[TargetAttempt]) -> float | None:
    """When half of the runs have reached the target, in seconds; None where fewer than half are seen to."""
    return next((step.seconds for step in kaplan_meier(tries) if step.share >= 0.5), None)


@dataclass(frozen=True)
class TargetRatio:
    """Times to target of two sides.

    Attributes:
        seconds: how many times as fast the other is to the target; None where no such ratio is fair.
        epochs: baseline's epochs to the target ÷ the other's; None where a side never reached it.
        alike: True where the epochs are shown to be alike, False where they are shown to differ, None where runs are
            too few to tell.
        restarts: whether `seconds` is of expected times with restarts, for a side has misses.
    """

    seconds: Speedup | None
    epochs: Speedup | None
    alike: bool | None
    restarts: bool = False


def epochs_equivalent(baseline: Sequence[float], other: Sequence[float], margin: float = MARGIN) -> bool | None:
    """Whether two sides are shown to take as many epochs to the target, up to a margin.

    Two one-sided tests at 5 %: the 90 % interval of the ratio lies inside 1 ÷ (1 + margin) to 1 + margin. That no
    difference is seen shows nothing; that one is seen beyond the 95 % interval shows that they differ.

    Returns:
        True, False, or None where runs are too few to tell.
    """
    difference = _compare_epochs(baseline, other)
    if difference is None or difference.low is None or difference.high is None:
        return None
    if difference.is_within(math.log1p(margin)):
        return True
    return None if difference.low <= 0 <= difference.high else False


def _compare_epochs(baseline: Sequence[float], other: Sequence[float]) -> intervals.Difference | None:
    """The logarithm of the ratio of epochs; no spread below that of rounding to whole epochs is believed.

    A number rounded to whole ones has a variance of 1/12, and its logarithm one of 1/12 divided by its square.
    """
    if not baseline or not other or min(*baseline, *other) <= 0:
        return None
    floors = 1 / (12 * fmean(baseline) ** 2), 1 / (12 * fmean(other) ** 2)
    return intervals.welch([math.log(each) for each in baseline], [math.log(each) for each in other], floors)


def compare_targets(
    baseline: Sequence[TargetAttempt], other: Sequence[TargetAttempt], learn_differently: bool = False
) -> TargetRatio:
    """How many times as fast the other is to the target, where that is a fair question.

    It is where both take as many epochs, so that the ratio is the hardware's; or where the caller names what makes
    them learn differently (precision, replicas), so that the ratio is of hardware and that setting together.

    Args:
        baseline, other: the runs of each; with epochs.
        learn_differently: whether a setting that bears on learning differs between the sides, such as the precision.
    """
    sides = [[each for each in side if each.reached] for side in (baseline, other)]
    epoch_counts = [[each.epochs for each in side if each.epochs is not None] for side in sides]
    epochs = as_speedup(_compare_epochs(epoch_counts[0], epoch_counts[1]))
    same_epochs = epochs_equivalent(epoch_counts[0], epoch_counts[1])
    fair = same_epochs is True or learn_differently
    has_misses = any(len(hits) < len(side) for hits, side in zip(sides, (baseline, other), strict=True))
    seconds = None
    if fair and all(sides):
        times = [_times(side) for side in sides]
        seconds = _with_restarts(baseline, other) if has_misses else speedup(times[0], times[1])
    return TargetRatio(seconds, epochs, same_epochs, restarts=has_misses and seconds is not None)


def _times(tries: Sequence[TargetAttempt]) -> list[float]:
    """The seconds of each or, if they ran on several hosts, the geometric mean of those on each."""
    by_host: dict[str | None, list[float]] = {}
    for each in tries:
        by_host.setdefault(each.host, []).append(each.seconds)
    if len(by_host) < 2:
        return [each.seconds for each in tries]
    return [geometric_mean(host_seconds) for host_seconds in by_host.values()]


def _with_restarts(baseline: Sequence[TargetAttempt], other: Sequence[TargetAttempt]) -> Speedup | None:
    """The ratio of expected times; its interval joins theirs on the logarithms (MOVER)."""
    first, second = expected(baseline), expected(other)
    if first is None or second is None or not first.seconds or not second.seconds:
        return None
    ratio = math.log(first.seconds / second.seconds)
    if not first.low or not second.low or first.high is None or second.high is None:
        return Speedup(math.exp(ratio))
    below = math.hypot(math.log(first.seconds / first.low), math.log(second.high / second.seconds))
    above = math.hypot(math.log(first.high / first.seconds), math.log(second.seconds / second.low))
    return Speedup(math.exp(ratio), math.exp(ratio - below), math.exp(ratio + above))


def _odds(share: float) -> float:
    """Misses before each success."""
    return (1 - share) / share


def _ends(seconds: Sequence[float]) -> tuple[float, float] | None:
    """The interval of a mean time, which is not below 0; None where it has none."""
    estimate = intervals.mean(seconds)
    return (
        None
        if estimate is None or estimate.low is None or estimate.high is None
        else (max(0.0, estimate.low), estimate.high)
    )
