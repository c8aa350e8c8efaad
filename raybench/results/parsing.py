"""Values of files that anybody may have edited: one of the wrong type counts as missing."""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from raybench.core.cell import UNKNOWN_CELL, Cell

LARGEST = 2**63  # upper limit of whole numbers in a file; a larger one is treated as damage
LARGEST_FLOAT = 1e100  # the same of other numbers: sums of squares of smaller ones do not overflow
_PARTS = ("workload", "data", "device", "engine", "settings")  # parts of a cell that must be maps, if present


def mapping_in(value: Any) -> Mapping[str, Any]:
    """A map; empty for any other value."""
    # The maps of JSON are dicts; checking the exact type first is ten times as fast.
    return value if type(value) is dict or (value is not None and isinstance(value, Mapping)) else {}


@lru_cache(4096)
def map_in(text: bytes | str) -> Mapping[str, Any]:
    """The map in a JSON text; empty if it is none, or a number at any depth is out of range. Equal texts share it."""
    try:
        mapping = mapping_in(json.loads(text))
        return mapping if _is_sound(mapping) else {}
    except (ValueError, RecursionError):
        return {}


def _is_sound(value: Any) -> bool:
    kind = type(value)
    if kind is dict or kind is list:
        return all(map(_is_sound, value.values() if kind is dict else value))
    return (kind is not float and kind is not int) or number_in(value) is not None


@lru_cache(4096)  # all runs of a cell share it
def cell_in(text: bytes | str) -> Cell:
    """The cell in a JSON text; unknown if a part has the wrong type, since the event of its start is then damaged."""
    tree = map_in(text)
    parts = [tree.get(name, {}) for name in _PARTS]
    parts.append(mapping_in(tree.get("data")).get("examples", {}))
    try:
        return Cell.from_json(tree) if all(isinstance(part, Mapping) for part in parts) else UNKNOWN_CELL
    except (TypeError, ValueError, RecursionError):
        return UNKNOWN_CELL


def text_in(value: Any) -> str | None:
    """A text, or None."""
    return value if isinstance(value, str) else None


def number_in(value: Any) -> float | None:
    """A finite number of which a float can hold the square, or None."""
    if isinstance(value, float):
        return value if abs(value) < LARGEST_FLOAT else None
    return float(value) if type(value) is int and abs(value) < LARGEST else None
