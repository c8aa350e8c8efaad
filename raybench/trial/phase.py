"""The phase of a running trial, in a file.

The supervisor reads it to describe the end of a trial that dies.
"""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

FILE = "phase"

SETUP = "setup"


class Phase:
    """The current phase of an attempt.

    Entering a phase takes about 0.1 ms, so it must not be inside a timed section.

    Args:
        folder: the attempt's; created if it is missing.
    """

    def __init__(self, folder: Path) -> None:
        with suppress(OSError):
            folder.mkdir(parents=True, exist_ok=True)
        self._file = folder / FILE
        self.enter(SETUP)

    def enter(self, name: str) -> None:
        """Enter a phase."""
        self.now = name
        with suppress(OSError):  # a full disk: a missing phase is no reason to end a trial
            self._file.write_text(name, encoding="ascii")


def last(folder: Path) -> str:
    """The last phase of an attempt; `setup` if none was written."""
    try:
        return (folder / FILE).read_text(encoding="ascii") or SETUP
    except OSError:
        return SETUP
