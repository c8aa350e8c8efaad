"""Atomic writes: append to a file, or replace a whole file."""

from __future__ import annotations

import errno
import os
import tempfile
from contextlib import suppress
from pathlib import Path

PACKAGE = Path(__file__).parent.parent
"""The folder of the package `raybench`."""

FULL = frozenset({errno.ENOSPC, errno.EDQUOT})
"""Error numbers that mean that the disk or the user's quota is full."""


def append(fd: int, data: bytes) -> None:
    """Append data completely to a file opened with O_APPEND.

    On failure, the file is restored.

    Raises:
        OSError: it cannot be written, for example because the disk is full.
    """
    size_before, done = os.fstat(fd).st_size, 0
    try:
        while done < len(data):
            done += os.write(fd, data[done:])
    except OSError:
        with suppress(OSError):
            # Unless another process has appended to it in the meantime.
            if os.fstat(fd).st_size == size_before + done:
                os.ftruncate(fd, size_before)
        raise


def append_to(path: Path, data: bytes) -> None:
    """Append data to a file by path, as `append` does.

    The file is created if it is missing.

    Raises:
        OSError: it cannot be written.
    """
    fd = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o666)
    try:
        append(fd, data)
    finally:
        os.close(fd)


def write_atomic(path: Path, text: str) -> None:
    """Replace a file atomically; on failure, the old file stays.

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
