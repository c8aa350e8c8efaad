"""Word lists and text that is safe to print in a terminal.

Text in a journal or a CSV from an untrusted source may contain terminal control sequences: clear the screen, write to
the clipboard, display a sentence in another order.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

_COMMANDS = "\x00-\x08\x0b-\x1f\x7f-\x9f"
"""Control characters of ASCII and Latin-1, except tab and newline.

ESC begins most sequences, 0x9B and 0x9D others, and a carriage return lets a line overwrite itself."""

_DIRECTIONS = "\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069"
"""Characters that change the direction of text, and two further line separators.

Direction marks make text display differently from its content."""

_SURROGATES = "\ud800-\udfff"
"""Surrogate code points; no encoding can write one alone."""

_UNPRINTABLE = re.compile(f"[{_COMMANDS}{_DIRECTIONS}{_SURROGATES}]")


def printable(text: str) -> str:
    """Remove terminal control characters; replace each lone surrogate by U+FFFD.

    The result has the same display width, since the removed characters take no columns.
    """
    return _UNPRINTABLE.sub(lambda found: "\ufffd" if "\ud800" <= found[0] <= "\udfff" else "", text)


def printable_json(text: str) -> str:
    """JSON of the same value, with all terminal control characters escaped."""
    return _UNPRINTABLE.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


def join_words(words: Sequence[str], conjunction: str = "and") -> str:
    """Join words into a list: "a", "a and b", "a, b and c"."""
    return f" {conjunction} ".join(filter(None, (", ".join(words[:-1]), *words[-1:])))
