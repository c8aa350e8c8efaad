"""Where a value comes from that raybench needs and the user may not have said."""

from __future__ import annotations

from enum import StrEnum


class Origin(StrEnum):
    """Where a value comes from."""

    SAID = "said"  # by the user
    RECOGNIZED = "recognized"  # by a name or a text that is known
    ASSUMED = "assumed"  # by nothing: an answer that depends on it has a caution
