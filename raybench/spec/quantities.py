"""Quantities that a grid file may write with their unit: how long, and how much memory."""

from __future__ import annotations

import re
from typing import Annotated, Any

from pydantic import BeforeValidator, Field, WithJsonSchema

from raybench.spec.values import wanted

_DURATION = re.compile(r"(?:(\d{1,9})h)?(?:(\d{1,9})m)?(?:(\d{1,9})s)?", re.ASCII)


def _seconds(value: Any) -> Any:
    """`1h30m` is 5400; what is no such text is left for the number's own check."""
    if isinstance(value, str) and value and (found := _DURATION.fullmatch(value)):
        hours, minutes, seconds = (int(part or 0) for part in found.groups())
        return float(hours * 3600 + minutes * 60 + seconds)
    return value


Duration = Annotated[
    float,
    Field(gt=0),
    BeforeValidator(_seconds),
    wanted("seconds above 0, or a text such as 90s, 30m, 2h or 1h30m"),
    WithJsonSchema(
        {
            "anyOf": [
                {"type": "number", "exclusiveMinimum": 0},
                {"type": "string", "pattern": r"^(?=.*[1-9])(?=.*[hms]$)([0-9]{1,9}h)?([0-9]{1,9}m)?([0-9]{1,9}s)?$"},
            ]
        }
    ),
]

_SIZE = re.compile(r"(\d{1,9}(?:\.\d{1,9})?) ?([KMGT])(i?)B", re.ASCII)


def _bytes(value: Any) -> Any:
    """`2GiB` is 2147483648, `2GB` is 2000000000; what is no such text is left for the number's own check."""
    if isinstance(value, str) and (found := _SIZE.fullmatch(value)):
        amount, unit, binary = found.groups()
        return round(float(amount) * (1024 if binary else 1000) ** (1 + "KMGT".index(unit)))
    return value


Size = Annotated[
    int,
    Field(ge=1),
    BeforeValidator(_bytes),
    wanted("bytes above 0, or a text such as 512MiB, 2GiB or 1.5GB"),
    WithJsonSchema(
        {
            "anyOf": [
                {"type": "integer", "minimum": 1},
                {"type": "string", "pattern": r"^(?=.*[1-9])[0-9]{1,9}(\.[0-9]{1,9})? ?[KMGT]i?B$"},
            ]
        }
    ),
]
