"""Text: lists of words, and text that is safe to show in a terminal.

Texts of a journal or a CSV from somebody else may hold sequences that command a terminal: clear the screen, write to
the clipboard, show a sentence in another order.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

_COMMANDS = "\x00-\x08\x0b-\x1f\x7f-\x9f"
"""The control characters of ASCII and of Latin-1, but for tab and newline: ESC begins most sequences, 0x9B and 0x9D
others, and a carriage return lets a line overwrite itself."""

_DIRECTIONS = "\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069"
"""Marks that change the direction of text, so that it reads otherwise than it is; and two further ends of a line."""

_SURROGATES = "\ud800-\udfff"
"""Halves of a character; no encoding can write one alone."""

_UNPRINTABLE = re.compile(f"[{_COMMANDS}{_DIRECTIONS}{_SURROGATES}]")


def printable(text: str) -> str:
    """A text without what commands a terminal; half a character becomes U+FFFD.

    The rest takes as many columns as before, since what is left out takes none.
    """
    return _UNPRINTABLE.sub(lambda found: "\ufffd" if "\ud800" <= found[0] <= "\udfff" else "", text)


def printable_json(text: str) -> str:
    """JSON of the same value, with all that commands a terminal as escapes."""
    return _UNPRINTABLE.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


def join_words(words: Sequence[str]) -> str:
    """Words as a list: "a", "a and b", "a, b and c"."""
    return " and ".join(filter(None, (", ".join(words[:-1]), *words[-1:])))
