"""A chain of versions, such as a leaderboard's records: each against the one before, and the last against the first.

The first and the last are compared directly: the product of steps would add up the luck by which each was chosen. By
simulation of equal versions, the interval of the whole excludes 1 in at most 4.5% of chains, also if of 20 versions
only those are in the chain that beat the last one in it, and that of a step in at most 4.8%.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from statistics import fmean

from raybench.analysis.analyze import Grid
from raybench.analysis.answer import Criterion, Difference, Ratio
from raybench.analysis.best import Scale
from raybench.analysis.measured import Measured
from raybench.analysis.ratios import quality_difference
from raybench.core.cell import VERSION_AXIS
from raybench.core.job import is_accuracy
from raybench.core.labels import configuration_label
from raybench.core.text import format_value
from raybench.errors import UsageError


class StepVerdict(StrEnum):
    """The conclusion about a step."""

    BETTER = "better"
    WORSE = "worse"
    LOSSY = "faster, but worse"
    NOISE = "not distinguishable from noise"
    IF_NO_MISS = "shown only if no run misses the target"
    ONE_RUN = "without an interval, as a side has one run"
    UNKNOWN = "not compared"


@dataclass(frozen=True)
class Step:
    """A version against an earlier one.

    Attributes:
        runs: of both, the earlier one first.
        change: the speed, or time to the target, as a ratio above 1 if it is faster; with a budget or without times the
            difference of the metric; None if they cannot be compared.
        quality: the difference of the metric, besides a ratio.
        is_worse: whether it is shown to be worse, by more than the accepted loss.
    """

    before: str
    after: str
    runs: tuple[int, int]
    change: Ratio | Difference | None
    quality: Difference | None
    verdict: StepVerdict
    is_worse: bool = False


@dataclass(frozen=True)
class Chain:
    """The versions of a configuration in order.

    Attributes:
        label: the values on the other axes; empty if there are none.
        criterion: of the changes.
        steps: each with an interval of its own, at 95%.
        whole: the last version against the first; its interval allows for choosing one of all versions.
        misses: versions whose mean is not shown to reach a target that it has to reach.
    """

    label: str
    criterion: Criterion
    metric: str
    steps: tuple[Step, ...]
    whole: Step
    misses: tuple[str, ...] = ()


def chains(grid: Grid) -> Iterator[Chain]:
    """Yield the chain of each configuration of several sources (`as_one_grid`), or that of all those of one source.

    Raises:
        UsageError: there are no two versions, or nothing shows which of them is better.
    """
    other_axes = [axis for axis in grid.matching.axes if axis != VERSION_AXIS]
    groups: dict[str, list[Measured]] = {}
    for cell in grid.measured:
        is_version = VERSION_AXIS in cell.axes
        groups.setdefault(configuration_label(cell.axes, other_axes) if is_version else "", []).append(cell)
    groups = {label: sorted(group, key=_place) for label, group in groups.items() if len(group) > 1}
    if not groups:
        raise UsageError("--chain: there are no two versions; name several sources, or one with several configurations")
    for label, versions in groups.items():
        axis = VERSION_AXIS if VERSION_AXIS in versions[0].axes else other_axes[0] if len(other_axes) == 1 else ""
        names = [format_value(v.axes[axis]) if axis else configuration_label(v.axes, other_axes) for v in versions]
        versions = [replace(version, misses=False) for version in versions]  # which would not be compared
        scale = grid.scale(versions)
        if scale is None:
            hint = f"; say --lower-is-better {grid.metric}, or --higher-is-better" if grid.metric else ""
            raise UsageError(f"--chain: no times and no metric of known direction to compare{hint}")
        # Each step has an interval of its own: none is chosen.
        single = [replace(version, candidates={}) for version in versions]
        last = len(versions) - 1
        steps = tuple(_step(grid, scale, single, names, at, at + 1) for at in range(last))
        last_against_first = _step(grid, scale, versions, names, 0, last)
        unshown = {mean.configuration for mean in grid.means if not mean.is_shown}
        misses = [name for name, version in zip(names, versions, strict=True) if version.index in unshown]
        yield Chain(label, scale.criterion, grid.metric, steps, last_against_first, tuple(misses))


def _place(version: Measured) -> int:
    """The place of a version by the column `order` of its runs; those without keep their order."""
    return next((run.order for run in version.attempts if run.order is not None), 0)


def _step(
    grid: Grid, scale: Scale, versions: Sequence[Measured], names: Sequence[str], before: int, after: int
) -> Step:
    base, new = versions[before], versions[after]
    change = scale.compare(new, base) if {base.index, new.index} <= scale.costs.keys() else None
    quality = quality_difference(new, base, grid.metric) if isinstance(change, Ratio) else None
    runs = len(base.completed), len(new.completed)
    verdict = _verdict(grid, change, runs)
    lost = -grid.request.direction(grid.metric).sign * quality.value if quality and quality.is_significant else 0.0
    if verdict is StepVerdict.BETTER and scale.criterion is Criterion.FASTEST and lost > 0:
        verdict = StepVerdict.LOSSY
    size = 1.0 if is_accuracy(grid.metric) or not lost else abs(fmean(run.value for run in base.qualities[grid.metric]))
    return Step(
        names[before], names[after], runs, change, quality, verdict, lost > grid.request.max_quality_loss * size
    )


def _verdict(grid: Grid, change: Ratio | Difference | None, runs: tuple[int, int]) -> StepVerdict:
    if change is None or not change.has_interval:
        return StepVerdict.ONE_RUN if change and min(runs) == 1 else StepVerdict.UNKNOWN
    if not change.is_significant:
        is_unproven = isinstance(change, Ratio) and change.excludes(1)
        return StepVerdict.IF_NO_MISS if is_unproven else StepVerdict.NOISE
    is_more = change.value > (1 if isinstance(change, Ratio) else 0)
    is_better = is_more if isinstance(change, Ratio) else is_more is grid.request.direction(grid.metric).is_higher
    return StepVerdict.BETTER if is_better else StepVerdict.WORSE
