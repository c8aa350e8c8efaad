"""Differences of means with 95% intervals: two configurations, an effect over several sets, the best of several.

The numbers are one per run: the log of a time, or a quality. Coverage is checked by simulation, over all kinds of
noise in `benchmarks/coverage.py`.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from itertools import pairwise, takewhile
from statistics import fmean
from typing import NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from raybench.core.groups import grouped

Array = NDArray[np.float64]

ALPHA = 0.05  # probability that a 95% interval misses the true value

POOLED_ALPHA = 0.02
"""The same with a pooled variance, to make up for unequal noise and for what a device does in a repeat."""

NOISIER = 0.01
"""Level at which a configuration is taken to vary more than the others, so that it does not share their variance."""

MOST_DF_OF_TWO = 4
"""Most degrees of freedom of an effect with 2 repeats: with 9, 93.6% are covered if a device's speed varies by 2%."""

LEAST_OPPOSITE = math.log(1.1)
"""With one run each, sets contradict one another if one is this much above and one this much below 0, in logs."""

MOST_REPEATS = 999  # more repeats than this are not proposed

Key = TypeVar("Key")

LEAST_PAIRED = 4
"""Fewest repeats for an interval of differences within repeats; fewer give up too many degrees of freedom."""


REPEATED_LOOKS = {2: (0.0080, 0.0080), 3: (0.0106, 0.0118), 4: (0.0130, 0.0146), 5: (0.0162, 0.0171)}
"""Alphas of Welch's and of paired intervals that hold at any of 10 looks, by the number of runs at the first look."""

UNTIL_NARROW = {3: (0.0215, 0.0234), 4: (0.028, 0.028), 5: (0.0321, 0.0340)}
"""The same if repeats are added until the interval is narrow enough, which is less often wrong than any look."""


@dataclass(frozen=True, slots=True)
class Stopping:
    """How the number of repeats was decided, if it was not fixed before the first run.

    Attributes:
        welch, paired: alphas that make up for the decision.
        is_common: whether only repeats that both sides of a comparison have are compared, as when it was decided.
        is_race: whether repeats were added until the best was known. Then all pairs of configurations were compared,
            and those that left have too few repeats for a choice between paired and Welch's intervals.
    """

    welch: float
    paired: float
    is_common: bool = False
    is_race: bool = False

    @classmethod
    def of(
        cls, alphas: Mapping[int, tuple[float, float]], first: int, is_common: bool = False, is_race: bool = False
    ) -> Stopping:
        """Return that of a first look at so many repeats; the alphas of fewer are on the safe side."""
        levels = alphas[max([count for count in alphas if count <= first], default=min(alphas))]
        return cls(*levels, is_common, is_race)


@dataclass(frozen=True, slots=True)
class Sample:
    """The number of one run, and when and where it was measured.

    Attributes:
        started, ended: seconds since 1970; None if not known.
        stopping: how the number of repeats of its configuration was decided; None if it was fixed.
    """

    repeat: int
    value: float
    host: str = ""
    started: float | None = None
    ended: float | None = None
    stopping: Stopping | None = None


@dataclass(frozen=True)
class Estimate:
    """An estimate with its standard error.

    Attributes:
        error: None without an interval.
        alpha: probability that its interval misses the true value.
        paired: whether it is a mean of differences within repeats.
        alone: the same for the machines of the runs alone, if it is about their models of device.
        machines: number of machines of both sides together.
        machine_sd: standard deviation of the machines of a model that it allows for; 0 if it does not.
    """

    value: float
    error: float | None = None
    df: float = math.inf
    alpha: float = ALPHA
    paired: bool = False
    alone: Estimate | None = None
    machines: int = 1
    machine_sd: float = 0.0

    def interval(self, alpha_factor: float = 1.0) -> tuple[float, float] | None:
        """Return the ends of the interval; None without one. A factor of 2 for alpha makes a 90% interval."""
        if self.error is None:
            return None
        half = quantile(self.df, 1 - self.alpha * alpha_factor / 2) * self.error
        return self.value - half, self.value + half

    def is_within(self, margin: float) -> bool:
        """Return whether the value is shown to be between ± a margin (two one-sided tests at 5%)."""
        ends = self.interval(alpha_factor=2)
        return ends is not None and -margin < ends[0] and ends[1] < margin

    @property
    def half(self) -> float | None:
        """Half the width of the interval; None without one."""
        ends = self.interval()
        return None if ends is None else (ends[1] - ends[0]) / 2

    def repeats_until(self, half: float, repeats: int, probability: float | None = None) -> int | None:
        """Return about how many repeats make t·se as small as `half`; None if more than `MOST_REPEATS` do."""
        if self.error is None or repeats < 2:
            return None
        probability = probability or 1 - self.alpha / 2
        runs = self if self.alone is None else self.alone
        machines = self.error**2 - (runs.error or 0.0) ** 2  # which more repeats do not reduce
        for more in range(repeats + 1, MOST_REPEATS + 1):
            df = self.df if self.alone else self.df * (more - 1) / (repeats - 1)
            error = math.sqrt(max(machines, 0.0) + (runs.error or 0.0) ** 2 * repeats / more)
            if quantile(df, probability) * error <= half:
                return more
        return None


class Residual(NamedTuple):
    """Variance of a run around the mean of its configuration, pooled over configurations."""

    variance: float
    df: float


class Candidates:
    """The configurations of which the best is chosen: the intervals of all their pairs allow for this choice.

    So the table and the answer have the same interval for the same pair (Bonferroni, with a pooled variance since that
    needs more degrees of freedom than a pair has).

    Attributes:
        comparisons: number of configurations with which one is compared; after a race, that of all pairs.
    """

    def __init__(self, sides: Iterable[Sequence[Sample]]) -> None:
        self._sides = [side for side in sides if side]
        self._is_race = any(run.stopping and run.stopping.is_race for side in self._sides for run in side)
        self.comparisons = max(1, len(self._sides) - 1) * (len(self._sides) / 2 if self._is_race else 1)
        self._within_repeats: dict[tuple[int, ...], Residual | None] = {}

    @cached_property
    def within(self) -> Residual | None:
        """The variance of runs, within machines; None with one run each."""
        parts = [part for side in self._sides if (part := _squares(side))[1]]
        while parts:
            squares, df = (sum(part[place] for part in parts) for place in range(2))
            if (number := _noisiest(parts, squares, df)) is None:
                return Residual(squares / df, df)
            del parts[number]
        return None

    def within_repeats(self, repeats: Iterable[int]) -> Residual | None:
        """The same without what configurations share in a repeat, of those that have all these repeats."""
        repeats = tuple(sorted(repeats))
        if repeats not in self._within_repeats:
            self._within_repeats[repeats] = self._residual(repeats)
        return self._within_repeats[repeats]

    def _residual(self, repeats: tuple[int, ...]) -> Residual | None:
        values = [{run.repeat: run.value for run in side} for side in self._sides]
        sides = [side for side in values if side.keys() >= {*repeats}]
        while len(sides) > 1 and len(repeats) > 1:
            table = TwoWayTable(np.array([[side[repeat] for side in sides] for repeat in repeats]))
            # The part of the residual sum of squares that the table without this configuration does not have.
            factor = len(sides) / (len(sides) - 1)
            parts = [(factor * float(squares), len(repeats) - 1) for squares in (table.rest**2).sum(axis=0)]
            if (number := _noisiest(parts, table.ms_residual * table.df, table.df)) is None:
                # A race has so many pairs that one of noisy configurations, or of two devices of which each is fast or
                # slow in a whole repeat, would often differ by the variance of all: this then counts as that of two
                # sides alone.
                is_common = not self._is_race or (bartlett(parts) >= ALPHA and not shares_more(table.rest))
                return Residual(table.ms_residual, table.df if is_common else min(table.df, 2 * len(repeats) - 2))
            del sides[number]
        return None


def _noisiest(parts: Sequence[tuple[float, float]], squares: float, df: float) -> int | None:
    """Return which part of a sum of squares, each with its degrees of freedom, is far larger than the rest."""
    number = max(range(len(parts)), key=lambda place: parts[place][0] / parts[place][1])
    largest, own_df = parts[number]
    if df <= own_df:
        return None
    rest = max(squares - largest, 0.0) / (df - own_df)
    return number if f_probability(largest / own_df, rest, own_df, df - own_df) < NOISIER / len(parts) else None


def bartlett(parts: Sequence[tuple[float, float]]) -> float:
    """Return the p value of equal variances, from sums of squares with their degrees of freedom (Bartlett's test)."""
    from scipy.special import chdtrc

    squares, dfs = (np.array(column) for column in zip(*parts, strict=True))
    if len(parts) < 2 or squares.min() <= 0:
        return 1.0
    total = dfs.sum()
    statistic = total * math.log(squares.sum() / total) - float(dfs @ np.log(squares / dfs))
    correction = 1 + ((1 / dfs).sum() - 1 / total) / (3 * (len(parts) - 1))
    return float(chdtrc(len(parts) - 1, statistic / correction))


def shares_more(rest: Array) -> bool:
    """Return whether some columns vary together, as those of a device that is slow in a repeat, by their residuals.

    These have one direction with more of the sum of squares than in 95% of tables of independent values.
    """
    return bool(_largest_share(rest) > _usual_share(*rest.shape))


def _largest_share(rest: Array) -> float:
    squares = np.linalg.svd(rest, compute_uv=False) ** 2
    return float(squares[0] / squares.sum()) if squares[0] > 0 else 0.0


@lru_cache
def _usual_share(repeats: int, columns: int) -> float:
    rng = np.random.default_rng(0)
    tables = (TwoWayTable(rng.normal(size=(repeats, columns))) for _ in range(1000))
    return float(np.quantile([_largest_share(table.rest) for table in tables], 1 - ALPHA))


@lru_cache(maxsize=10_000)
def quantile(df: float, probability: float) -> float:
    """Return a quantile of Student's t."""
    from scipy.special import stdtrit  # scipy.stats takes a second to load

    return float(stdtrit(df, probability))


def f_probability(between: float, within: float, df1: float, df2: float) -> float:
    """Return the probability of a larger ratio of two mean squares (Fisher's F)."""
    from scipy.special import fdtrc  # scipy.stats takes a second to load

    ratio = between / within if within > 0 else math.inf if between > 0 else 0.0
    return float(fdtrc(df1, df2, ratio))


def _f_probabilities(between: Array, within: Array, df1: float, df2: float) -> Array:
    from scipy.special import fdtrc

    with np.errstate(divide="ignore", invalid="ignore"):
        ratios = np.where(within > 0, between / within, np.where(between > 0, np.inf, 0.0))
    return np.asarray(fdtrc(df1, df2, ratios))


def variance(values: Sequence[float], floor: float = 0.0) -> float:
    """Return the sample variance of at least two numbers, or the floor if that is larger."""
    middle = fmean(values)
    return max(sum((value - middle) ** 2 for value in values) / (len(values) - 1), floor)


def mean(values: Sequence[float], floor: float = 0.0) -> Estimate:
    """Return the mean of one or more numbers; `floor` is the least variance of one."""
    if len(values) < 2:
        return Estimate(fmean(values))
    return Estimate(fmean(values), math.sqrt(variance(values, floor) / len(values)), len(values) - 1)


def _squares(side: Sequence[Sample]) -> tuple[float, float]:
    """Return the sum of squares of runs around their mean, within machines, and its degrees of freedom."""
    groups = [values for values in _by_host(side).values() if len(values) > 1]
    return sum(variance(group) * (len(group) - 1) for group in groups), sum(len(group) - 1 for group in groups)


def difference(
    side: Sequence[Sample], reference: Sequence[Sample], floor: float = 0.0, candidates: Candidates | None = None
) -> Estimate | None:
    """Return the mean of a side minus that of the other; None if a side is empty.

    Paired by repeat if the sides alternated on one machine in enough repeats. Otherwise Welch's, with
    at most 2n − 2 degrees of freedom of the smaller side. This choice depends on the plan, not on the values.

    Of several candidates it has the variance pooled over these, or its own if that is larger. With runs that vary far
    more than the candidates' it has its own degrees of freedom, too.
    """
    side, reference, stopping = _as_decided(side, reference)
    if not side or not reference:
        return None
    least_paired = 2 if stopping and stopping.is_race else LEAST_PAIRED
    estimate = at_every_look(_difference(side, reference, floor, least_paired), stopping)
    if candidates is None or candidates.comparisons == 1 or estimate.error is None:  # a single run's noise is not known
        return estimate
    repeats = [sample.repeat for sample, _ in _pairs(side, reference)]
    pooled = candidates.within_repeats(repeats) if estimate.paired else candidates.within
    counts = [len(repeats)] * 2 if estimate.paired else [len(side), len(reference)]
    error = math.sqrt(pooled.variance * (1 / counts[0] + 1 / counts[1])) if pooled else 0.0
    if pooled is None or f_probability(estimate.error**2, error**2, estimate.df, pooled.df) < NOISIER:
        return replace(estimate, alpha=estimate.alpha / candidates.comparisons)
    is_race = stopping is not None and stopping.is_race
    alpha = estimate.alpha * POOLED_ALPHA / ALPHA if is_race else min(estimate.alpha, POOLED_ALPHA)
    alpha /= candidates.comparisons
    return replace(estimate, error=max(error, estimate.error), df=pooled.df, alpha=alpha)


def _as_decided(
    side: Sequence[Sample], reference: Sequence[Sample]
) -> tuple[Sequence[Sample], Sequence[Sample], Stopping | None]:
    """Return the runs by which the number of repeats was decided, and how."""
    stopping = next((sample.stopping for sample in (*side, *reference) if sample.stopping), None)
    if stopping and stopping.is_common and len({sample.host for sample in (*side, *reference)}) == 1:
        pairs = _pairs(side, reference)
        side, reference = [sample for sample, _ in pairs], [base for _, base in pairs]
    return side, reference, stopping


def at_every_look(estimate: Estimate, stopping: Stopping | None) -> Estimate:
    """Return an estimate whose interval also holds if the number of repeats followed from the results."""
    if stopping is None:
        return estimate
    return replace(estimate, alpha=min(estimate.alpha, stopping.paired if estimate.paired else stopping.welch))


def _difference(side: Sequence[Sample], reference: Sequence[Sample], floor: float, least_paired: int) -> Estimate:
    if are_interleaved(side, reference, least_paired):
        differences = [sample.value - base.value for sample, base in _pairs(side, reference)]
        return replace(mean(differences, 2 * floor), paired=True)
    # Runs of one machine share its speed, so a machine's mean is one sample; a side with one machine has only runs.
    hosts = [list(_by_host(samples).values()) for samples in (side, reference)]
    first, second = (list(map(fmean, means)) if len(means) > 1 else means[0] for means in hosts)
    return _welch(first, second, floor)


def additive_means(sides: Mapping[Key, Sequence[Sample]]) -> dict[Key, float]:
    """Return the mean of each side as if all had run in each repeat: least squares of side + repeat.

    If the results decided the number of repeats, later ones may have met a slower machine than those that all have.
    """
    repeats = {repeat: place for place, repeat in enumerate({run.repeat for side in sides.values() for run in side})}
    rows = [(number, repeats[run.repeat], run.value) for number, side in enumerate(sides.values()) for run in side]
    design = np.zeros((len(rows), len(sides) + len(repeats)))
    for row, (number, repeat, _) in enumerate(rows):
        design[row, [number, len(sides) + repeat]] = 1.0
    solution = np.linalg.lstsq(design, np.array([value for *_, value in rows]), rcond=None)[0]
    shared = float(solution[len(sides) :].mean())
    return {key: float(solution[number]) + shared for number, key in enumerate(sides)}


def are_interleaved(side: Sequence[Sample], reference: Sequence[Sample], least_paired: int) -> bool:
    """Return whether two sides alternated, repeat by repeat, on one machine.

    Every common repeat of one side ended before the next one of the other began.
    """
    hosts, pairs = {sample.host for sample in (*side, *reference)}, _pairs(side, reference)
    spans = [[time for sample in pair for time in (sample.started, sample.ended) if time is not None] for pair in pairs]
    if len(hosts) > 1 or len(pairs) < least_paired or any(len(span) < 4 for span in spans):
        return False
    return all(max(earlier) <= min(later) for earlier, later in pairwise(spans))


def _pairs(side: Sequence[Sample], reference: Sequence[Sample]) -> list[tuple[Sample, Sample]]:
    by_repeat = {sample.repeat: sample for sample in reference}
    pairs = [(sample, by_repeat[sample.repeat]) for sample in side if sample.repeat in by_repeat]
    return sorted(pairs, key=lambda pair: pair[0].repeat)


def _welch(first: Sequence[float], second: Sequence[float], floor: float = 0.0) -> Estimate:
    value = fmean(first) - fmean(second)
    least = min(len(first), len(second))
    if least < 2:
        return Estimate(value)
    parts = [variance(side, floor) / len(side) for side in (first, second)]
    error = sum(parts)
    divisor = sum(part**2 / (len(side) - 1) for part, side in zip(parts, (first, second), strict=True))
    # Without this cap, 2 runs against 5 to 10 cover 89 to 94 %.
    df = min(error**2 / divisor if divisor else math.inf, 2.0 * least - 2)
    return Estimate(value, math.sqrt(error), df)


def _by_host(side: Sequence[Sample]) -> dict[str, list[float]]:
    return grouped((sample.host, sample.value) for sample in side)


Pair = tuple[Sequence[Sample], Sequence[Sample]]  # the runs of a configuration and of the one that it is compared with


@dataclass(frozen=True)
class EffectEstimate:
    """An effect over matched sets of configurations.

    Attributes:
        mean: over the sets.
        sets: of each set.
        table: differences by repeat (rows) and set, for tests of whether sets differ; None with fewer than 2 repeats
            or 2 sets, or with several machines (`raybench.analysis.machines`).
    """

    mean: Estimate
    sets: tuple[Estimate, ...]
    table: TwoWayTable | None = None

    def changes_sign(self, differs: bool = False) -> bool:
        """Return whether sets with effects of both signs are shown to differ: a mean would hide one of them.

        They are if that is known (`differs`), or if one is shown to be positive and one negative, by intervals that
        allow for all candidates. With one run each, the effects need to be large.
        """
        values = [part.value for part in self.sets]
        limit = 0.0 if self.table or self.mean.error is not None else LEAST_OPPOSITE
        if not min(values) < -limit or not max(values) > limit:
            return False
        lows, highs = zip(*(part.interval() or (part.value, part.value) for part in self.sets), strict=True)
        return differs or min(highs) < 0 < max(lows)


class TwoWayTable:
    """Differences by repeat and matched set, and their mean squares.

    Attributes:
        values: one row per repeat, one column per set; at least 2 of both.
        rest: what the means of rows and columns do not explain.
        ms_repeats: mean square of repeats.
        ms_residual: residual mean square.
    """

    def __init__(self, values: Array, floor: float = 0.0) -> None:
        """Compute the mean squares; `floor` is the least variance of one value."""
        n, m = values.shape
        rows, columns, middle = values.mean(axis=1), values.mean(axis=0), values.mean()
        self.values, self.rest = values, values - rows[:, None] - columns[None, :] + middle
        self.ms_repeats = max(m * float(((rows - middle) ** 2).sum()) / (n - 1), floor)
        self.ms_residual = max(float((self.rest**2).sum()) / ((n - 1) * (m - 1)), floor)

    @property
    def df(self) -> int:
        """Degrees of freedom of the residual."""
        n, m = self.values.shape
        return int((n - 1) * (m - 1))

    @cached_property
    def is_unequal(self) -> bool:
        """Whether one set varies more than the others, so that the residual of all is not that of each."""
        squares = np.sort(self.values.var(axis=0))
        n, m = self.values.shape
        return f_probability(float(squares[-1]), float(squares[:-1].mean()), n - 1.0, self.df) < float(ALPHA / m)

    @property
    def mean(self) -> Estimate:
        """The mean over sets. Sets share what happens in a repeat, so they are independent only if a test allows it."""
        n, m = self.values.shape
        value = float(self.values.mean())
        if self.is_unequal or f_probability(self.ms_repeats, self.ms_residual, n - 1, self.df) < 0.5:
            return Estimate(value, math.sqrt(self.ms_repeats / m / n), n - 1, paired=True)
        together = (self.ms_repeats + (m - 1) * self.ms_residual) / m
        # The test hardly sees what two repeats share, whatever the number of sets.
        df, alpha = ((n - 1) * m, ALPHA) if n > 2 else (min(m, MOST_DF_OF_TWO), POOLED_ALPHA)
        return Estimate(value, math.sqrt(together / (n * m)), df, alpha, paired=True)

    def p_of_sets(self, residual: float = 0.0) -> float:
        """Return the p value of equal means of all sets, with the larger residual of the table and of several."""
        n, m = self.values.shape
        between, within = n * float(self.values.mean(axis=0).var(ddof=1)), max(self.ms_residual, residual)
        return f_probability(between, within, m - 1, self.df)

    def dependence(self, groups: Sequence[int], residual: float = 0.0) -> float:
        """Return the p value of equal means in two or more groups of sets: Student's t of each two (Bonferroni).

        The variance is the largest of three: the table's residual, that of several tables, which few runs can hardly
        show, and that of the difference in each repeat, as runs that follow one another in every repeat are alike.
        """
        n, numbers = len(self.values), np.asarray(groups)
        sides = [self.values[:, numbers == group] for group in np.unique(numbers)]
        means, sizes = np.array([side.mean(axis=1) for side in sides]), np.array([side.shape[1] for side in sides])
        one, second = np.triu_indices(len(sides), 1)
        gaps = means[one] - means[second]
        squares, of_gap = n * gaps.mean(axis=1) ** 2, gaps.var(axis=1, ddof=1)
        pooled = max(self.ms_residual, residual) * (1 / sizes[one] + 1 / sizes[second])
        p = _f_probabilities(squares, np.maximum(of_gap, pooled), 1, self.df)
        if self.is_unequal or n == 2:
            # The residual is not that of each set, or a slow stretch from one repeat to the next is most of it.
            p = np.maximum(p, _f_probabilities(squares, of_gap, 1, n - 1))
        return min(1.0, float(p.min()) * len(p))


def table_of_repeats(pairs: Sequence[Pair], floor: float = 0.0) -> TwoWayTable | None:
    """Return the differences by repeat and matched set; None with fewer than 2 repeats that all sets have."""
    by_repeat = [{a.repeat: a.value - b.value for a, b in _pairs(*pair)} for pair in pairs]
    repeats = sorted(set.intersection(*(set(gaps) for gaps in by_repeat)))
    if len(repeats) < 2:
        return None
    return TwoWayTable(np.array([[gaps[repeat] for gaps in by_repeat] for repeat in repeats]), floor)


def holm(probabilities: Mapping[Key, float], alpha: float = ALPHA) -> list[Key]:
    """Return the keys of the p values that are significant together (Holm's correction), the smallest first."""
    ordered = sorted(probabilities, key=lambda key: probabilities[key])
    below = (probabilities[key] <= alpha / (len(ordered) - number) for number, key in enumerate(ordered))
    return [key for key, _ in zip(ordered, takewhile(bool, below), strict=False)]


def wilson(successes: int, tries: int, comparisons: float = 1) -> tuple[float, float]:
    """Return Wilson's interval of a proportion."""
    z = quantile(math.inf, 1 - ALPHA / (2 * comparisons))
    share, width = successes / tries, z**2 / tries
    middle = (share + width / 2) / (1 + width)
    half = z * math.sqrt(share * (1 - share) / tries + width / (4 * tries)) / (1 + width)
    return max(0.0, middle - half), min(1.0, middle + half)


def rounding(values: Iterable[float], most_digits: int = 9) -> float:
    """Return the step to which all values were rounded, such as 0.01; 0 if that cannot be seen."""
    digits = 0
    for value in values:
        while digits <= most_digits and abs(round(value, digits) - value) > 1e-12 * abs(value):
            digits += 1
    return 10.0**-digits if digits <= most_digits else 0.0
