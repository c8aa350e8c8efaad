"""Results of the comparison of a cell with its baseline, as facts."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import ClassVar

from raybench.analysis.bottleneck import INPUT, OVERHEAD
from raybench.analysis.diagnostics.finding import kinds
from raybench.analysis.fact import Fact
from raybench.analysis.pairs import CellSummary, Comparison, SettingDifference
from raybench.analysis.run_counts import RunCounts
from raybench.analysis.statistics import intervals
from raybench.analysis.statistics.accuracy import MARGIN, POINTS, compare_accuracy
from raybench.analysis.statistics.break_even import Estimate, break_even_price, cost_ratio
from raybench.analysis.statistics.speedup import ALIKE, AS_FAST, Speedup

OVERHEAD_BOUND = "overhead_bound"

_OF_BOUNDS = {INPUT: "input_bound", OVERHEAD: OVERHEAD_BOUND}


class Outcome(StrEnum):
    """The outcome of a comparison."""

    HIGHER = "higher"
    LOWER = "lower"
    EQUAL = "equal"
    """Shown to be within the equivalence margin."""
    NOT_SIGNIFICANT = "not significant"
    UNKNOWN = "unknown"
    """A side has one run, so there is no interval."""


def outcome(differs: bool | None, is_higher: bool, is_equal: bool) -> Outcome:
    """Return the outcome of a comparison.

    Args:
        differs: whether the interval excludes equality; None without an interval.
        is_higher: whether the estimate is above equality.
        is_equal: whether equivalence within the margin was shown.
    """
    if differs is None:
        return Outcome.UNKNOWN
    if differs:
        return Outcome.HIGHER if is_higher else Outcome.LOWER
    return Outcome.EQUAL if is_equal else Outcome.NOT_SIGNIFICANT


@dataclass(frozen=True)
class Samples:
    """The number of independent samples on each side of a comparison.

    Attributes:
        other_unit, baseline_unit: "run", or "machine" for a side that ran on several.
    """

    other: int
    baseline: int
    other_unit: str = "run"
    baseline_unit: str = "run"


@dataclass(frozen=True)
class SpeedupFact(Fact):
    """The speed-up of the other over the baseline.

    Attributes:
        setting: the values that both sides share.
        low, high: the 95% interval of the ratio; None with one run.
        per_example: whether it is the ratio of examples per second, because epochs differ in size.
        from_warmup: whether times of warm-up epochs are included.
        paired: whether runs were compared repeat by repeat.
        margin: the equivalence margin of the ratio.
    """

    margin: ClassVar[float] = ALIKE - 1

    other: str
    baseline: str
    setting: str
    ratio: float
    low: float | None
    high: float | None
    outcome: Outcome
    per_example: bool
    from_warmup: bool
    samples: Samples
    paired: bool


@dataclass(frozen=True)
class AaTestFact(Fact):
    """The comparison of a cell with itself.

    Attributes:
        outcome: `EQUAL` if the interval contains 1.
    """

    name: str
    setting: str
    ratio: float
    low: float | None
    high: float | None
    outcome: Outcome
    samples: Samples


@dataclass(frozen=True)
class HardwareCautionFact(Fact):
    """The ratio may not be due to the hardware alone."""


@dataclass(frozen=True)
class ConfounderFact(Fact):
    """A reason why a side's time is not due to its hardware.

    Attributes:
        code: of the kind of finding, or `OVERHEAD_BOUND`.
        sides: names of the sides that are affected.
        did, measures: texts: the behaviour of the sides, and the quantity that their times measure instead.
    """

    code: str
    sides: tuple[str, ...]
    did: str
    measures: str


@dataclass(frozen=True)
class OneMachineEachFact(Fact):
    """Each side ran on one machine, so machine-to-machine variation is not known."""


@dataclass(frozen=True)
class DifferencesFact(Fact):
    """Settings in which the sides differ, other than the compared ones."""

    differences: tuple[SettingDifference, ...]


@dataclass(frozen=True)
class EpochSizeFact(Fact):
    """The sides have different numbers of examples in an epoch."""

    other: str
    baseline: str
    other_examples: int
    baseline_examples: int


@dataclass(frozen=True)
class BreakEvenFact(Fact):
    """The job length from which the long-run winner is faster, including start-up.

    Attributes:
        turns_at: optimizer steps from which on it wins; None if it wins at every length.
        sure_from: steps from which on the interval shows it; None if it never does.
        sure_before: steps up to which the interval shows the other side to be faster; None if it never does.
    """

    winner: str
    loser: str
    turns_at: int | None
    sure_from: int | None
    sure_before: int | None


@dataclass(frozen=True)
class AccuracyFact(Fact):
    """The difference in accuracy, in percent and points.

    Attributes:
        other_percent, baseline_percent: mean accuracies.
        points: the other's minus the baseline's.
        low, high: the 95% interval of `points`; None with one run.
        epochs: number of epochs; None if runs differ in it.
        setting: the values that both sides share.
        margin: the equivalence margin in points.
        synthetic_data: whether the data are generated in place of a real data set.
    """

    margin: ClassVar[float] = MARGIN

    other: str
    baseline: str
    other_percent: float
    baseline_percent: float
    points: float
    low: float | None
    high: float | None
    outcome: Outcome
    epochs: float | None
    setting: str
    samples: Samples
    synthetic_data: bool = False


@dataclass(frozen=True)
class FreeBaselineFact(Fact):
    """The baseline is free and the other is not."""

    baseline: str


@dataclass(frozen=True)
class FreeOtherFact(Fact):
    """The other is free.

    At `price` per hour it would cost as much as the baseline.
    """

    other: str
    baseline: str
    per_example: bool
    price: Estimate


@dataclass(frozen=True)
class BreakEvenPriceFact(Fact):
    """The break-even price per hour of the other, whose price is unknown."""

    other: str
    baseline: str
    per_example: bool
    price: Estimate
    baseline_price: float


@dataclass(frozen=True)
class CostFact(Fact):
    """The ratio of the other's cost to the baseline's.

    It is for the same work.

    Attributes:
        per_example: whether it is the cost of equally many examples, because epochs differ in size.
        low, high: the 95% interval of the ratio; None with one run.
        other_price, baseline_price: per hour.
        break_even: the other's price per hour at which both cost the same; None if both are one device.
        margin: the equivalence margin of the ratio.
    """

    margin: ClassVar[float] = ALIKE - 1

    other: str
    baseline: str
    per_example: bool
    ratio: float
    low: float | None
    high: float | None
    outcome: Outcome
    other_price: float
    baseline_price: float
    break_even: Estimate | None


@dataclass(frozen=True)
class EpochTimeFact(Fact):
    """The epoch time of a cell without a baseline."""

    name: str
    setting: str
    seconds: float
    low: float | None
    high: float | None
    from_warmup: bool
    runs: int


@dataclass(frozen=True)
class RunsFact(Fact):
    """Some runs of a cell did not complete.

    Attributes:
        timed: number of its runs that have a time.
    """

    name: str
    counts: RunCounts
    timed: int


def verdict(pair: Comparison) -> list[Fact]:
    """Return all facts of a comparison, the most important first."""
    facts: list[Fact | None]
    if pair.speedup is None or pair.baseline is None:
        facts = [epoch_time(pair)]
    elif pair.is_aa_test:
        facts = [aa_test(pair, pair.baseline, pair.speedup)]
    else:
        baseline, speedup = pair.baseline, pair.speedup
        facts = [
            speed(pair, baseline, speedup),
            *(confounders(baseline, pair.other) if pair.hardware else ()),
            one_machine_each(pair, baseline),
            DifferencesFact(pair.differences) if pair.differences else None,
            epoch_sizes(pair, baseline),
            break_even(pair, baseline),
            accuracy(pair, baseline),
            cost(pair, baseline, speedup),
        ]
    facts += [runs(side) for side in (pair.other, pair.baseline) if side]
    return [fact for fact in facts if fact]


def speed(pair: Comparison, baseline: CellSummary, speedup: Speedup) -> SpeedupFact:
    """Return the speed-up of the other over the baseline."""
    return SpeedupFact(
        other=pair.other.name,
        baseline=baseline.name,
        setting=pair.setting,
        ratio=speedup.ratio,
        low=speedup.low,
        high=speedup.high,
        outcome=outcome(speedup.differs, speedup.ratio > 1, speedup.verdict() == AS_FAST),
        per_example=not pair.even,
        from_warmup=baseline.from_warmup or pair.other.from_warmup,
        samples=_samples(pair.other, baseline),
        paired=speedup.paired,
    )


def aa_test(pair: Comparison, baseline: CellSummary, speedup: Speedup) -> AaTestFact:
    """Return the result of an A/A test."""
    result = outcome(speedup.differs, speedup.ratio > 1, is_equal=True)
    samples = _samples(pair.other, baseline)
    return AaTestFact(baseline.name, pair.setting, speedup.ratio, speedup.low, speedup.high, result, samples)


def reasons() -> dict[str, tuple[str, str]]:
    """Return the confounders of hardware comparisons by code, as texts.

    Each has two texts: the behaviour of the affected side, and the quantity that its time measures instead. They are
    the kinds of findings that can distort a ratio, and the roofline class in which time is spent on launching
    operations.
    """
    overhead = ("had little to compute per operation", "how fast operations are launched, not the device")
    cautions = {code: (kind.did, kind.measures) for code, kind in kinds().items() if kind.distorts}
    return {OVERHEAD_BOUND: overhead, **cautions}


def confounders(baseline: CellSummary, other: CellSummary) -> list[Fact]:
    """Return reasons why a ratio may not be due to the hardware.

    A general caution precedes one fact per reason; empty without reasons. A ratio is not attributed to the hardware if
    a side is bound by its input or by launching operations, or has a finding that could reverse the verdict. If no
    diagnosis was made, no reason is known.
    """
    all_reasons = reasons()
    side_reasons = [(side.name, _reasons_of(side)) for side in (other, baseline)]
    codes = dict.fromkeys(code for _, own_codes in side_reasons for code in all_reasons if code in own_codes)
    facts = [
        ConfounderFact(code, tuple(name for name, own_codes in side_reasons if code in own_codes), *all_reasons[code])
        for code in codes
    ]
    return [HardwareCautionFact(), *facts] if facts else []


def _reasons_of(side: CellSummary) -> set[str]:
    """Return reason codes for a time that is not due to hardware."""
    return {*side.cautions, *(_OF_BOUNDS.get(bound, "") for bound in side.bottleneck[:1])}


def one_machine_each(pair: Comparison, baseline: CellSummary) -> OneMachineEachFact | None:
    """Return a fact if each side ran on a single, different machine.

    None otherwise.
    """
    hosts = baseline.hosts, pair.other.hosts
    apart = pair.hardware and len(hosts[0]) == len(hosts[1]) == 1 and hosts[0] != hosts[1]
    return OneMachineEachFact() if apart else None


def epoch_sizes(pair: Comparison, baseline: CellSummary) -> EpochSizeFact | None:
    """Return the numbers of examples per epoch if they differ, else None."""
    if pair.even or not baseline.examples or not pair.other.examples:
        return None
    return EpochSizeFact(pair.other.name, baseline.name, pair.other.examples, baseline.examples)


def break_even(pair: Comparison, baseline: CellSummary) -> BreakEvenFact | None:
    """Return the job length at which the faster side changes.

    None if it cannot be determined: with one run there is no interval, the long run shows no difference or is known
    from warm-up epochs alone, or an optimizer step is different work on the two sides.
    """
    other = pair.other
    if baseline.from_warmup or other.from_warmup:
        return None
    crossing = pair.break_even
    if crossing is None or not crossing.long_run.differs:
        return None
    winner, loser = (other, baseline) if crossing.long_run.ratio > 1 else (baseline, other)
    return BreakEvenFact(winner.name, loser.name, crossing.turns_at, crossing.sure_from, crossing.sure_before)


def accuracy(pair: Comparison, baseline: CellSummary) -> AccuracyFact | None:
    """Compare the accuracies of both sides.

    None if a side has no accuracy or stops at its target, or if the requested numbers of epochs differ.
    """
    other = pair.other
    if any(each.setting == "epochs" for each in pair.differences) or baseline.stops or other.stops:
        return None
    gap = compare_accuracy(other.accuracies, baseline.accuracies, pair.examples)
    if gap is None:
        return None
    epochs = baseline.epochs | other.epochs
    levels = [POINTS * sum(side.accuracies) / len(side.accuracies) for side in (other, baseline)]
    return AccuracyFact(
        other=other.name,
        baseline=baseline.name,
        other_percent=levels[0],
        baseline_percent=levels[1],
        points=gap.points,
        low=gap.low,
        high=gap.high,
        outcome=outcome(gap.differs, gap.points > 0, gap.alike),
        epochs=next(iter(epochs)) if len(epochs) == 1 else None,
        setting=pair.setting,
        samples=Samples(len(other.accuracies), len(baseline.accuracies)),
        synthetic_data=other.synthetic_data or baseline.synthetic_data,
    )


def cost(pair: Comparison, baseline: CellSummary, speedup: Speedup) -> Fact | None:
    """Return which side is cheaper and the break-even price.

    None without the baseline's price.
    """
    other, baseline_price, other_price = pair.other, baseline.price_per_hour, pair.other.price_per_hour
    if baseline_price is None:
        return None
    if baseline_price == 0:
        return FreeBaselineFact(baseline.name) if other_price else None
    turning_price = break_even_price(speedup, baseline_price)
    if other_price == 0:
        return FreeOtherFact(other.name, baseline.name, not pair.even, turning_price)
    if other_price is None:
        return BreakEvenPriceFact(other.name, baseline.name, not pair.even, turning_price, baseline_price)
    # The cost ratio (other / baseline) is the inverse of how many times as cheap the other is.
    price_ratio = cost_ratio(speedup, baseline_price, other_price)
    low, high = (None if end is None else 1 / end for end in (price_ratio.high, price_ratio.low))
    differs = None if low is None or high is None else not low <= 1 <= high
    # On the same hardware at one price, such as with two batch sizes, a break-even price is meaningless.
    one_device = not pair.hardware and other_price == baseline_price
    return CostFact(
        other=other.name,
        baseline=baseline.name,
        per_example=not pair.even,
        ratio=1 / price_ratio.value,
        low=low,
        high=high,
        outcome=outcome(differs, price_ratio.value < 1, speedup.verdict(baseline_price / other_price) == AS_FAST),
        other_price=other_price,
        baseline_price=baseline_price,
        break_even=None if one_device else turning_price,
    )


def epoch_time(pair: Comparison) -> EpochTimeFact | None:
    """Return the epoch time of a cell without a baseline.

    None if it has no time.
    """
    times = list(pair.other.times.values())
    estimate = intervals.mean([math.log(seconds) for seconds in times])
    if estimate is None:
        return None
    low, high = (None if end is None else math.exp(end) for end in (estimate.low, estimate.high))
    name, seconds = pair.other.name, math.exp(estimate.value)
    return EpochTimeFact(name, pair.setting, seconds, low, high, pair.other.from_warmup, len(times))


def runs(side: CellSummary) -> RunsFact | None:
    """Return how a side's incomplete runs ended; None if all completed."""
    counts = side.counts
    skipped = counts.skip and not side.times
    return RunsFact(side.name, counts, len(side.times)) if skipped or counts.endings else None


def _samples(other: CellSummary, baseline: CellSummary) -> Samples:
    """Return the sample sizes of a comparison of times.

    The samples are runs or, for a side on several machines, machines.
    """
    sides = [
        (len(side.hosts), "machine") if len(side.hosts) > 1 else (len(side.times), "run") for side in (other, baseline)
    ]
    return Samples(sides[0][0], sides[1][0], sides[0][1], sides[1][1])


def unique(facts: Iterable[Fact]) -> Iterator[Fact]:
    """Yield facts without duplicates."""
    seen: list[Fact] = []
    for fact in facts:
        if fact not in seen:
            seen.append(fact)
            yield fact
