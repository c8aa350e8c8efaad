"""Whether the mean of the runs of a configuration reaches a target: the rule of speedruns with a fixed length."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from statistics import fmean, stdev

from raybench.analysis.answer import TargetMean
from raybench.analysis.measured import Measured
from raybench.core.job import Target


def means(configurations: Sequence[Measured], target: Target | None) -> Iterator[TargetMean]:
    """Yield the mean of the last values of each configuration with runs that have the metric.

    Nothing if each run tries alone. The p is that of a one-sided t-test of a mean at the bound; None with one run, or
    with runs that are all the same.
    """
    if target is None or target.mean_level is None:
        return
    for cell in configurations:
        values = [sample.value for sample in cell.qualities.get(target.metric, ())]
        if not values:
            continue
        sign, mean, p = 1 if target.at_most is None else -1, fmean(values), None
        if len(values) > 1 and (error := stdev(values) / math.sqrt(len(values))) > 0:
            from scipy.special import stdtr  # scipy.stats takes a second to load

            p = float(stdtr(len(values) - 1, -sign * (mean - (target.bound or 0.0)) / error))
        reached_alone = sum(map(target.is_reached_by, values))
        is_shown = p is not None and p < target.mean_level
        yield TargetMean(cell.index, mean, len(values), reached_alone, target.is_reached_by(mean), p, is_shown)
