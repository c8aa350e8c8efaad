"""Values and word lists as text, and text that is safe to print in a terminal.

Text in an attempt's file or a CSV from an untrusted source may contain terminal control sequences: clear the screen,
write to the clipboard, display a sentence in a different order.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from typing import Any

MAX_NAMES = 4  # maximum number of names in a sentence

_UNPRINTABLE = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f"  # control characters, except tab and newline
    "\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069"  # change of the direction of text, and line separators
    "\ud800-\udfff]"  # surrogates, which no encoding can write alone
)


def flops_text(per_s: float) -> str:
    """A rate of floating-point operations: `94 GFLOP/s`."""
    power = min(5, max(0, int(math.log10(per_s) // 3))) if per_s > 0 else 0
    return f"{per_s / 1000**power:.3g} {('', 'k', 'M', 'G', 'T', 'P')[power]}FLOP/s"


def printable(text: str) -> str:
    """Remove terminal control characters; replace each lone surrogate by U+FFFD."""
    return _UNPRINTABLE.sub(lambda match: "\ufffd" if "\ud800" <= match[0] <= "\udfff" else "", text)


def printable_json(text: str) -> str:
    """JSON of the same value, with all terminal control characters escaped."""
    return _UNPRINTABLE.sub(lambda match: f"\\u{ord(match[0]):04x}", text)


def cut(text: str, most: int = 40) -> str:
    """A text or, if it is longer than this number of characters, its beginning."""
    return text if len(text) <= most else f"{text[: most - 1]}…"


def join_words(words: Sequence[str], conjunction: str = "and") -> str:
    """Join words into a list: "a", "a and b", "a, b and c"."""
    return f" {conjunction} ".join(filter(None, (", ".join(words[:-1]), *words[-1:])))


def plural(count: int, noun: str) -> str:
    """Format a count with its noun: 1 run, 3 runs."""
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def error_line(error: Mapping[str, Any], longest: int | None = None) -> str:
    """An error in one line: type, first line of the message, place: `KeyError: 'x' (train.py:12, rank 1)`."""
    lines = str(error.get("message") or "").strip().splitlines()
    line = ": ".join(str(part) for part in (error.get("type"), *lines[:1]) if part)
    line = line if longest is None else cut(line, longest)
    rank = f"rank {error.get('rank')}"
    places = [*filter(None, [error.get("where")]), *([rank] if "rank" in error and rank not in line else [])]
    return f"{line} ({', '.join(places)})" if places else line


def names_text(names: Sequence[str], separator: str = "; ") -> str:
    """List names, the first of many: "a; b; c; d; 3 more". Labels contain commas, so semicolons separate them."""
    more = len(names) - MAX_NAMES
    return separator.join([*names[:MAX_NAMES], *([f"{more:,} more"] if more > 0 else [])])


def format_value(value: Any) -> str:
    """Format a value in its usual notation: 0.0005 is 5e-4, a list has no spaces."""
    if isinstance(value, float):
        text = f"{value:g}"
        if value and abs(value) < 0.001:
            mantissa, exponent = f"{value:e}".split("e")
            text = f"{mantissa.rstrip('0').rstrip('.')}e{int(exponent)}"
        return text
    if isinstance(value, Mapping):
        return "{" + ",".join(f"{key}:{format_value(item)}" for key, item in value.items()) + "}"
    if isinstance(value, (list, tuple)):
        return "[" + ",".join(map(format_value, value)) + "]"
    return str(value)


def is_written(text: str, value: Any) -> bool:
    """Return whether a text is one notation of a value: 5.0e-4, 0.0005 and 5e-4 are the same."""
    if text in (str(value), format_value(value)):
        return True
    if isinstance(value, bool) or value is None:
        return text.lower() == ("null" if value is None else str(value).lower())
    try:
        return isinstance(value, int | float) and float(text) == value
    except ValueError:
        return False
