"""Temporary folders that are removed even if their owner is killed.

The owner removes a folder; if it was killed, the next process that makes a folder does.

A folder is in use as long as a process holds the lock on a file in it; the system releases the lock with its last
holder.
"""

from __future__ import annotations

import errno
import fcntl
import os
import shutil
import stat
import tempfile
import time
from pathlib import Path

PREFIX = "rb-"
"""Name prefix, short because a socket's path has at most 107 bytes."""

LOCK = ".lock"

LONGEST = 25
"""Maximum length of the temporary folder's path for Ray's sockets.

Ray's own part of a socket path takes 78 of 103 characters."""

OTHERS = ("/tmp", "/var/tmp")  # noqa: S108 — what is made there is private
"""Locations of Ray's folder if the system's temporary folder is unsuitable."""

ROOM, INODES = 10 << 20, 200
"""Minimum free bytes and inodes for Ray's folder.

The logs of a short grid take about 1 MB."""

NO_FOLDER = f"""none of {{}}, {{}} and {{}} has room for {ROOM >> 20} MiB and {INODES} files, and a path of at most \
{LONGEST} ASCII characters"""

TRIES = 20
"""Attempts, every 50 ms, to empty a folder still written to."""


class Scratch:
    """A new folder in the system's temporary folder.

    Creating one also removes the abandoned folders of killed processes. Processes forked from its creator hold it too.

    Args:
        for_ray: whether Ray keeps its sockets and logs there, which need a short path in ASCII, and free space.

    Raises:
        OSError: it cannot be made.
    """

    def __init__(self, for_ray: bool = False) -> None:
        sweep()
        folders = _for_ray() if for_ray else [tempfile.gettempdir()]
        if not folders:
            raise FileNotFoundError(errno.ENOENT, NO_FOLDER.format(tempfile.gettempdir(), *OTHERS))
        self.path, self._lock = _make(folders[0])

    @property
    def removed(self) -> bool:
        """Return whether another program has removed the folder or its contents."""
        return self._lock >= 0 and not os.fstat(self._lock).st_nlink

    def close(self) -> None:
        """Remove the folder; repeated calls are allowed."""
        if self._lock >= 0:
            _remove(self.path)
            os.close(self._lock)
            self._lock = -1


def _for_ray() -> list[str]:
    """Folders that Ray can use: the system's temporary folder and its fallbacks.

    A folder is left out if its path is too long (as on macOS) or not ASCII, or if it is full.
    """
    folders = dict.fromkeys([tempfile.gettempdir(), *OTHERS])
    return [folder for folder in folders if folder.isascii() and len(folder) <= LONGEST and _has_room(folder)]


def _has_room(folder: str) -> bool:
    try:
        disk = os.statvfs(folder)
    except OSError:
        return False
    # Some file systems do not count inodes.
    enough = disk.f_bavail * disk.f_frsize >= ROOM and (not disk.f_files or disk.f_favail >= INODES)
    return enough and os.access(folder, os.W_OK | os.X_OK)


def _make(folder: str) -> tuple[Path, int]:
    while True:
        path = Path(tempfile.mkdtemp(prefix=PREFIX, dir=folder))
        lock = os.open(path / LOCK, os.O_RDWR | os.O_CREAT, 0o600)
        # A concurrent sweep may have taken it for an abandoned folder.
        if _take(lock) and os.fstat(lock).st_nlink:
            return path, lock
        os.close(lock)
        shutil.rmtree(path, ignore_errors=True)


def sweep() -> None:
    """Remove abandoned folders of this user."""
    folders = {tempfile.gettempdir(), *OTHERS}
    for path in (path for folder in folders for path in Path(folder).glob(f"{PREFIX}*")):
        try:
            info = path.lstat()
            if not stat.S_ISDIR(info.st_mode) or info.st_uid != os.getuid():
                continue
            lock = os.open(path / LOCK, os.O_RDWR | os.O_NOFOLLOW)
        except OSError:
            continue
        if _take(lock):
            _remove(path)
        os.close(lock)


def _remove(path: Path) -> None:
    """Remove a folder, its lock last.

    A folder that cannot be removed now is then found by a later `sweep`.
    """
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
        except OSError:  # a process has just written into it
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
