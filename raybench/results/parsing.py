"""Parse event fields defensively: a value of the wrong type counts as missing."""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from raybench.core.cell import UNKNOWN_CELL, Cell
from raybench.core.job import Target

LARGEST = 2**63
"""Upper limit of whole numbers in a file; a larger one is treated as damage."""

LARGEST_FLOAT = 1e100
"""The same of other numbers: sums of squares of smaller ones do not overflow."""


CELL_PARTS = ("workload", "data", "device", "engine", "settings")
"""Parts of a cell that must be maps, if present."""


def mapping_in(value: Any) -> Mapping[str, Any]:
    """A map; empty for any other value."""
    # The maps of JSON are dicts; checking the exact type first is ten times as fast.
    return value if type(value) is dict or (value is not None and isinstance(value, Mapping)) else {}


def valid_values_in(value: Any) -> Mapping[str, Any]:
    """A map; empty if it contains an invalid number at any depth."""
    mapping = mapping_in(value)
    return mapping if _is_sound(mapping) else {}


def shared_values_in(value: Any) -> Mapping[str, Any]:
    """The same as `valid_values_in`, of a map or its JSON; attempts of the same hardware and software share the map."""
    try:
        return _valid_values_of(_text(value))
    except (TypeError, ValueError, RecursionError):
        return {}


def _text(value: Any) -> str | bytes:
    return value if isinstance(value, bytes) else json.dumps(value)


@lru_cache(4096)
def _valid_values_of(text: str | bytes) -> Mapping[str, Any]:
    return valid_values_in(json.loads(text))


def _is_sound(value: Any) -> bool:
    """Return whether no number in a value of JSON is out of range."""
    kind = type(value)
    if kind is dict or kind is list:
        return all(map(_is_sound, value.values() if kind is dict else value))
    return (kind is not float and kind is not int) or number_in(value) is not None


def flat_in(value: Any) -> Mapping[str, Any]:
    """The entries of a map that are text or whole numbers."""
    return {
        name: item for name, item in mapping_in(value).items() if isinstance(item, str) or whole_in(item) is not None
    }


ERROR_TEXTS = ("type", "message", "phase", "where", "traceback", "output")
"""Fields of an error that must be text, if present."""


def error_in(value: Any) -> Mapping[str, Any]:
    """An error, without fields that should be text and are not."""
    return {name: item for name, item in mapping_in(value).items() if name not in ERROR_TEXTS or isinstance(item, str)}


def cell_in(value: Any) -> Cell:
    """A cell; unknown if a part has the wrong type, since the trial's start event is then damaged."""
    try:
        return _cell_of(_text(value))
    except (TypeError, ValueError, RecursionError):
        return UNKNOWN_CELL


@lru_cache(4096)  # all trials of a cell share it
def _cell_of(text: str | bytes) -> Cell:
    tree = valid_values_in(json.loads(text))
    parts = [tree.get(name, {}) for name in CELL_PARTS]
    parts.append(mapping_in(tree.get("data")).get("examples", {}))
    return Cell.from_json(tree) if all(isinstance(part, Mapping) for part in parts) else UNKNOWN_CELL


def text_in(value: Any) -> str | None:
    """A text, or None."""
    return value if isinstance(value, str) else None


def whole_in(value: Any) -> int | None:
    """A whole number below `LARGEST`, or None."""
    return value if type(value) is int and abs(value) < LARGEST else None


def number_in(value: Any) -> float | None:
    """A finite number of which a float can hold the square, or None."""
    if isinstance(value, float):
        return value if abs(value) < LARGEST_FLOAT else None
    integer = whole_in(value)
    return None if integer is None else float(integer)


def time_in(value: Any) -> float | None:
    """A number of seconds, which cannot be negative, or None."""
    number = number_in(value)
    return None if number is None or number < 0 else number


def target_in(value: Any) -> Target | None:
    """A target, or None."""
    fields = mapping_in(value)
    metric = text_in(fields.get("metric"))
    return Target(metric, number_in(fields.get("at_least")), number_in(fields.get("at_most"))) if metric else None
