"""Temporary folders that do not stay: whoever made one removes it, and where he was killed, the next one who makes one.

A folder is in use as long as anyone holds the lock on a file in it, which the system lets go of with its last holder.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import stat
import tempfile
import time
from pathlib import Path

PREFIX = "rb-"
"""Short, for sockets are made in such folders, and the path of one has 107 bytes at most."""

LOCK = ".lock"

TRIES = 20
"""How often a folder is emptied into which somebody still writes, every 50 ms."""


class Scratch:
    """A new folder in the system's temporary folder; those of others who were killed are removed by the way.

    Processes that are forked from its maker hold it too.

    Raises:
        OSError: it cannot be made.
    """

    def __init__(self) -> None:
        sweep()
        self.path, self._lock = _make()

    def close(self) -> None:
        """Remove it; more than once is no harm."""
        if self._lock >= 0:
            _remove(self.path)
            os.close(self._lock)
            self._lock = -1


def _make() -> tuple[Path, int]:
    while True:
        path = Path(tempfile.mkdtemp(prefix=PREFIX))
        lock = os.open(path / LOCK, os.O_RDWR | os.O_CREAT, 0o600)
        # Somebody who sweeps may have taken it for one that is no longer in use.
        if _take(lock) and os.fstat(lock).st_nlink:
            return path, lock
        os.close(lock)
        shutil.rmtree(path, ignore_errors=True)


def sweep() -> None:
    """Remove what nobody holds any more of this user's folders."""
    for path in Path(tempfile.gettempdir()).glob(f"{PREFIX}*"):
        try:
            found = path.lstat()
            if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid():
                continue
            lock = os.open(path / LOCK, os.O_RDWR | os.O_NOFOLLOW)
        except OSError:
            continue
        if _take(lock):
            _remove(path)
        os.close(lock)


def _remove(path: Path) -> None:
    """Remove a folder, its lock last, so that what cannot be removed now is found by the next who sweeps."""
    for _ in range(TRIES):
        try:
            for entry in path.iterdir():
                if entry.name != LOCK:
                    shutil.rmtree(entry) if entry.is_dir() and not entry.is_symlink() else entry.unlink()
            if [entry.name for entry in path.iterdir()] == [LOCK]:
                (path / LOCK).unlink()
            path.rmdir()
        except FileNotFoundError:
            if not path.exists():
                return
        except OSError:  # somebody has just written into it
            pass
        else:
            return
        time.sleep(0.05)


def _take(lock: int) -> bool:
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True
