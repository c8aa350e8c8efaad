"""Atomic writes: a line at the end of a file, or a whole file."""

from __future__ import annotations

import errno
import os
import tempfile
from contextlib import suppress
from pathlib import Path

PACKAGE = Path(__file__).parent.parent
"""The folder of the package `raybench`."""

FULL = frozenset({errno.ENOSPC, errno.EDQUOT})
"""How a system says that a disk, or a person's share of it, is full."""


def append(fd: int, data: bytes) -> None:
    """Write all of it to the end of a file that was opened with O_APPEND; where that fails, the file is as it was.

    Raises:
        OSError: it cannot be written, say because the disk is full.
    """
    size_before, done = os.fstat(fd).st_size, 0
    try:
        while done < len(data):
            done += os.write(fd, data[done:])
    except OSError:
        with suppress(OSError):
            # Unless somebody else has written behind it.
            if os.fstat(fd).st_size == size_before + done:
                os.ftruncate(fd, size_before)
        raise


def append_to(path: Path, data: bytes) -> None:
    """The same for a file by its name, which is made where it is missing.

    Raises:
        OSError: it cannot be written.
    """
    fd = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o666)
    try:
        append(fd, data)
    finally:
        os.close(fd)


def write_atomic(path: Path, text: str) -> None:
    """Write a whole file in the place of the one that is there; where that fails, that one stays.

    Raises:
        OSError: it cannot be written.
    """
    fd, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}-")
    try:
        with os.fdopen(fd, "w", encoding="utf-8") as file:
            file.write(text)
        umask = os.umask(0)
        os.umask(umask)
        Path(name).chmod(0o666 & ~umask)
        Path(name).replace(path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise
