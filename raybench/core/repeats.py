"""How many repeats a grid runs if their number follows from the results, and how far its comparisons are."""

from __future__ import annotations

import math
from dataclasses import dataclass

from raybench.core.text import plural

FEW_REPEATS, LOOKS = 10, (4, 6, 8, 10, 13, 16, 20)
"""Up to so many repeats of a comparison of versions, its results are looked at after each; of more, after these."""


@dataclass(frozen=True)
class RepeatRule:
    """Repeats until each comparison of a configuration with its reference is certain, or until the best is known.

    Attributes:
        at_least, at_most: least and largest number of repeats.
        until: the half-width of the ratio's interval that is enough, such as 0.05; None: until there is a verdict.
        within: of a race for the best: by how much those that are left may differ from it, such as 0.02.
        by_price: whether the best is the cheapest.
        max_loss: the loss of quality with which a configuration may be the best; None: any.
    """

    at_least: int
    at_most: int
    until: float | None = None
    within: float | None = None
    by_price: bool = False
    max_loss: float | None = None

    @property
    def is_race(self) -> bool:
        """Whether repeats are added until the best is known."""
        return self.within is not None

    @property
    def half(self) -> float:
        """The half-width as a difference of logs; 0 for a verdict."""
        return math.log1p(self.until or 0.0)

    def look_after(self, tried: int) -> int:
        """The number of repeats after which the results are looked at next."""
        has_few = self.until is not None or self.at_most <= FEW_REPEATS
        return tried + 1 if has_few else next((look for look in LOOKS if look > tried), tried + 1)


@dataclass(frozen=True)
class Progress:
    """A comparison of a configuration with its reference, while the number of repeats is being decided.

    Attributes:
        cells: ids of the cells of both.
        tried: number of repeats that both have ended.
        half: half-width of the interval of the ratio, as a fraction; None without an interval.
        reached: whether that is certain enough.
        needed: about how many repeats are; None if not known.
        remark: when and why a configuration left the race for the best, or cannot be compared yet; empty otherwise.
    """

    label: str
    cells: tuple[str, str]
    tried: int
    half: float | None
    reached: bool
    needed: int | None
    rule: RepeatRule
    remark: str = ""

    @property
    def is_settled(self) -> bool:
        """Whether it needs no further repeat."""
        enough = self.reached or self.half is None or self.tried >= self.rule.at_most
        return self.tried >= self.rule.at_least and enough

    @property
    def is_out_of_reach(self) -> bool:
        """Whether the largest number of repeats is not enough, by what is known now."""
        is_far = not self.rule.is_race if self.needed is None else self.needed > self.rule.at_most
        return not self.is_settled and is_far

    def in_words(self, time: str = "") -> str:
        """Return a text such as `batch 32: ratio ±7%, about 3 more repeats, 2 min`."""
        if self.remark:
            return f"{self.label}: {self.remark}"
        if self.half is None:
            return f"{self.label}: no times to compare"
        until = "a decision" if self.rule.until is None else f"±{percent(self.rule.until)}"
        head = f"{self.label}: ratio {spread(self.half)}"
        if self.reached:
            return f"{head}, no more repeats needed"
        if self.tried >= self.rule.at_most:
            missed = f"{until} was not reached in" if self.rule.until else "undecided after"
            return f"{head}; {missed} {self.tried} repeats"
        if self.needed is None and self.rule.is_race:
            return head
        if self.needed is None and self.rule.until is None:
            return f"{head}; undecided so far"
        if self.needed is None or self.is_out_of_reach:
            many = f"about {round(self.needed, 2 - len(str(self.needed)))}" if self.needed else "more than 999"
            return f"{head}; {until} needs {many} repeats; the limit is {self.rule.at_most}"
        return f"{head}, about {plural(self.needed - self.tried, 'more repeat')}" + (f", {time}" if time else "")


def spread(half: float) -> str:
    """Return the half-width of a ratio's interval, a fraction: ±17%; above ±30% as a factor."""
    return f"±{percent(half)}" if half <= 0.3 else f"uncertain by a factor of {1 + half:.2g}"


def percent(fraction: float) -> str:
    """Return a fraction with two significant digits as a percentage: 3.1%, 22%."""
    return f"{100 * fraction:.2g}%" if fraction < 0.995 else f"{100 * fraction:.0f}%"
