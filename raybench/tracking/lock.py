"""One driver a results folder: who has it keeps it until he ends, however he ends."""

from __future__ import annotations

import json
import os
import platform
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from filelock import FileLock, Timeout

from raybench.errors import ResultsLockedError, UsageError

LOCK = ".lock"
HOLDER = ".lock.json"


@contextmanager
def locked(results: Path) -> Iterator[None]:
    """Hold a results folder, which is made where it is missing.

    The system lets go of the lock when its holder dies, so that none is ever left behind.

    Raises:
        ResultsLockedError: another grid is running on it; the message says whose.
        UsageError: the folder cannot be written to.
    """
    folder = results.absolute()
    lock = FileLock(folder / LOCK)
    holder = folder / HOLDER
    try:
        folder.mkdir(parents=True, exist_ok=True)
        lock.acquire(blocking=False)
        try:
            holder.write_text(json.dumps({"host": platform.node(), "pid": os.getpid()}), encoding="utf-8")
        except OSError:
            lock.release()
            raise
    except Timeout:
        raise ResultsLockedError(
            f"{folder}: another grid is running here ({_who(holder)}); "
            "wait for it, or name another folder with --results"
        ) from None
    except OSError as error:
        raise UsageError(f"{folder}: cannot keep results there: {error.strerror or error}") from None
    try:
        yield
    finally:
        holder.unlink(missing_ok=True)
        lock.release()


def _who(holder: Path) -> str:
    try:
        told = json.loads(holder.read_text(encoding="utf-8"))
        return f"process {int(told['pid'])} on {told['host']}"
    except (OSError, ValueError, KeyError, TypeError):
        return "it has only just begun"
