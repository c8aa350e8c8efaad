"""What a full run says of a prediction of the factored surface."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from raybench.analysis.factored import Setting
from raybench.analysis.surface import Learning, Surface
from raybench.analysis.welch import CONFIDENCE


@dataclass(frozen=True)
class FullRun:
    """A training to the target where a prediction had been made: seconds, and epochs as in `Learning`."""

    seconds: float
    learning: Learning


@dataclass(frozen=True)
class Check:
    """What full runs say of a prediction.

    Attributes:
        refuted_by: "epochs" where they took other numbers of epochs than were measured, so that the two do not learn
            alike; "misses" where they missed the target too often for that; "time" where the epochs agree and the
            seconds do not; None where the prediction stands.
        runs: how many full runs.
    """

    setting: Setting
    refuted_by: str | None
    runs: int

    @property
    def says(self) -> str:
        """In words."""
        place = f"{self.setting.name} on {self.setting.device}"
        how = f"{self.runs} full run{'s' if self.runs > 1 else ''}"
        if self.refuted_by is None:
            return f"{place}: {how} agreed with the prediction."
        why = {
            "epochs": "they did not take as many epochs to the target as were measured elsewhere",
            "misses": "they missed the target, which was reached elsewhere",
            "time": "they took as many epochs, but not the predicted time",
        }[self.refuted_by]
        why = why if self.runs > 1 else f"it{why.removeprefix('they')}"
        return f"{place}: refuted by {how}: {why}."


def check(surface: Surface, full: Mapping[Setting, Sequence[FullRun]]) -> list[Check]:
    """Compare full runs with what had been predicted for them.

    A prediction is refuted where chance does as much less than one time in twenty over *all* checks together
    (Bonferroni: each has its part of the 5 %). Runs that the surface was made from are no check of it: leave them out.

    Args:
        surface: made without these runs.
        full: for each setting its full runs.
    """
    runs = {setting: list(some) for setting, some in full.items() if some}
    level = (1 - CONFIDENCE) / (3 * max(1, len(runs)))
    found = []
    for setting, some in runs.items():
        hits = [run for run in some if run.learning.reached]
        measured = surface.runs.get(setting.learned, ())
        reason = None
        if _misses_too_often(measured, some, level):
            reason = "misses"
        elif surface.epochs_beyond(setting, [run.learning.epochs for run in hits], level):
            reason = "epochs"
        elif surface.seconds_beyond(setting, [run.seconds for run in hits], level):
            reason = "time"
        found.append(Check(setting, reason, len(some)))
    return found


def _misses_too_often(measured: Sequence[Learning], full: Sequence[FullRun], level: float) -> bool:
    """Whether so many misses are beyond chance if both reach the target equally often (Fisher's exact test)."""
    missed = sum(not run.learning.reached for run in full)
    if not missed or not measured:
        return False
    from scipy.special import comb

    all_missed = missed + sum(not run.reached for run in measured)
    every = comb(len(full) + len(measured), all_missed, exact=True)
    as_bad = sum(
        comb(len(full), number, exact=True) * comb(len(measured), all_missed - number, exact=True)
        for number in range(missed, min(len(full), all_missed) + 1)
    )
    return bool(as_bad / every < level)
