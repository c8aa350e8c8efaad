"""A process's place among those that train one model together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeVar

T = TypeVar("T")


@dataclass(frozen=True)
class Rank:
    """One of the processes that train a model together, or the only one.

    Attributes:
        number: from 0.
        count: how many there are.
        meeting: the file through which they find one another.
    """

    number: int = 0
    count: int = 1
    meeting: str = ""

    def share(self, values: Sequence[T]) -> Sequence[T]:
        """Its contiguous part of what is divided evenly; where there is less than one for each, they share."""
        if 0 < len(values) < self.count:
            return [values[self.number % len(values)]]
        size = len(values) // self.count
        return values[self.number * size : (self.number + 1) * size]


_here = Rank()


def current_rank() -> Rank:
    """The rank that this process is."""
    return _here


def set_rank(rank: Rank) -> None:
    """Make this process that rank, for good."""
    global _here
    _here = rank
