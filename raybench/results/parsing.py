"""Values of files that anybody may have edited: one of the wrong type counts as missing."""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from raybench.core.cell import UNKNOWN_CELL, Cell

LARGEST = 2**63  # upper limit of whole numbers in a file; a larger one is treated as damage
LARGEST_FLOAT = 1e100  # the same of other numbers: sums of squares of smaller ones do not overflow


def mapping_in(value: Any) -> Mapping[str, Any]:
    """A map; empty for any other value."""
    # The maps of JSON are dicts; checking the exact type first is ten times as fast.
    return value if type(value) is dict or (value is not None and isinstance(value, Mapping)) else {}


@lru_cache(4096)
def map_in(text: bytes | str) -> Mapping[str, Any]:
    """The map in a JSON text; empty if it is none. Equal texts share it."""
    try:
        return mapping_in(json.loads(text))
    except (ValueError, RecursionError):
        return {}


@lru_cache(4096)  # all runs of a cell share it
def cell_in(text: bytes | str) -> Cell:
    """The cell in a JSON text; unknown if a part has the wrong type."""
    try:
        return Cell.from_json(map_in(text))
    except (TypeError, ValueError, AttributeError):
        return UNKNOWN_CELL


def number_in(value: Any) -> float | None:
    """A finite number of which a float can hold the square, or None."""
    if isinstance(value, float):
        return value if abs(value) < LARGEST_FLOAT else None
    return float(value) if type(value) is int and abs(value) < LARGEST else None
