"""Atomic writes: append to a file, or replace a whole file."""

from __future__ import annotations

import errno
import os
import tempfile
from contextlib import suppress
from pathlib import Path

PACKAGE = Path(__file__).parent.parent  # the folder of the package `raybench`
FULL = frozenset({errno.ENOSPC, errno.EDQUOT})  # error numbers that mean that the disk or the user's quota is full


def append_to(path: Path, data: bytes) -> None:
    """Append data to a file, which is created if it is missing; on failure, it is left as it was."""
    with path.open("ab", buffering=0) as file:
        size = file.tell()
        try:
            while data:
                data = data[file.write(data) :]
        except OSError:
            with suppress(OSError):
                file.truncate(size)
            raise


def write_atomic(path: Path, text: str) -> None:
    """Replace a file atomically; on failure, the old file stays."""
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
