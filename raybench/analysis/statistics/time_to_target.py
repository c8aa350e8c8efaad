"""Time to a quality target if some runs miss it.

Misses count as observations. A run that reached the target has a time to it. A run stopped by its time limit before its
last epoch is *censored*: it might have reached the target in the remaining epochs. A run that completed all its epochs
*missed* the target; one that diverged or ran out of memory would *never* have reached it.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from statistics import NormalDist, fmean, geometric_mean

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
"""The ending of a run that missed its target, by status.

Other statuses (failed, lost, killed, skipped) give no information about the target, so such runs are not observations.
"""

MARGIN = 0.10
"""Equivalence margin of the numbers of epochs to the target: 10%.

This is one epoch of ten; a grid that evaluates once per epoch cannot resolve less.
"""


@dataclass(frozen=True)
class TargetAttempt:
    """One run towards a target.

    Attributes:
        seconds: to the target or, if it was not reached, of the whole run.
        ending: `REACHED`, `CENSORED`, `MISSED` or `NEVER`.
        epochs: epochs until the target or, if it was not reached, epochs given.
        host: the machine on which it ran.
        miss: for a run that reached the target, the time of all its given epochs, as for a miss; None if not known.
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
    """Return a run's attempt at the target, in seconds of training.

    None if its status gives no information about the target (`ENDINGS`).
    """
    seconds = timing.time_to_target(attempt, target)
    if seconds is not None:
        whole = with_missing_epochs(attempt, timing.epochs(attempt), timing.steady(attempt))
        return TargetAttempt(seconds, REACHED, timing.first_reaching(attempt, target), whole, attempt.host.get("name"))
    if attempt.status not in ENDINGS:
        return None
    return TargetAttempt(timing.epochs(attempt) or 0.0, ENDINGS[attempt.status], len(attempt.epochs))


def with_missing_epochs(attempt: Attempt, taken: float | None, epoch: float | None) -> float | None:
    """Return the seconds, or joules, of all epochs that a run was given.

    If it stopped early, the remaining epochs are extrapolated.

    Args:
        taken: of its epochs.
        epoch: of a steady one.
    """
    planned_epochs = attempt.cell.settings.epochs
    if taken is None or epoch is None or planned_epochs is MISSING:
        return taken
    return taken + max(0.0, planned_epochs - len(attempt.epochs)) * epoch


@dataclass(frozen=True)
class Expected:
    """The expected cost of reaching the target once, restarting after each miss.

    Attributes:
        share: the fraction of runs that reached it.
        share_low, share_high: Wilson's 95% interval.
        seconds: expected, with restarts; None if no run reached it.
        low, high: the 95% interval. If no run reached the target, `low` is a lower bound. None if there is only one
            success or only one run, which gives no variance.
        successes, tries: numbers of runs.
        censored: number of tries that were stopped by their time limit before their last epoch.
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
    """Return the success rate and the expected time with restarts.

    With success rate p, a success costs its own time plus (1 − p) ÷ p misses on average. The interval combines those of
    the three quantities (Wilson's, and Student's for both means) by their distances from the value, separately in each
    direction (MOVER). If nothing missed, a miss is assumed to cost all the epochs that a run is given or, if that is
    not known, as much as the longest success. A censored run counts in the success rate for as long as it ran
    (`kaplan_meier`); the interval of the rate covers both cases, that it would have reached the target and that it
    would not.

    Returns:
        None without a run.
    """
    if not tries:
        return None
    hits = [each.seconds for each in tries if each.reached]
    misses = [each.seconds for each in tries if each.ending in (MISSED, NEVER)]
    censored = len(tries) - len(hits) - len(misses)
    share = _shares(tries)[-1][1] if hits else 0.0
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


NORMAL = NormalDist().inv_cdf(0.975)
"""Half the width of a 95% interval in standard errors."""


@dataclass(frozen=True)
class SurvivalStep:
    """The fraction of runs that reached the target by a time.

    With its 95% interval.
    """

    seconds: float
    share: float
    low: float
    high: float


def kaplan_meier(tries: Sequence[TargetAttempt]) -> list[SurvivalStep]:
    """Return the Kaplan-Meier estimate of reaching the target, one step per success.

    A run that was stopped early counts for as long as it ran. A run that had all its epochs, or never would have
    reached the target, counts to the end: the curve is for the given number of epochs. Intervals are Greenwood's on the
    log(−log) scale, which stay inside 0 to 1.
    """
    hits = sum(each.reached for each in tries)
    steps: list[SurvivalStep] = []
    for moment, share_left, variance in _survival(tries):
        if share_left == 0:
            # Greenwood's formula is undefined here. The step before it, or Wilson's interval, gives the bound.
            share_low = steps[-1].low if steps else wilson(hits, hits)[0]
            steps.append(SurvivalStep(moment, 1.0, share_low, 1.0))
            break
        factor = math.exp(NORMAL * math.sqrt(variance) / -math.log(share_left))
        steps.append(SurvivalStep(moment, 1 - share_left, 1 - share_left ** (1 / factor), 1 - share_left**factor))
    return steps


def _survival(tries: Sequence[TargetAttempt]) -> Iterator[tuple[float, float, float]]:
    """Yield each time of a success, the fraction of runs without one until then, and Greenwood's relative variance.

    `scipy.stats` has the same estimate, but takes half a second to load.
    """
    hits = Counter(each.seconds for each in tries if each.reached)
    ends = sorted(each.seconds if each.ending in (REACHED, CENSORED) else math.inf for each in tries)
    share_left, variance = 1.0, 0.0
    for moment in sorted(hits):
        at_risk = len(ends) - bisect_left(ends, moment)
        left = at_risk - hits[moment]
        share_left *= left / at_risk
        variance += hits[moment] / (at_risk * left) if left else 0.0
        yield moment, share_left, variance


def _shares(tries: Sequence[TargetAttempt]) -> list[tuple[float, float]]:
    """The steps of `kaplan_meier` without intervals: seconds, and the fraction of runs that reached the target."""
    if any(each.ending == CENSORED for each in tries):
        return [(seconds, 1 - share_left) for seconds, share_left, _ in _survival(tries)]
    hits = Counter(each.seconds for each in tries if each.reached)
    counts = accumulate(hits[seconds] for seconds in sorted(hits))
    return [(seconds, count / len(tries)) for seconds, count in zip(sorted(hits), counts, strict=True)]


def median_time_to_target(tries: Sequence[TargetAttempt]) -> float | None:
    """Return the median time to the target in seconds.

    None if fewer than half of the runs are observed to reach it.
    """
    return next((seconds for seconds, share in _shares(tries) if share >= 0.5), None)


@dataclass(frozen=True)
class TargetRatio:
    """Ratios of the times and epochs to the target of two sides.

    Attributes:
        seconds: the speed-up to the target; None if no such ratio is fair.
        epochs: baseline's epochs to the target ÷ the other's; None if a side never reached it.
        alike: True if the epochs are shown to be equivalent, False if they are shown to differ, None if runs are too
            few.
        restarts: whether `seconds` is of expected times with restarts, because a side has misses.
    """

    seconds: Speedup | None
    epochs: Speedup | None
    alike: bool | None
    restarts: bool = False


def epochs_equivalent(baseline: Sequence[float], other: Sequence[float], margin: float = MARGIN) -> bool | None:
    """Test the equivalence of two sides' numbers of epochs to the target.

    Two one-sided tests at 5%: the 90% interval of the ratio lies inside 1 ÷ (1 + margin) to 1 + margin. The absence of
    a significant difference does not show equivalence; a 95% interval that excludes 1 shows a difference.

    Returns:
        True if equivalent, False if different, None if runs are too few to decide.
    """
    difference = _compare_epochs(baseline, other)
    if difference is None or difference.low is None or difference.high is None:
        return None
    if difference.is_within(math.log1p(margin)):
        return True
    return None if difference.low <= 0 <= difference.high else False


def _compare_epochs(baseline: Sequence[float], other: Sequence[float]) -> intervals.Difference | None:
    """Return the logarithm of the ratio of epochs.

    The variance is at least that of rounding to whole epochs: a rounded number has a variance of 1/12, and its
    logarithm one of 1/12 divided by its square.
    """
    if not baseline or not other or min(*baseline, *other) <= 0:
        return None
    floors = 1 / (12 * fmean(baseline) ** 2), 1 / (12 * fmean(other) ** 2)
    return intervals.welch([math.log(each) for each in baseline], [math.log(each) for each in other], floors)


def compare_targets(
    baseline: Sequence[TargetAttempt], other: Sequence[TargetAttempt], learn_differently: bool = False
) -> TargetRatio:
    """Compare times to the target of two sides, if this is fair.

    It is fair if both take equally many epochs, so that the ratio is due to the hardware; or if the caller states that
    a setting makes them learn differently (precision, replicas), so that the ratio is of hardware and that setting
    together.

    Args:
        baseline, other: the runs of each; with epochs.
        learn_differently: whether a setting that affects learning differs between the sides, such as the precision.
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
    """Return the seconds of each run or, with several hosts, host means.

    These are geometric means.
    """
    by_host: dict[str | None, list[float]] = {}
    for each in tries:
        by_host.setdefault(each.host, []).append(each.seconds)
    if len(by_host) < 2:
        return [each.seconds for each in tries]
    return [geometric_mean(host_seconds) for host_seconds in by_host.values()]


def _with_restarts(baseline: Sequence[TargetAttempt], other: Sequence[TargetAttempt]) -> Speedup | None:
    """Return the ratio of expected times; its interval is MOVER on logarithms."""
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
    """Return the number of misses per success."""
    return (1 - share) / share


def _ends(seconds: Sequence[float]) -> tuple[float, float] | None:
    """Return the interval of a mean time, clipped at 0.

    None without an interval.
    """
    estimate = intervals.mean(seconds)
    return (
        None
        if estimate is None or estimate.low is None or estimate.high is None
        else (max(0.0, estimate.low), estimate.high)
    )
