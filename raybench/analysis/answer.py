"""The answer to the question of a grid: one model for the terminal, the page, JSON, notebooks and MLflow.

A `Configuration` is a point of the grid with its runs. Each is compared with its reference configuration (`Ratio`,
`Difference`). `Effect` is one row of the table of effects, `Best` one sentence at the top, `Trust` the line below it.
`raybench.analysis.analyze.Grid` computes an `Answer`; `raybench.reporting.report.as_json` makes JSON of it.

All ratios have one direction: above 1 is better than the reference, that is faster, cheaper, or with less energy.
Intervals are 95% intervals. Times are seconds, prices in the currency of the grid, energies joules.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from raybench.core.job import Target
from raybench.results.utilization import FlopsAndPeak

LARGE_DIFFERENCE = 1.1  # without an interval, a ratio beyond this is taken as a difference
EQUAL_RATIO = 1.05  # ratios that are shown to be within this factor of 1 are equal


@dataclass(frozen=True)
class Unit:
    """The unit of work of times, prices, energies and ratios of a report.

    Attributes:
        name: `epoch`, `run` (a command's wall time), `10 steps` of a log, `examples`, or
            what the trials count, such as `tokens`.
        amount: number of these in the unit: 1 epoch, 1,000 examples, 1,000,000 tokens.
        counted: what a rate counts per second: `examples`, `tokens`; empty if the trials count nothing.
    """

    name: str = "epoch"
    amount: int = 1
    counted: str = ""

    @property
    def has_rate(self) -> bool:
        """Whether a rate such as examples per second is shown rather than a time: the unit is not an epoch."""
        return self.name == self.counted

    @property
    def label(self) -> str:
        """The unit in words, such as `epoch`, `1,000 examples` or `million tokens`."""
        if self.amount == 1:
            return self.name
        words = {10**6: "million", 10**9: "billion", 10**12: "trillion"}
        amount = words.get(self.amount, f"{self.amount:,}")
        if self.name[:1].isdigit():
            return f"{amount} times {self.name}"
        return f"{amount} {self.name}{'' if self.has_rate else 's'}"


@dataclass(frozen=True)
class Summary:
    """One number per run, summarized over the runs of a configuration.

    Attributes:
        value: geometric mean of times, energies and prices; mean of qualities.
        low, high: ends of the 95% interval; None with one run.
        runs: number of runs.
    """

    value: float
    low: float | None = None
    high: float | None = None
    runs: int = 1

    @property
    def has_interval(self) -> bool:
        """Whether there is an interval."""
        return self.low is not None and self.high is not None

    def excludes(self, value: float) -> bool:
        """Return whether there is an interval, and the value is not in it."""
        return self.low is not None and self.high is not None and not self.low <= value <= self.high


@dataclass(frozen=True)
class Ratio(Summary):
    """The ratio of two configurations: above 1 is faster, cheaper, or with less energy.

    Attributes:
        other_runs: number of runs on the other side.
        paired: whether the runs are compared repeat by repeat.
        holds_if_no_miss: the interval of times to a target is of successful runs only, and so few that misses may not
            have been seen: the difference is then not significant, whatever the interval.
        these_low, these_high: ends of the interval for these machines alone, if it is about models of device.
        machines: number of machines of both sides together.
        machine_sd: standard deviation of the log speeds of machines of a model that it allows for; 0 if it does not.
    """

    other_runs: int = 1
    paired: bool = False
    holds_if_no_miss: bool = False
    these_low: float | None = None
    these_high: float | None = None
    machines: int = 1
    machine_sd: float = 0.0

    @property
    def is_equal(self) -> bool:
        """Whether it is shown to be within `EQUAL_RATIO` of 1."""
        return self.low is not None and self.high is not None and 1 / EQUAL_RATIO < self.low <= self.high < EQUAL_RATIO

    @property
    def is_significant(self) -> bool:
        """Whether it excludes 1, and that does not only hold if no run misses the target."""
        return self.excludes(1) and not self.holds_if_no_miss

    @property
    def is_better(self) -> bool:
        """Whether the interval is above 1, perhaps only if no run misses the target."""
        return self.low is not None and self.low > 1

    @property
    def is_of_these_machines(self) -> bool:
        """Whether it is shown for the machines of the runs, and not for their models."""
        low, high = self.these_low, self.these_high
        return low is not None and high is not None and not low <= 1 <= high and not self.excludes(1)


@dataclass(frozen=True)
class Difference(Summary):
    """The quality of a configuration minus that of another, in the metric's unit; an accuracy is a fraction.

    Attributes:
        other_runs, paired: as for `Ratio`.
        is_equal: whether that of an accuracy is shown to be below one point (two one-sided tests at 5%).
    """

    other_runs: int = 1
    paired: bool = False
    is_equal: bool = False

    @property
    def is_significant(self) -> bool:
        """Whether the interval excludes 0."""
        return self.excludes(0)


@dataclass(frozen=True)
class Ending:
    """A way in which runs ended other than `completed`, and their number.

    Attributes:
        status: a `TrialStatus`, `not run` or `unfinished`.
        message: the error of the first of them, or the reason why it cannot run; empty if not known.
    """

    status: str
    runs: int
    message: str = ""


@dataclass(frozen=True)
class ToTarget:
    """Runs of a configuration toward the target.

    Attributes:
        reached, tried: number of runs that reached it, and that tried.
        success_s: time to the target of the runs that reached it, geometric mean; None if none did.
        expected: time with a restart after each miss; without interval with too few runs.
        price, energy_j: expected price and energy to the target; None if unknown.
        ratio: expected time relative to the reference's; None for the reference, or if a side never reached it.
    """

    reached: int
    tried: int
    success_s: float | None = None
    expected: Summary | None = None
    price: Summary | None = None
    energy_j: float | None = None
    ratio: Ratio | None = None


@dataclass(frozen=True)
class Mfu:
    """Model FLOP/s relative to the peak of the devices.

    Attributes:
        share: of the measured peak, over the runs.
        basis: the FLOPs and the peak; of several machines, the lowest.
        datasheet: share of the peak that the vendor states; None if it is not known.
    """

    share: Summary
    basis: FlopsAndPeak
    datasheet: float | None = None


Curve = tuple[tuple[float, float, float], ...]


@dataclass(frozen=True, slots=True)
class RunResult:
    """One completed run of a configuration, for figures.

    Attributes:
        trial: the id of its trial.
        seconds, to_target_s: median steady time per unit of work, and time to the target; None if unknown.
        total_s: wall time of the whole run, or its training if that is all that is known.
        curve: makes the learning curve of a metric: number, training seconds since the start, and metric of each epoch
            that logged it. Most runs of a large grid are in no figure of learning curves.
    """

    trial: str
    seconds: float | None
    to_target_s: float | None
    total_s: float | None = None
    curve: Callable[[str], Curve] = field(default=lambda _: (), repr=False, compare=False)


@dataclass(frozen=True)
class Configuration:
    """A point of the grid, with the results of its runs.

    Attributes:
        index: its position in `Answer.configurations`, which is that in the grid.
        cell_id: its id, which is the first part of the ids of its trials.
        label: its values on the axes that vary, such as `gpu, batch 512, decay 5e-4`.
        reference: index of the configuration that it is compared with (`Answer.compared`); its own index if it is one;
            None if the grid has no such configuration.
        rank: from 1, within its workload, by quality at a budget, else by time to the target or by time; None without.
        planned, completed: number of runs.
        endings: the ends of the other runs.
        skip: the reason why it cannot run here; None if it can.
        runs: the completed runs, in order of repeat.
        seconds: steady time per unit of work; None if unknown.
        rate: `Unit.counted` per second, such as tokens per second; None if nothing is counted.
        run_parts_s: mean seconds of each section of a whole run's process: `data`, `build`, `compile`, `train`, …
        total_s, total_price: wall time and price of a whole run, or of its training if that is all that is known,
            median over runs; None if unknown.
        total_is_training: whether they are of the training alone.
        ratio: speed relative to the reference; None for a reference, or if they cannot be compared.
        quality, metrics: the metric of quality and every metric after training, means over runs.
        quality_difference: quality minus that of the reference.
        to_target: results toward the target; None without a target.
        hardware: of its runs: `NVIDIA A100`; `AMD EPYC, 2 cores`; empty if unknown.
        price_per_hour, price_source: price of its device, and where it comes from; None if not given.
        price, energy_j: of a unit of work (steady time); the energy is that of the device.
        mfu: model FLOP/s relative to the measured peak; None if unknown.
        mfu_problem: why it is unknown, although FLOPs and peak are known; empty otherwise.
        limited_by: what limits most runs: compute, memory, input, communication or overhead; empty without evidence, or
            if other programs kept the host busy.
        limited_share: fraction of the device's measured peak, or of the time for input.
        communication: share of a step's time in which ranks exchange gradients; None if unknown.
        medians: over its completed runs, of the columns of runs that a report shows (`raybench.results.run_table`).
        machines: number of machines of its completed runs; 0 if not known.
        cautions: marks (letters) of the cautions that concern it, as in `Trust.cautions`.
    """

    index: int
    cell_id: str
    label: str
    axes: Mapping[str, Any]
    workload: str
    reference: int | None
    planned: int
    completed: int
    rank: int | None = None
    endings: tuple[Ending, ...] = ()
    skip: str | None = None
    runs: tuple[RunResult, ...] = ()
    seconds: Summary | None = None
    rate: Summary | None = None
    run_parts_s: Mapping[str, float] = field(default_factory=dict)
    total_s: float | None = None
    total_is_training: bool = False
    ratio: Ratio | None = None
    quality: Summary | None = None
    metrics: Mapping[str, float] = field(default_factory=dict)
    quality_difference: Difference | None = None
    to_target: ToTarget | None = None
    hardware: str = ""
    price_per_hour: float | None = None
    price_source: str = ""
    price: Summary | None = None
    total_price: float | None = None
    energy_j: float | None = None
    mfu: Mfu | None = None
    mfu_problem: str = ""
    limited_by: str = ""
    limited_share: float | None = None
    communication: float | None = None
    medians: Mapping[str, float] = field(default_factory=dict)
    machines: int = 0
    cautions: tuple[str, ...] = ()

    @property
    def is_reference(self) -> bool:
        """Whether others are compared with it."""
        return self.reference == self.index


@dataclass(frozen=True)
class EffectPart:
    """The effect on speed and quality in the matched sets with one value of a different axis: `on cpu 1.2x`."""

    axis: str
    value: Any
    speed: Ratio | None
    efficiency: Ratio | None = None
    quality: Difference | None = None


@dataclass(frozen=True)
class Effect:
    """The effect of a value of an axis, over the sets of configurations that differ in that axis alone.

    Attributes:
        axis, value: for example `device` and `gpu`.
        other: the baseline's value on the axis.
        tied: values of other axes that always go with `value`, such as the batch size of each device.
        sets: number of matched sets.
        runs: smallest number of runs of a configuration in them.
        speed: geometric mean over the sets; None if the effect changes its sign between sets, if sets have different
            workloads, or if no time can be compared. Without interval if a configuration has one run.
        to_target: the same of times to the target, without interval if a run missed it; None if a side never did.
        least, most: smallest and largest ratio of speeds of a set; shown if `varies` or without interval.
        varies: whether the effect differs between sets beyond noise, or `speed` is None for a reason above.
        parts: the effect by the axis it depends on (Holm-corrected); empty if it is not shown to depend on one.
        quality: difference of quality by metric, the main metric first, as in `Answer.metric`; without one that changes
            its sign between sets beyond noise.
        quality_least, quality_most: smallest and largest difference of the main metric of a set; None without metric.
        efficiency: speed-up ÷ increase of the amount, if the axis is an amount of hardware such as `count`.
        price, energy: of a unit of work, as `speed`, for such an axis: above 1 is less; None if unknown.
        cautions: marks of cautions that could change it.
    """

    axis: str
    value: Any
    other: Any
    sets: int
    runs: int
    speed: Ratio | None = None
    least: float | None = None
    most: float | None = None
    varies: bool = False
    parts: tuple[EffectPart, ...] = ()
    quality: Mapping[str, Difference] = field(default_factory=dict)
    quality_least: float | None = None
    quality_most: float | None = None
    tied: Mapping[str, Any] = field(default_factory=dict)
    efficiency: Ratio | None = None
    price: Ratio | None = None
    energy: Ratio | None = None
    to_target: Ratio | None = None
    cautions: tuple[str, ...] = ()


@dataclass(frozen=True)
class Scaling:
    """How the speed grows along an axis that is an amount of hardware; `effects` have its efficiency by value.

    Attributes:
        axis: such as `count` or `threads`.
        noun: what it counts: `GPU`, `process`, `thread`.
        kind: `strong` if all values have the same batch size, `weak` if the batch grows with the amount; else empty.
        serial: part of the time of one that more do not shorten, by Amdahl's law; None with weak scaling, fewer than 3
            values or 2 repeats, or if the times do not follow the law.
    """

    axis: str
    noun: str
    kind: str = ""
    serial: Summary | None = None


class Criterion(StrEnum):
    """The criterion by which a configuration is the best."""

    QUALITY = "quality"  # best metric after training; only with a budget
    FASTEST = "fastest"  # least time per unit of work; only without a target and a budget
    KEEPS_QUALITY = "fastest with quality"  # the same of those near the best quality; only if the fastest is not
    FIRST_TO_TARGET = "first to target"  # least expected time to the target
    CHEAPEST = "cheapest"  # least price: to the target if there is one, else per unit of work
    LEAST_ENERGY = "least energy"  # of the device: to the target if there is one, else per unit of work


class Verdict(StrEnum):
    """What is known of the best and those with different values on the compared axes."""

    BETTER = "better"  # all of them are shown to be worse
    EQUAL = "equal"  # those that are not differ from it by less than `EQUAL_RATIO`, or one point of an accuracy
    UNDECIDED = "undecided"
    ONE_RUN = "one run each"


@dataclass(frozen=True)
class Best:
    """The best configuration by one or more criteria: one sentence at the top.

    Attributes:
        configuration: its index.
        other: index of the configuration that the ratios and the difference are relative to: its reference or, if it is
            a reference itself, the best with a different value on the compared axes; None if it is the only one.
        ratios: relative to `other`, by criterion; several if it is the best by all of them. None if there is no `other`
            or it cannot be compared, for what is free, and for the quality, whose difference is `quality`.
        quality: quality minus that of `other`; None if not logged.
        indistinguishable: indices of configurations not shown to be worse by the first criterion, best first.
        unproven: indices of those that it only beats if no run misses the target, of which there are too few to tell.
        workload: its workload, if the grid has several; empty otherwise.
        cautions: marks of cautions that could change it.
        words: what else its sentence has to say, such as how many runs failed (`raybench.analysis.findings.guesses`).
        verdict: on its criteria; None if it is the only one.
    """

    configuration: int
    other: int | None
    ratios: Mapping[Criterion, Ratio | None]
    quality: Difference | None = None
    indistinguishable: tuple[int, ...] = ()
    unproven: tuple[int, ...] = ()
    workload: str = ""
    cautions: tuple[str, ...] = ()
    words: tuple[str, ...] = ()
    verdict: Verdict | None = Verdict.BETTER

    @property
    def close(self) -> set[int]:
        """Indices of configurations that it is not known to beat."""
        return {*self.indistinguishable, *self.unproven}

    @property
    def is_open(self) -> bool:
        """Whether noise may have made it the best."""
        return self.verdict is not Verdict.BETTER


@dataclass(frozen=True)
class OverWorkloads:
    """The best of a device in each workload, relative to those of the first device.

    Attributes:
        device, other: the names of both.
        speed: weighted geometric mean over the workloads; above 1 is faster.
        ratios: by workload.
        price: the same of prices, above 1 is cheaper; None if a price is not known, or is 0.
        faster_on: workloads on which it is faster than the device that is the fastest over all of them.
    """

    device: str
    other: str
    speed: Ratio
    ratios: Mapping[str, Ratio]
    price: Ratio | None = None
    faster_on: tuple[str, ...] = ()


@dataclass(frozen=True)
class BestOfDevice:
    """The best configuration of a device.

    Attributes:
        configuration: its index.
        close: indices of other configurations of the device that are not shown to be worse, best first.
        of: number of its configurations with a result.
        is_certain: whether the others are shown to be worse; None with one configuration, or one run each.
    """

    configuration: int
    close: tuple[int, ...] = ()
    of: int = 1
    is_certain: bool | None = None


@dataclass(frozen=True)
class Step:
    """A configuration that no other beats in both time and price, and how it differs from the next cheaper one.

    Attributes:
        configuration, other: its index, and that of the next cheaper one; None for the cheapest.
        speed, price: relative to `other`; the price is below 1, as it is more expensive. None if either is free.
        quality: quality minus that of `other`.
        as_fast: indices of more expensive configurations that are not shown to be faster.
    """

    configuration: int
    other: int | None = None
    speed: Ratio | None = None
    price: Ratio | None = None
    quality: Difference | None = None
    as_fast: tuple[int, ...] = ()


@dataclass(frozen=True)
class TradeOff:
    """Time and price together, to the target or of a unit of work.

    Attributes:
        steps: from the cheapest to the fastest.
        cheapest, fastest: indices of the configurations with the least price and time in these runs.
        speed, price: of the fastest relative to the cheapest, and of the cheapest relative to the fastest.
        beaten: by the index of each configuration that is shown to be slower and more expensive, what beats it.
        holds_if_no_miss: whether that is shown of successful runs only, as in `Ratio`.
        workload: as for `Best`.
    """

    steps: tuple[Step, ...]
    cheapest: int
    fastest: int
    speed: Ratio | None = None
    price: Ratio | None = None
    beaten: Mapping[int, int] = field(default_factory=dict)
    holds_if_no_miss: bool = False
    workload: str = ""


@dataclass(frozen=True)
class Within:
    """The choice within a deadline and what may be spent.

    Attributes:
        configuration: index of the cheapest of those within both or, without a deadline, of the fastest; None if there
            is none, and `nearest` is then the one that misses it by least.
        of: number of configurations within both.
        runs_within, runs: its runs that were within both, and all.
        workload: as for `Best`.
    """

    configuration: int | None
    nearest: int
    of: int = 0
    runs_within: int = 0
    runs: int = 0
    workload: str = ""


@dataclass(frozen=True)
class MoreRepeats:
    """What it would take to decide between the best configuration and those that are not told apart from it.

    Attributes:
        configurations: indices, the best first.
        repeats: about how many more of each.
        trials, total_s, total_price: of all of them; None if not known.
        is_rest_decided: whether all others are shown to be worse.
    """

    configurations: tuple[int, ...]
    repeats: int
    trials: int
    total_s: float | None
    total_price: float | None
    is_rest_decided: bool


@dataclass(frozen=True)
class Caution:
    """A condition of measurement that could change the answer (caution), or could not (note).

    Attributes:
        text: one sentence without full stop, about the worst of the runs concerned.
        remedy: what to do, in the imperative; empty if there is nothing.
        mark: its letter in tables; empty for a note.
        runs, of_runs: number of runs concerned, and of all completed runs; 0 if it does not concern single runs.
        configurations: indices of the configurations concerned.
        could_change_best: whether it could change which configuration is the best or a significant statement about it.
        too_long: by what fraction the time of the worst run may be too long; an estimate, not a bound. None if unknown.
        axes: those whose different values it concerns, if it is about comparisons; else empty.
    """

    code: str
    text: str
    remedy: str = ""
    mark: str = ""
    runs: int = 0
    of_runs: int = 0
    configurations: tuple[int, ...] = ()
    could_change_best: bool = False
    too_long: float | None = None
    axes: tuple[str, ...] = ()


@dataclass(frozen=True)
class Machine:
    """A machine with the speed of its runs.

    Attributes:
        device: the device's name in the grid.
        others: number of other machines of its model with the same configurations.
        speed: relative to the mean of these, with an interval for these machines alone; None without any.
        is_slow: whether it is slower than machines of one model usually are.
    """

    name: str
    device: str
    runs: int
    others: int = 0
    speed: Ratio | None = None
    is_slow: bool = False


class TrustLevel(StrEnum):
    """The color of the trust mark."""

    CLEAR = "clear"  # green: no caution
    CAUTIONS = "cautions"  # amber: cautions, none of which could change the best configuration
    DOUBTFUL = "doubtful"  # red: one that could, or cautions about a best that noise may have made


@dataclass(frozen=True)
class Trust:
    """Can I trust it: cautions (could change the answer) and notes (could not)."""

    level: TrustLevel
    cautions: tuple[Caution, ...] = ()
    notes: tuple[Caution, ...] = ()


@dataclass(frozen=True)
class Status:
    """The number of runs, by how they ended.

    Attributes:
        planned, completed: runs requested, without those of configurations that cannot run here, and completed.
        endings: the others by status, such as `{"failed": 2, "not run": 4}`.
        part: a description of the requested part of the grid, if only some configurations were requested.
        repeats: what the reader should know of the number of repeats, added after a report or too few to be certain,
            and of requests that cannot be read.
        is_own: whether the same command runs what is missing; not for a table, such as a CSV file, or an MLflow store.
    """

    planned: int
    completed: int
    endings: Mapping[str, int] = field(default_factory=dict)
    part: str = ""
    repeats: tuple[str, ...] = ()
    is_own: bool = True

    @property
    def is_stopped(self) -> bool:
        """Whether runs are missing that the same command would run: the grid was stopped, or is still running."""
        return any(self.endings.get(status) for status in ("not run", "unfinished", "lost", "killed"))


@dataclass(frozen=True)
class TargetMean:
    """The mean of the runs of a configuration against the target.

    Attributes:
        alone: number of the runs whose own value reaches it.
        p: of a one-sided t-test against a mean at the bound; None without an interval.
        is_shown: whether the test shows that the mean of all such runs reaches it.
    """

    configuration: int
    mean: float
    runs: int
    alone: int
    is_reached: bool
    p: float | None
    is_shown: bool


@dataclass(frozen=True)
class Answer:
    """Everything that a report says about a grid.

    Attributes:
        workload: name of the workload; several are separated by commas.
        metric: the metric of quality, such as `val/accuracy`; empty if no run logged one.
        synthetic_data: name of the generated data set that replaces a real one; empty if there is none.
        target: the quality to reach; None if none was set.
        budget: what each run may spend on training, by `time` (s), `price` or `energy` (J); empty without a limit.
        excludes_compilation: whether compilation is not paid for by the budget.
        baseline: axes and the values on them that effects are relative to, as used; references have them on `compared`.
        compared: the axis of whose values the best are compared, so that a reference is the best with the baseline's
            value; empty if the grid has a `baseline`, and references have its values and otherwise the same settings.
        max_quality_loss: by how much an accuracy, or what part of a metric, may be worse than the best.
        axes: the axes that vary, each with its values in the order of the grid.
        configurations: in the order of the grid.
        ranking: indices of configurations with a time, best first (by workload, if there are several).
        best: the sentences at the top, in order: quality at a budget, fastest or first to the target, cheapest, least
            energy.
        of_devices: the best configuration of each device, best first, if a device has several; else empty.
        over_workloads: each device over several workloads, the fastest first; empty with one workload or device.
        weights: of workloads in it, by name; 1 of others.
        trade_offs: time and price together, by workload; empty without prices.
        deadline_s, spend_at_most: what a run, to the target if there is one, may take and cost; None if not asked.
        within: the choice within these, by workload.
        runs_per_month: for prices per month; None if not asked.
        effects: rows of the table of effects, largest effect first.
        scalings: of the axes that are amounts of hardware.
        more_repeats: what would decide the best, if that is open; None otherwise, or if it is not known.
        means: of each configuration, if the mean of the runs has to reach the target.
        clock: what an epoch of a command is, with the start-up that is left out, as a sentence; empty without commands.
        machine_speeds: the machines of its runs, the slowest first; those with several models are several.
        these_machines: whether intervals are about these machines, and not about their models of device.
        decision: of a comparison of two versions, in sentences that replace those on the best; else empty.
    """

    grid: str
    workload: str
    baseline: Mapping[str, Any]
    axes: Mapping[str, tuple[Any, ...]]
    unit: Unit
    configurations: tuple[Configuration, ...]
    ranking: tuple[int, ...]
    best: tuple[Best, ...]
    effects: tuple[Effect, ...]
    status: Status
    trust: Trust = field(default_factory=lambda: Trust(TrustLevel.CLEAR))
    scalings: tuple[Scaling, ...] = ()
    more_repeats: MoreRepeats | None = None
    machine_speeds: tuple[Machine, ...] = ()
    these_machines: bool = False
    decision: tuple[str, ...] = ()
    compared: str = ""
    metric: str = ""
    synthetic_data: str = ""
    target: Target | None = None
    budget: Mapping[str, float] = field(default_factory=dict)
    excludes_compilation: bool = False
    description: str = ""
    clock: str = ""
    means: tuple[TargetMean, ...] = ()
    of_devices: tuple[BestOfDevice, ...] = ()
    over_workloads: tuple[OverWorkloads, ...] = ()
    weights: Mapping[str, float] = field(default_factory=dict)
    trade_offs: tuple[TradeOff, ...] = ()
    deadline_s: float | None = None
    spend_at_most: float | None = None
    within: tuple[Within, ...] = ()
    runs_per_month: float | None = None
    currency: str = "USD"
    max_quality_loss: float = 0.01
