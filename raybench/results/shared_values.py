"""Values that the trials of a grid have in common: equal ones are parsed once and are the same object."""

from __future__ import annotations

from collections.abc import Callable, Mapping, MutableMapping
from typing import Any, TypeVar
from weakref import WeakValueDictionary

import msgspec

from raybench.core.cell import UNKNOWN_CELL, Cell
from raybench.results import parsing

T = TypeVar("T")

MOST = 4096
"""Maximum number of maps that are remembered."""

_CELLS: WeakValueDictionary[bytes, Cell] = WeakValueDictionary()  # a cell takes 10 KiB
_MAPS: dict[bytes, Mapping[str, Any]] = {}
_TEXTS: dict[bytes, Mapping[str, Any]] = {}


def cell_in(value: Any) -> Cell:
    """A cell (`raybench.results.parsing.cell_in`)."""
    return _shared(value, parsing.cell_in, _CELLS) if value else UNKNOWN_CELL


def valid_values_in(value: Any) -> Mapping[str, Any]:
    """A map of valid values (`raybench.results.parsing.valid_values_in`)."""
    return _shared(value, parsing.valid_values_in, _MAPS)


def flat_in(value: Any) -> Mapping[str, Any]:
    """A map of texts and whole numbers (`raybench.results.parsing.flat_in`)."""
    return _shared(value, parsing.flat_in, _TEXTS)


def _shared(value: Any, parse: Callable[[Any], T], known: MutableMapping[bytes, T]) -> T:
    try:
        key = msgspec.msgpack.encode(value)  # differs between a whole number and a float
    except (TypeError, ValueError, OverflowError, RecursionError):  # no JSON, or too large
        return parse(value)
    found = known.get(key)
    if found is None:
        if known is not _CELLS and len(known) >= MOST:
            known.clear()
        found = known[key] = parse(value)
    return found
