"""The lock of a results folder: one driver at a time."""

from __future__ import annotations

import fcntl
import os
import platform
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from filelock import FileLock, Timeout

from raybench.core.events import now
from raybench.errors import ResultsLockedError, UsageError

LOCK = ".lock"
HOLDER = ".lock-holder"
"""A text file with a description of the holder; only used in the message to a driver that is refused."""

REMEDY = "wait for it or choose a different folder with --results"


@contextmanager
def locked(results: Path, purpose: str = "a grid") -> Iterator[None]:
    """Lock a results folder, created if missing.

    The system releases the lock when its holder ends, also if it is killed.

    Args:
        purpose: what runs on it, for the message to a second driver.

    Raises:
        ResultsLockedError: another driver holds the lock; the message names it.
        UsageError: the folder cannot be written or its file system has no locks.
    """
    folder = results.absolute()
    lock = FileLock(folder / LOCK, mode=0o600)  # who can open it can hold it
    holder = folder / HOLDER
    try:
        folder.mkdir(parents=True, exist_ok=True)
        lock.acquire(blocking=False)
        directory = _locked_folder(folder)
    except (Timeout, BlockingIOError):
        lock.release()
        raise ResultsLockedError(f"{folder}: {_description(holder)}; {REMEDY}") from None
    # filelock raises NotImplementedError on a file system without flock.
    except (OSError, NotImplementedError) as error:
        reason = getattr(error, "strerror", None) or error
        raise UsageError(f"Cannot write to {folder}: {reason}. Choose a different folder with --results.") from None
    try:
        with suppress(OSError):  # a full disk: the first trial reports it
            process = f"process {os.getpid()} on {platform.node()}"
            holder.write_text(f"{purpose} has been running here since {now()} ({process})", encoding="utf-8")
        yield
    finally:
        # The folder may have been removed or have become read-only.
        with suppress(OSError):
            holder.unlink(missing_ok=True)
        os.close(directory)
        lock.release()


def _locked_folder(folder: Path) -> int:
    """Lock the folder itself, too, as the file may be deleted meanwhile; return its descriptor."""
    directory = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(directory, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(directory)
        raise
    except OSError:  # a file system without locks of folders
        pass
    return directory


def _description(holder: Path) -> str:
    with suppress(OSError, ValueError):
        if text := holder.read_text(encoding="utf-8"):
            return text
    # The holder writes its name just after it has taken the lock.
    return "another raybench command is running here"
