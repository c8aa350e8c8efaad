"""Effects of a grid's axes on accuracy, as facts."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean

from raybench.analysis.fact import Fact
from raybench.analysis.statistics.accuracy import POINTS, rounding, validation_set_uncertainty
from raybench.analysis.statistics.anova import Decomposition, decompose

Accuracies = Sequence[tuple[Mapping[str, Hashable], float]]
"""Coordinates of each run, and its accuracy as a fraction."""


@dataclass(frozen=True)
class SingleRunsFact(Fact):
    """With one run per cell, effects cannot be separated from noise."""


@dataclass(frozen=True)
class AxisEffectFact(Fact):
    """The effect of an axis on accuracy, from worst to best value.

    Attributes:
        share: its fraction of the total sum of squares.
        points: accuracy at `best` minus that at `worst`, in percentage points.
        low, high: the 95% interval of `points`, corrected for the selection of these two values.
        significant: whether noise alone would produce an effect of this size with p < 0.05.
        additive: whether no interaction with the other axes was detected.
    """

    axis: str
    share: float
    best: Hashable
    worst: Hashable
    points: float
    low: float
    high: float
    significant: bool
    additive: bool


@dataclass(frozen=True)
class InteractionFact(Fact):
    """The effects of axes depend on one another."""

    axes: tuple[str, ...]


@dataclass(frozen=True)
class ConfoundedAxisFact(Fact):
    """The available cells cannot separate the effect of an axis from others."""

    axis: str


@dataclass(frozen=True)
class RunNoiseFact(Fact):
    """Repeatability limit: largest difference between two runs of a cell (points, 95%)."""

    points: float


@dataclass(frozen=True)
class ValidationNoiseFact(Fact):
    """Uncertainty of accuracies due to the validation set's size, in ± points."""

    points: float
    examples: int


def accuracy_factors(runs: Accuracies, examples: int | None = None) -> list[Fact]:
    """Return the effect of each axis on accuracy, and the noise.

    Empty for a grid of two cells: these are compared by their verdict, which does not assume equal noise.

    Args:
        runs: the completed runs of the whole grid.
        examples: size of the validation set.
    """
    if len({tuple(place.items()) for place, _ in runs}) == 2:
        return []
    decomposition = decompose([(place, POINTS * accuracy) for place, accuracy in runs], POINTS**2 * rounding(examples))
    if decomposition is None or not (decomposition.sources or decomposition.confounded):
        return []
    if decomposition.residual_sd is None or decomposition.repeatability_limit is None:
        return [SingleRunsFact()]
    values: dict[str, dict[Hashable, None]] = {}
    for place, _ in runs:
        for axis, value in place.items():
            values.setdefault(axis, {})[value] = None
    axes = [source for source in decomposition.sources if source.name in values]
    facts: list[Fact] = [
        _effect(decomposition, source.name, list(values[source.name]), source.share, source.shown) for source in axes
    ]
    if decomposition.interaction and decomposition.interaction.shown:
        facts.append(InteractionFact(tuple(source.name for source in axes)))
    facts += map(ConfoundedAxisFact, decomposition.confounded)
    facts.append(RunNoiseFact(decomposition.repeatability_limit))
    mean_accuracy = fmean(accuracy for _, accuracy in runs)
    if examples and examples > 0 and 0 <= mean_accuracy <= 1:
        facts.append(ValidationNoiseFact(validation_set_uncertainty(mean_accuracy, examples), examples))
    return facts


def _effect(
    decomposition: Decomposition, axis: str, values: Sequence[Hashable], share: float, significant: bool
) -> AxisEffectFact:
    def over_first(value: Hashable) -> float:
        effect = decomposition.effect(axis, value, values[0])
        return effect.value if effect else 0.0

    best, worst = max(values, key=over_first), min(values, key=over_first)
    effect = decomposition.effect(axis, best, worst, chosen=True)
    assert effect is not None and effect.low is not None and effect.high is not None
    additive = decomposition.interaction is None or not decomposition.interaction.shown
    return AxisEffectFact(axis, share, best, worst, effect.value, effect.low, effect.high, significant, additive)
