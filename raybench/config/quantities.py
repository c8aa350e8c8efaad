"""Quantities that a grid file may write with their unit: how long, and how much memory."""

from __future__ import annotations

import re
from typing import Annotated

from pydantic import AfterValidator, ByteSize, Field, TypeAdapter

from raybench.config.values import expected

_DURATION = re.compile(r"^(?=.*[1-9])(?=.*[hms]$)([0-9]{1,9}h)?([0-9]{1,9}m)?([0-9]{1,9}s)?$")
# Stricter than ByteSize, which ignores what follows a size and takes the G of 2G for 10^9.
_SIZE = re.compile(r"^(?=.*[1-9])[0-9]{1,9}(\.[0-9]{1,9})? ?[KMGT]i?B$")
_BYTES = TypeAdapter(ByteSize)


def _seconds(value: float | str) -> float:
    if isinstance(value, str):
        return float(
            sum(int(token[:-1]) * {"h": 3600, "m": 60, "s": 1}[token[-1]] for token in re.findall(r"\d+.", value))
        )
    return value


Duration = Annotated[
    Annotated[float, Field(gt=0)] | Annotated[str, Field(pattern=_DURATION)],
    AfterValidator(_seconds),
    expected("seconds above 0, or a text such as 90s, 30m, 2h or 1h30m"),
]

Size = Annotated[
    Annotated[int, Field(ge=1)] | Annotated[str, Field(pattern=_SIZE)],
    AfterValidator(lambda size: int(_BYTES.validate_python(size))),
    expected("bytes above 0, or a text such as 512MiB, 2GiB or 1.5GB"),
]
