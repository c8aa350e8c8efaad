"""The rank of a process among those that train one model together."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

T = TypeVar("T")


@dataclass(frozen=True)
class Rank:
    """One of the processes that train a model together, or the only one.

    Attributes:
        number, count: among all of them.
        local_number, local_count: among those on this node.
        meet: waits until all ranks have called it, and returns what rank 0 called it with.
    """

    number: int = 0
    count: int = 1
    local_number: int = 0
    local_count: int = 1
    meet: Callable[[Any], Any] = lambda value: value

    def share(self, values: Sequence[T]) -> Sequence[T]:
        """Return this rank's contiguous part of its node's values; ranks share them if there are fewer."""
        if 0 < len(values) < self.local_count:
            return [values[self.local_number % len(values)]]
        size = len(values) // self.local_count
        return values[self.local_number * size : (self.local_number + 1) * size]


_here = Rank()


def current_rank() -> Rank:
    """Return the rank of this process."""
    return _here


def set_rank(rank: Rank) -> None:
    """Set the rank of this process permanently."""
    global _here
    _here = rank
