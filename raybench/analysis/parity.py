"""Whether configurations train alike: their losses, from the first epoch on, within the noise between runs."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from statistics import fmean

from raybench.analysis.answer import Answer, Configuration
from raybench.analysis.intervals import ALPHA, Estimate, Sample, difference, rounding

FLOAT32_STEP = 1e-6
"""Least rounding of a loss, relative to it: sums of 32-bit numbers differ by the order of their terms."""


@dataclass(frozen=True)
class ParityRow:
    """The mean of a metric over some epochs, in a configuration and in its reference.

    Attributes:
        first, last: the epochs, from 1.
        mean, reference_mean: over the runs of the configuration and of the reference.
        difference: the configuration's minus the reference's; its interval holds for all rows of the pair together.
    """

    metric: str
    first: int
    last: int
    mean: float
    reference_mean: float
    difference: Estimate

    @property
    def differs(self) -> bool | None:
        """Whether the difference is more than noise; None with one run of a side, whose noise is not known."""
        ends = self.difference.interval()
        return None if ends is None else not ends[0] <= 0 <= ends[1]


@dataclass(frozen=True)
class ParityPair:
    """A configuration compared with its reference."""

    configuration: Configuration
    reference: Configuration
    rows: tuple[ParityRow, ...]

    @property
    def differs(self) -> bool | None:
        """Whether a row differs; None if the noise of no row is known."""
        verdicts = [row.differs for row in self.rows if row.differs is not None]
        return any(verdicts) if verdicts else None


def parity(answer: Answer) -> list[ParityPair]:
    """Compare each configuration of a grid with its reference, by all losses that both logged, else by the metric."""
    pairs = []
    for configuration in answer.configurations:
        if configuration.reference in (None, configuration.index):
            continue
        reference = answer.configurations[configuration.reference or 0]
        names = [name for name in configuration.metrics if name in reference.metrics]
        losses = [name for name in names if name.endswith("loss")] or [name for name in names if name == answer.metric]
        rows = [row for name in losses for row in _rows(name, configuration, reference)]
        rows = [replace(row, difference=replace(row.difference, alpha=ALPHA / len(rows))) for row in rows]
        if rows:
            pairs.append(ParityPair(configuration, reference, tuple(rows)))
    return pairs


def _rows(metric: str, configuration: Configuration, reference: Configuration) -> Iterator[ParityRow]:
    """Yield epochs 1, 2, 3 to 4, 5 to 8 and so on, so that the first losses and the whole curve are seen."""
    both = configuration, reference
    curves = [[{int(n): value for n, _, value in run.curve(metric)} for run in side.runs] for side in both]
    end = min(max((epoch for curve in side for epoch in curve), default=0) for side in curves)
    first = last = 1
    while first <= end:
        sides = [_means(side, first, min(last, end)) for side in curves]
        values = [sample.value for side in sides for sample in side]
        step = max(rounding(values), FLOAT32_STEP * max(map(abs, values), default=0.0))
        if estimate := difference(sides[0], sides[1], step**2 / 12):
            means = [fmean(sample.value for sample in side) for side in sides]
            yield ParityRow(metric, first, min(last, end), means[0], means[1], estimate)
        first, last = last + 1, 2 * last


def _means(curves: Sequence[dict[int, float]], first: int, last: int) -> list[Sample]:
    """The mean of each run over some epochs, without runs that logged none of them."""
    parts = [[value for epoch, value in curve.items() if first <= epoch <= last] for curve in curves]
    return [Sample(number, fmean(part)) for number, part in enumerate(parts) if part and all(map(math.isfinite, part))]
