"""Parameters of a user's training function."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from raybench.core.settings import PARAM, TRAINING

PASSED = frozenset(TRAINING) - {"model"} | {"framework", "per_device_batch_size", "threads"}
"""Settings that a function receives in a parameter of their name; any other parameter is one of `params`."""


def key_of(name: str) -> str:
    """The key of a parameter among the values of a cell: as axes are called."""
    return name if name in PASSED else f"{PARAM}{name}"


_TYPES: Mapping[str, tuple[type, ...]] = {"int": (int,), "float": (int, float), "bool": (bool,), "str": (str,)}
_WORDS = {"int": "an integer", "float": "a number", "bool": "true or false", "str": "a text"}


@dataclass(frozen=True)
class Parameter:
    """A keyword parameter of a training function.

    Attributes:
        type: `int`, `float`, `bool` or `str`; empty if any value is possible.
        required: whether it has no default.
        default: its value; None too if it is not plain data.
        is_plain: whether the default is plain data, and so a part of the cell.
    """

    type: str = ""
    required: bool = True
    default: Any = None
    is_plain: bool = False

    def problem(self, value: Any) -> str | None:
        """Why a value is not of its type, or None."""
        if self.type not in _TYPES or type(value) in _TYPES[self.type]:
            return None
        if value is None and not self.required and self.default is None:
            return None
        return f"{value!r:.60} is not allowed; use {_WORDS[self.type]}"

    def converted(self, value: Any) -> Any:
        """A value in its type: a whole number becomes a float."""
        return float(value) if self.type == "float" and type(value) is int else value


def with_other_batch_size(names: Iterable[str]) -> frozenset[str]:
    """The names, with both sizes of a batch if one is there: each follows from the other."""
    given, sizes = frozenset(names), frozenset({"batch_size", "per_device_batch_size"})
    return given if sizes.isdisjoint(given) else given | sizes
