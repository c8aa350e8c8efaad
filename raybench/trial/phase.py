"""What a trial is doing, for the one who has to name its end if it dies: a word in a file, written when it changes."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

FILE = "phase"

SETUP, DATA, BUILD, TRAIN, EVALUATE, PROFILE = "setup", "data", "build", "train", "evaluate", "profile"


class Phase:
    """The phase of an attempt. To enter another takes some 0.1 ms, and belongs outside of what is timed.

    Args:
        folder: the attempt's; made where it is missing.
    """

    def __init__(self, folder: Path) -> None:
        with suppress(OSError):
            folder.mkdir(parents=True, exist_ok=True)
        self._file = folder / FILE
        self.enter(SETUP)

    def enter(self, name: str) -> None:
        """Be in that phase."""
        self.now = name
        with suppress(OSError):  # a full disk: a word less is no reason to end a trial
            self._file.write_text(name, encoding="ascii")


def last(folder: Path) -> str:
    """The phase that an attempt was last in; `setup` where it did not come to tell one."""
    try:
        return (folder / FILE).read_text(encoding="ascii") or SETUP
    except OSError:
        return SETUP
