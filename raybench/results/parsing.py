"""What an event has under a name, of the type that it should be; nothing where it is of another."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from raybench.core.cell import UNKNOWN_CELL, Cell
from raybench.core.job import Target

LARGEST = 2**63
"""A whole number in a journal is smaller than this; a longer one is damage."""


CELL_PARTS = ("workload", "data", "device", "engine", "settings")
"""What of a cell is a map, where it is there."""


def mapping_in(value: Any) -> Mapping[str, Any]:
    """A map; empty where there is none."""
    # A journal's maps are dicts, and asking for the exact type first is ten times as fast.
    return value if type(value) is dict or isinstance(value, Mapping) else {}


def valid_values_in(value: Any) -> Mapping[str, Any]:
    """A map; empty where a number in it, however deep, is damage."""
    return value if isinstance(value, Mapping) and _is_sound(value) else {}


def _is_sound(value: Any) -> bool:
    if isinstance(value, (Mapping, list)):
        return all(map(_is_sound, value.values() if isinstance(value, Mapping) else value))
    return not isinstance(value, (int, float)) or isinstance(value, bool) or number_in(value) is not None


def flat_in(value: Any) -> Mapping[str, Any]:
    """What in a map is a text or a whole number."""
    return {
        name: item for name, item in mapping_in(value).items() if isinstance(item, str) or whole_in(item) is not None
    }


ERROR_TEXTS = ("type", "message", "phase", "where", "traceback", "output")
"""What of an error is a text, where it is there."""


def error_in(value: Any) -> Mapping[str, Any]:
    """An error, without what should be a text and is none."""
    return {name: item for name, item in mapping_in(value).items() if name not in ERROR_TEXTS or isinstance(item, str)}


def cell_in(value: Any) -> Cell:
    """A cell; unknown where one of its parts is not what it should be, for then the start of its trial is damaged."""
    try:
        return _cell_of(json.dumps(mapping_in(value), allow_nan=False))
    except (TypeError, ValueError, RecursionError):
        return UNKNOWN_CELL


@lru_cache(maxsize=4096)
def _cell_of(text: str) -> Cell:
    # The trials of a cell all tell of it, and reading it takes longer than writing its JSON.
    tree = valid_values_in(json.loads(text))
    parts = [tree.get(name, {}) for name in CELL_PARTS]
    parts.append(mapping_in(tree.get("data")).get("examples", {}))
    return Cell.from_json(tree) if all(isinstance(part, Mapping) for part in parts) else UNKNOWN_CELL


def text_in(value: Any) -> str | None:
    """A text."""
    return value if isinstance(value, str) else None


def whole_in(value: Any) -> int | None:
    """A whole number that is not damage."""
    return value if type(value) is int and abs(value) < LARGEST else None


def number_in(value: Any) -> float | None:
    """A finite number."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    integer = whole_in(value)
    return None if integer is None else float(integer)


def numbers_in(value: Any) -> dict[str, float]:
    """A map of names to finite numbers, without what is none."""
    items = mapping_in(value).items()
    return {str(name): number for name, text in items if (number := number_in(text)) is not None}


def seconds_in(value: Any) -> dict[str, float]:
    """A map of names to times, of which none is negative."""
    return {name: seconds for name, seconds in numbers_in(value).items() if seconds >= 0}


def sequence_in(value: Any) -> tuple[float, ...]:
    """Numbers in their order; none where one of them is damaged, for each tells of its place."""
    numbers = [number_in(number) for number in value] if isinstance(value, list) else []
    valid = [number for number in numbers if number is not None]
    return tuple(valid) if len(valid) == len(numbers) else ()


def target_in(value: Any) -> Target | None:
    """A target."""
    fields = mapping_in(value)
    metric = text_in(fields.get("metric"))
    return Target(metric, number_in(fields.get("at_least")), number_in(fields.get("at_most"))) if metric else None
