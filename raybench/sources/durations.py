"""Durations as people and programs write them: `12.3s`, `4m 8s`, `1:09`, `0:01:09.5`, `1.5 hours`."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import pairwise

NUMBER = r"\d+(?:\.\d+)?"
UNITS_S = {
    "us": 1e-6,
    **dict.fromkeys(("ms", "msec", "milliseconds"), 1e-3),
    **dict.fromkeys(("s", "sec", "secs", "second", "seconds"), 1.0),
    **dict.fromkeys(("m", "min", "mins", "minute", "minutes"), 60.0),
    **dict.fromkeys(("h", "hr", "hrs", "hour", "hours"), 3600.0),
    **dict.fromkeys(("d", "day", "days"), 86400.0),
}
"""Seconds of a unit by its names."""

LEAST_GROWTH = 0.25  # of times since the start, relative to the first; the first epoch may be slow
AMOUNTS = rf"(?:{NUMBER} ?(?:{'|'.join(UNITS_S)})(?![a-z_]) ?)+"
_CLOCK = re.compile(r"(?:(?:\d+:)?\d?\d:\d\d(?:\.\d+)?)")
_AMOUNTS = re.compile(AMOUNTS, re.IGNORECASE)


def duration_s(text: str) -> float | None:
    """Return the seconds of a duration; None if a text is none, such as a number without unit."""
    if _CLOCK.fullmatch(text):
        return sum(float(part) * 60.0**power for power, part in enumerate(reversed(text.split(":"))))
    if not _AMOUNTS.fullmatch(text):
        return None
    return sum(float(number) * UNITS_S[unit] for number, unit in re.findall(rf"({NUMBER}) ?([a-z]+)", text.lower()))


def are_elapsed(seconds: Sequence[float]) -> bool:
    """Return whether times are those since the start: unlike times of epochs, each grows by a part of the first."""
    growth = [after - before for before, after in pairwise(seconds)]
    return len(growth) > 1 and min(growth) > LEAST_GROWTH * seconds[0]
