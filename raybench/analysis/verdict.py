"""What the comparison of a cell with its baseline shows, as facts."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import ClassVar

from raybench.analysis.diagnostics.finding import CAVEAT, kinds
from raybench.analysis.fact import Fact
from raybench.analysis.pairs import CellSummary, Comparison, SettingDifference
from raybench.analysis.run_counts import RunCounts
from raybench.analysis.statistics import intervals
from raybench.analysis.statistics.accuracy import MARGIN, POINTS, compare_accuracy
from raybench.analysis.statistics.break_even import Estimate, break_even_length, break_even_price, cost_ratio
from raybench.analysis.statistics.speedup import ALIKE, AS_FAST, Speedup
from raybench.checks.roofline.judge import INPUT, OVERHEAD

OVERHEAD_BOUND = "overhead_bound"

_OF_BOUNDS = {INPUT: "input_bound", OVERHEAD: OVERHEAD_BOUND}


class Outcome(StrEnum):
    """What runs show of a difference."""

    HIGHER = "higher"
    LOWER = "lower"
    EQUAL = "equal"
    """Shown to be within a margin."""
    NOT_SIGNIFICANT = "not significant"
    UNKNOWN = "unknown"
    """A side has one run, so there is no interval."""


def outcome(differs: bool | None, is_higher: bool, is_equal: bool) -> Outcome:
    """The outcome of a comparison.

    Args:
        differs: whether the interval excludes equality; None without one.
        is_higher: whether the estimate is above equality.
        is_equal: whether the two are shown to be within a margin.
    """
    if differs is None:
        return Outcome.UNKNOWN
    if differs:
        return Outcome.HIGHER if is_higher else Outcome.LOWER
    return Outcome.EQUAL if is_equal else Outcome.NOT_SIGNIFICANT


@dataclass(frozen=True)
class Samples:
    """How many independent samples each side of a comparison has.

    Attributes:
        other_unit, baseline_unit: "run", or "machine" for a side that ran on several.
    """

    other: int
    baseline: int
    other_unit: str = "run"
    baseline_unit: str = "run"


@dataclass(frozen=True)
class SpeedupFact(Fact):
    """How many times as fast the other is as the baseline.

    Attributes:
        workload, setting: what was trained, and where in the grid.
        low, high: the 95 % interval of the ratio; None with one run.
        per_example: whether it is the ratio of examples per second, because epochs differ in their number.
        from_warmup: whether there are times of warm-up epochs among them.
        paired: whether runs were compared repeat by repeat.
        margin: the part up to which ratios are equal.
    """

    margin: ClassVar[float] = ALIKE - 1

    other: str
    baseline: str
    workload: str
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
    """How a cell compares with itself; `outcome` is `EQUAL` if the interval contains 1."""

    name: str
    workload: str
    setting: str
    ratio: float
    low: float | None
    high: float | None
    outcome: Outcome
    samples: Samples


@dataclass(frozen=True)
class HardwareCaveatFact(Fact):
    """The ratio may not be due to the hardware alone."""


@dataclass(frozen=True)
class ConfounderFact(Fact):
    """Why a side's time is not that of its hardware.

    Attributes:
        code: of the kind of finding, or `OVERHEAD_BOUND`.
        sides: which sides it concerns.
        did, measures: what they did, and what their times measure instead.
    """

    code: str
    sides: tuple[str, ...]
    did: str
    measures: str


@dataclass(frozen=True)
class OneMachineEachFact(Fact):
    """Each side ran on one machine of its own, so that machines of the same models may differ from these."""


@dataclass(frozen=True)
class DifferencesFact(Fact):
    """What the sides differ in besides what is compared."""

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
    """From which job length on the side that is faster in the long run is faster, with start-up counted.

    Attributes:
        turns_at: optimizer steps from which on it wins; None if it wins at every length.
        sure_from: from which on the interval shows it; None if it never does.
        sure_before: up to which the interval shows the other side to be faster; None if it never does.
    """

    winner: str
    loser: str
    turns_at: int | None
    sure_from: int | None
    sure_before: int | None


@dataclass(frozen=True)
class AccuracyFact(Fact):
    """How accuracies differ, in percent and points.

    Attributes:
        other_percent, baseline_percent: mean accuracies.
        points: the other's less the baseline's.
        low, high: the 95 % interval of `points`; None with one run.
        epochs: after how many epochs; None if runs had different numbers.
        margin: points up to which accuracies are equal.
        synthetic_data: whether they are on generated data in place of a real data set.
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
    samples: Samples
    synthetic_data: bool = False


@dataclass(frozen=True)
class FreeBaselineFact(Fact):
    """The baseline costs nothing, and the other does."""

    baseline: str


@dataclass(frozen=True)
class FreeOtherFact(Fact):
    """The other costs nothing; at `price` an hour it would cost as much as the baseline."""

    other: str
    baseline: str
    per_example: bool
    price: Estimate


@dataclass(frozen=True)
class BreakEvenPriceFact(Fact):
    """The price of an hour of the other, which is not known, at which both cost the same."""

    other: str
    baseline: str
    per_example: bool
    price: Estimate
    baseline_price: float


@dataclass(frozen=True)
class CostFact(Fact):
    """How many times as much the work costs on the other.

    Attributes:
        per_example: whether it is the cost of as many examples, because epochs differ in their number.
        low, high: the 95 % interval of the ratio; None with one run.
        other_price, baseline_price: of an hour.
        break_even: the price of an hour of the other at which both cost the same; None if both are one device.
        margin: the part up to which costs are equal.
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
    """How long an epoch of a cell takes that is compared with none."""

    name: str
    workload: str
    setting: str
    seconds: float
    low: float | None
    high: float | None
    from_warmup: bool
    runs: int


@dataclass(frozen=True)
class RunsFact(Fact):
    """Runs of a cell did not all complete.

    Attributes:
        timed: how many of them have a time.
    """

    name: str
    counts: RunCounts
    timed: int


def verdict(pair: Comparison) -> list[Fact]:
    """Everything that a comparison shows, the most important first."""
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
    """How fast the other is, compared with the baseline."""
    return SpeedupFact(
        other=pair.other.name,
        baseline=baseline.name,
        workload=pair.workload,
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
    """The result of an A/A test."""
    result = outcome(speedup.differs, speedup.ratio > 1, is_equal=True)
    samples = _samples(pair.other, baseline)
    return AaTestFact(
        baseline.name, pair.workload, pair.setting, speedup.ratio, speedup.low, speedup.high, result, samples
    )


def reasons() -> dict[str, tuple[str, str]]:
    """What can confound a comparison of hardware: by its code what a side did, and what its time measures instead.

    These are the kinds of findings that can distort a ratio, and the class of rooflines in which the time goes to
    starting operations.
    """
    overhead = ("had little to compute for each operation", "how fast operations are started, not the device")
    caveats = {code: (kind.did, kind.measures) for code, kind in kinds().items() if kind.severity == CAVEAT}
    return {OVERHEAD_BOUND: overhead, **caveats}


def confounders(baseline: CellSummary, other: CellSummary) -> list[Fact]:
    """Why the ratio may not be due to the hardware: a fact for each reason, after one that says so; or none.

    No ratio is the hardware's while a side is bound by its input or by starting operations, nor with a finding that
    could turn the verdict. If nobody looked, nothing is known against it.
    """
    all_reasons = reasons()
    side_reasons = [(side.name, _reasons_of(side)) for side in (other, baseline)]
    codes = dict.fromkeys(code for _, own_codes in side_reasons for code in all_reasons if code in own_codes)
    facts = [
        ConfounderFact(code, tuple(name for name, own_codes in side_reasons if code in own_codes), *all_reasons[code])
        for code in codes
    ]
    return [HardwareCaveatFact(), *facts] if facts else []


def _reasons_of(side: CellSummary) -> set[str]:
    """Codes of what keeps a side's time from being that of its hardware."""
    return {*side.caveats, *(_OF_BOUNDS.get(bound, "") for bound in side.bottleneck[:1])}


def one_machine_each(pair: Comparison, baseline: CellSummary) -> OneMachineEachFact | None:
    """That each side ran on one machine of its own; None if not."""
    hosts = baseline.hosts, pair.other.hosts
    apart = pair.hardware and len(hosts[0]) == len(hosts[1]) == 1 and hosts[0] != hosts[1]
    return OneMachineEachFact() if apart else None


def epoch_sizes(pair: Comparison, baseline: CellSummary) -> EpochSizeFact | None:
    """The numbers of examples of an epoch, if they differ."""
    if pair.even or not baseline.examples or not pair.other.examples:
        return None
    return EpochSizeFact(pair.other.name, baseline.name, pair.other.examples, baseline.examples)


def break_even(pair: Comparison, baseline: CellSummary) -> BreakEvenFact | None:
    """The job length at which the faster side changes.

    None if nothing of it is known: one run shows no interval, the long run shows no difference or is known from
    warm-up epochs alone, or an optimizer step is different work on the two sides.
    """
    other = pair.other
    if not pair.same_steps or baseline.from_warmup or other.from_warmup:
        return None
    crossing = break_even_length(baseline.processes, other.processes)
    if crossing is None or not crossing.long_run.differs:
        return None
    winner, loser = (other, baseline) if crossing.long_run.ratio > 1 else (baseline, other)
    return BreakEvenFact(winner.name, loser.name, crossing.turns_at, crossing.sure_from, crossing.sure_before)


def accuracy(pair: Comparison, baseline: CellSummary) -> AccuracyFact | None:
    """Whether both learn equally well.

    None if a side has no accuracy, stops at its target or was to be trained for other epochs.
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
        samples=Samples(len(other.accuracies), len(baseline.accuracies)),
        synthetic_data=other.synthetic_data or baseline.synthetic_data,
    )


def cost(pair: Comparison, baseline: CellSummary, speedup: Speedup) -> Fact | None:
    """Which side is cheaper, and the price at which that changes; None without the baseline's price."""
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
    # The other's cost in units of the baseline's is the inverse of how many times as cheap it is.
    price_ratio = cost_ratio(speedup, baseline_price, other_price)
    low, high = (None if end is None else 1 / end for end in (price_ratio.high, price_ratio.low))
    differs = None if low is None or high is None else not low <= 1 <= high
    # On the same hardware at one price, as of two batches, there is no price of the one and of the other.
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
    """What is known of a cell that is compared with none; None if it has no time."""
    times = list(pair.other.times.values())
    estimate = intervals.mean([math.log(seconds) for seconds in times])
    if estimate is None:
        return None
    low, high = (None if end is None else math.exp(end) for end in (estimate.low, estimate.high))
    name, seconds = pair.other.name, math.exp(estimate.value)
    return EpochTimeFact(name, pair.workload, pair.setting, seconds, low, high, pair.other.from_warmup, len(times))


def runs(side: CellSummary) -> RunsFact | None:
    """How the runs of a side ended that are missing; None if all completed."""
    counts = side.counts
    skipped = counts.skip and not side.times
    return RunsFact(side.name, counts, len(side.times)) if skipped or counts.endings else None


def _samples(other: CellSummary, baseline: CellSummary) -> Samples:
    """How many runs are behind a comparison of times or, of a side on several machines, how many machines."""
    sides = [
        (len(side.hosts), "machine") if len(side.hosts) > 1 else (len(side.times), "run") for side in (other, baseline)
    ]
    return Samples(sides[0][0], sides[1][0], sides[0][1], sides[1][1])


def unique(facts: Iterable[Fact]) -> Iterator[Fact]:
    """Facts without repetitions."""
    seen: list[Fact] = []
    for fact in facts:
        if fact not in seen:
            seen.append(fact)
            yield fact
