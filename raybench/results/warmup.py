"""The rule by which an epoch is steady."""

from __future__ import annotations

from collections.abc import Iterable


def is_steady(number: int, warmup: int, gaps: Iterable[int] = (), epochs: float = 0) -> bool:
    """Return whether an epoch (from 1) is a full one after the warm-up.

    Args:
        number: the epoch.
        warmup: epochs that steady times leave out.
        gaps: epochs after which another process went on: it warms up too, in one epoch or more.
        epochs: those of the run; if it is not a whole number, the last one is shorter. 0 if it is not known.
    """
    is_cold = number <= warmup or any(gap < number <= gap + max(1, warmup) for gap in gaps)
    return not is_cold and not (epochs % 1 and number > epochs)
