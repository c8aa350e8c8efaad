"""A comparison of two versions of one grid, as data."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field, fields
from enum import StrEnum
from typing import Any, Self

import msgspec

from raybench.analysis.answer import Caution, Difference, Ratio, Unit
from raybench.analysis.changed_values import ChangedValue
from raybench.core.cell import BASE, VERSION_AXIS
from raybench.core.job import Target
from raybench.core.text import format_value
from raybench.errors import UsageError

FEW_CONFIGURATIONS = 4
"""Up to so many configurations each is tested at 5%; of more, so that 5% of so many false alarms are expected."""
BUSY = ("busy_host", "steal")
"""Findings that other programs made a run take longer, which more repeats do not help against."""
BUSY_REASON = "other programs disturbed one version more, which could change the verdict"


class Decision(StrEnum):
    """What to do with the new version."""

    KEEP = "keep"
    DISCARD = "discard"
    UNDECIDED = "undecided"


class Verdict(StrEnum):
    """The conclusion for a configuration."""

    MISSING = "no result in new"
    SLOWER = "slower"
    SLOWER_RUN = "slower as a whole run"
    WORSE = "lower quality"
    WITHIN = "within the limit"
    UNDECIDED = "undecided"

    @property
    def fails(self) -> bool:
        """Whether the new version must not pass."""
        return self not in (Verdict.WITHIN, Verdict.UNDECIDED)


@dataclass(frozen=True)
class Change:
    """A configuration in both versions.

    Attributes:
        against: the version with which new is compared, `base` or `anchor`; `base_s` is of that one.
        base_s, new_s: steady seconds per unit of work or, with a target, seconds to it; None without such a run.
        speed: new relative to base, above 1 if new is faster, and the bounds of its tests; None without times of both.
        speed_total: the same of whole runs, with start-up and evaluation; None if their times are not known.
        quality: of each metric that both logged: that of new minus that of base.
        quality_kept: whether non-inferiority within the limit of a metric is shown.
        growth: new relative to base, of what grew by more than the limit of the time: the means of peak memory, of the
            device's energy, and of the price of a run.
        reason: of the verdict; empty if it is within the limits.
        more_repeats: about how many further repeats would decide it; None if not known or too many.
        more_s: wall time of these.
    """

    label: str
    base_s: float | None
    new_s: float | None
    speed: Ratio | None
    verdict: Verdict
    speed_total: Ratio | None = None
    quality: Mapping[str, Difference] = field(default_factory=dict)
    quality_kept: Mapping[str, bool] = field(default_factory=dict)
    growth: Mapping[str, float] = field(default_factory=dict)
    reason: str = ""
    more_repeats: int | None = None
    more_s: float | None = None
    against: str = BASE


@dataclass(frozen=True)
class Limits:
    """What is accepted of the new version.

    Attributes:
        slowdown: accepted increase of the time, as a fraction.
        slowdown_total: the same of whole runs; None for that of `slowdown`.
        quality: metrics that must be kept, each with its accepted loss; None for `quality_loss`.
        quality_loss: accepted loss of a metric that must be kept, a fraction of that of base (of an accuracy: points);
            None for 1%. Without a metric in `quality`, it is that of the main metric.
        strict: whether slower needs the whole 95% interval above the limit.
    """

    slowdown: float = 0.05
    slowdown_total: float | None = None
    quality: Mapping[str, float | None] = field(default_factory=dict)
    quality_loss: float | None = None
    strict: bool = False

    @classmethod
    def from_json(cls, tree: Mapping[str, Any]) -> Self:
        """Read the limits in a request.

        Raises:
            UsageError: they are damaged, or those of a different version of raybench.
        """
        is_same = {*tree} == {entry.name for entry in fields(cls)}
        with suppress(msgspec.ValidationError):
            if is_same:
                return msgspec.convert(tree, cls)
        raise UsageError("The limits of this comparison cannot be read; run `raybench compare` again.")


@dataclass(frozen=True)
class MetricLimit:
    """How a metric of quality is judged.

    Attributes:
        max_loss: accepted loss, a fraction of that of base; of an accuracy, points.
        higher_is_better: its direction; None if it is not known, and every larger difference leaves new undecided.
        must_be_kept: whether new is kept only if its loss is shown to be smaller.
        decides: whether a larger loss discards new; otherwise it leaves it undecided, as metrics disagree.
    """

    max_loss: float
    higher_is_better: bool | None
    must_be_kept: bool
    decides: bool


@dataclass(frozen=True)
class Comparison:
    """A comparison of two versions of one grid.

    Attributes:
        limits: those asked for; `slowdown_total` is that used.
        unit: of the times, unless these are to the target.
        target: to which times are compared; None if the grid has none, or no run reached it.
        metrics: those of quality that were logged, the main one first.
        changes: the configurations that base has, in its order; then those of the anchor.
        only_in_new: labels of configurations that base does not have.
        differences: what changed between the versions besides times and quality.
        cautions: those of the runs of both.
    """

    limits: Limits
    unit: Unit
    target: Target | None
    metrics: Mapping[str, MetricLimit]
    changes: tuple[Change, ...]
    only_in_new: tuple[str, ...] = ()
    differences: tuple[ChangedValue, ...] = ()
    cautions: tuple[Caution, ...] = ()

    @property
    def fails(self) -> bool:
        """Whether the new version must not pass: something is slower, of lower quality, missing, or nothing matched."""
        return not self.changes or any(change.verdict.fails for change in self.changes)

    @property
    def decision(self) -> Decision:
        """Whether to keep the new version: only if no configuration fails, and all are decided."""
        undecided = any(change.verdict is Verdict.UNDECIDED for change in self.changes)
        return Decision.DISCARD if self.fails else Decision.UNDECIDED if undecided else Decision.KEEP

    @property
    def more_repeats(self) -> int | None:
        """About how many further repeats would decide it; None if it is decided, or that is not known."""
        if self.decision is not Decision.UNDECIDED:
            return None
        return max((change.more_repeats for change in self.changes if change.more_repeats), default=None)


def direction_options(metric: str) -> str:
    """Return how to say whether more of a metric is better."""
    return f"--lower-is-better {metric} or --higher-is-better {metric}"


def version_of(axes: Mapping[str, object]) -> str:
    """Return the version of a configuration."""
    return format_value(axes.get(VERSION_AXIS))
