"""Results of a published source, from its reported numbers, as facts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean

from raybench.analysis.fact import Fact
from raybench.analysis.pairs import differences
from raybench.analysis.statistics.time_to_target import NEVER, TargetAttempt, expected
from raybench.analysis.verdict import DifferencesFact
from raybench.core.job import Target
from raybench.core.text import format_value
from raybench.reporting.published_comparison import (
    CPU,
    OTHER_RULES,
    RATE,
    SECONDS,
    SourceCell,
    SourceComparison,
    by_other_rules,
)
from raybench.sources.published_results import Claim, Publication


@dataclass(frozen=True)
class Reported:
    """A number reported for a machine: the mean of its runs.

    Attributes:
        unit: "s" or "examples/s".
        runs: number of averaged numbers.
        label: the source's name of the run; may be empty.
    """

    value: float
    unit: str
    runs: int
    label: str


@dataclass(frozen=True)
class PublishedSpeedupFact(Fact):
    """The speed-up of one machine over another, by the source's own rule.

    Attributes:
        workload: empty if the source does not name it.
        decimals: of the ratio, as many as the source states; 0 for three significant digits.
        low, high: the 95% interval of the ratio; None without repeats.
        one_run_each: whether each number is of one run, according to the source.
    """

    other: str
    baseline: str
    workload: str
    ratio: float
    decimals: int
    low: float | None
    high: float | None
    other_reported: Reported
    baseline_reported: Reported
    one_run_each: bool


@dataclass(frozen=True)
class ClaimFact(Fact):
    """A ratio that a source states, or that follows from its data."""

    claim: Claim


@dataclass(frozen=True)
class OpenClaimFact(Fact):
    """A stated ratio that does not follow from the source's reported numbers."""

    claim: Claim
    other: str
    baseline: str


@dataclass(frozen=True)
class RunPriceFact(Fact):
    """The price of a whole run on each machine."""

    other: str
    baseline: str
    other_price: float
    baseline_price: float


@dataclass(frozen=True)
class OtherRulesFact(Fact):
    """The ratios that other rules give for the same runs."""

    ratios: dict[str, float]


@dataclass(frozen=True)
class ProcessorTimeFact(Fact):
    """The ratio by processor time."""

    ratio: float


@dataclass(frozen=True)
class PublishedTargetFact(Fact):
    """Success rate and expected time to target with restarts.

    Attributes:
        seconds: time to target of a successful run.
        expected: seconds with restarts, with their 95% interval; None if no run missed.
    """

    name: str
    target: Target
    hits: int
    runs: int
    share_low: float
    share_high: float
    seconds: float
    expected: float | None
    low: float | None
    high: float | None


@dataclass(frozen=True)
class PublishedTimeFact(Fact):
    """The time of a machine that is not compared with another.

    Attributes:
        accuracy: a fraction; None if not reported.
    """

    name: str
    workload: str
    reported: Reported
    runs: int | None
    accuracy: float | None


@dataclass(frozen=True)
class PublishedAccuraciesFact(Fact):
    """The accuracies of a source without times.

    Each is a fraction, with its machine and the run's label.
    """

    accuracies: tuple[tuple[float, str, str], ...]


def published_verdict(
    measurements: Sequence[SourceCell], pairs: Sequence[SourceComparison], publication: Publication
) -> list[list[Fact]]:
    """Return paragraphs of facts, each with the most important first.

    Args:
        measurements: reported results by cell and machine.
        pairs: the comparisons.
        publication: the source.
    """
    verdict = [_comparison(pair, publication) for pair in pairs]
    verdict += [[fact] for measurement in measurements if (fact := _target(measurement))]
    for claim in publication.claims:
        if all(claim not in pair.claims for pair in pairs):
            models = [str(publication.machines[each].get("device_model", each)) for each in (claim.machine, claim.over)]
            verdict.append([OpenClaimFact(claim, *models)])
    return verdict if pairs else [*verdict, *_without_comparison(measurements, publication)]


def _comparison(pair: SourceComparison, publication: Publication) -> list[Fact]:
    other, baseline, speedup = pair.other, pair.baseline, pair.speedup
    reported = [_reported(side, pair.measure) for side in (other, baseline)]
    counts = [len(side.seconds(pair.measure, publication.rule)) for side in (other, baseline)]
    repeated = min(counts) > 1
    facts: list[Fact] = [
        PublishedSpeedupFact(
            other=other.model,
            baseline=baseline.model,
            workload=other.workload,
            ratio=speedup.ratio,
            decimals=max((len(format_value(claim.ratio).partition(".")[2]) for claim in pair.claims), default=0),
            low=speedup.low,
            high=speedup.high,
            other_reported=reported[0],
            baseline_reported=reported[1],
            one_run_each=not repeated and all(side.first("runs") == 1 for side in (other, baseline)),
        ),
        *map(ClaimFact, pair.claims),
    ]
    if cell_differences := differences(baseline.cell, other.cell, ()):
        facts.append(DifferencesFact(cell_differences))
    prices = [side.first("total_price") for side in (other, baseline)]
    if all(prices):
        facts.append(RunPriceFact(other.model, baseline.model, *prices))
    ratios = by_other_rules(pair, publication.rule)
    if other_ratios := {rule: ratios[rule] for rule in OTHER_RULES if rule in ratios}:
        facts.append(OtherRulesFact(other_ratios))
    if (cpu_rule := f"{publication.rule}{CPU}") in ratios:
        facts.append(ProcessorTimeFact(ratios[cpu_rule]))
    return facts


def _reported(side: SourceCell, measure: str) -> Reported:
    values = [float(each[measure]) for each in side.rows if each.get(measure)]
    return Reported(fmean(values), "examples/s" if measure == RATE else "s", len(values), side.label)


def _target(measurement: SourceCell) -> PublishedTargetFact | None:
    """Return the cost of a success if some runs miss their target.

    None if the source does not report it.
    """
    runs, hits, seconds = (measurement.first(column) for column in ("runs", "target_runs", "time_to_target_s"))
    if not runs or not seconds or hits is None or runs == 1:
        return None
    target = Target(*(measurement.first(f"target_{part}") for part in ("metric", "at_least", "at_most")))
    estimate = expected([TargetAttempt(seconds)] * hits + [TargetAttempt(seconds, NEVER)] * (runs - hits))
    assert estimate is not None
    has_interval = (
        estimate.seconds is not None and estimate.low is not None and estimate.high is not None and hits < runs
    )
    with_restarts = (estimate.seconds, estimate.low, estimate.high) if has_interval else (None, None, None)
    return PublishedTargetFact(
        measurement.model, target, hits, runs, estimate.share_low, estimate.share_high, seconds, *with_restarts
    )


def _without_comparison(measurements: Sequence[SourceCell], publication: Publication) -> list[list[Fact]]:
    """Return each machine's time or, if no times are reported, its accuracy."""
    time_facts: list[Fact] = [
        PublishedTimeFact(
            each.model, each.label or each.workload, _reported(each, SECONDS), each.first("runs"), each.accuracy
        )
        for each in measurements
        if each.seconds(SECONDS, publication.rule)
    ]
    if time_facts:
        return [time_facts]
    shares = tuple((each.accuracy, each.model, each.label) for each in measurements if each.accuracy)
    return [[PublishedAccuraciesFact(shares)]] if shares else []
