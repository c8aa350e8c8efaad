"""The output of a trial, of which the head and the tail are kept."""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from pathlib import Path

from raybench.core.events import OUTPUT

KEPT_BYTES = 1 << 20  # size of the head of an output that is kept, and of its tail

NOTE = b"\n[raybench: the middle of this long output was not kept]\n"


def write_through(chunk: bytes, folder: Path) -> None:
    """Write a part of a command's output to the trial's own."""
    with suppress(OSError):
        sys.stdout.flush()
        os.write(1, chunk)
    cut_output(folder)


def cut_output(folder: Path) -> None:
    """Remove the middle of an attempt's output if it is long; the writers append to the file."""
    with suppress(OSError):
        path = folder / OUTPUT
        if path.stat().st_size < 4 * KEPT_BYTES:
            return
        with path.open("r+b") as file:
            file.seek(-KEPT_BYTES, os.SEEK_END)
            tail = file.read()
            file.seek(KEPT_BYTES)
            file.write(NOTE + tail)
            file.truncate()
