"""Temporary folders that do not stay: whoever made one removes it, and where he was killed, the next one who makes one.

A folder is in use as long as anyone holds the lock on a file in it, which the system lets go of with its last holder.
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
"""Short, for sockets are made in such folders, and the path of one has 107 bytes at most."""

LOCK = ".lock"

LONGEST = 25
"""Characters of a temporary folder in which Ray's sockets have room: their own part of the path takes 78 of 103."""

OTHERS = ("/tmp", "/var/tmp")  # noqa: S108 — what is made there is private
"""Where Ray's folder is made if it cannot be in the system's temporary folder."""

ROOM, INODES = 10 << 20, 200
"""Bytes and files that Ray's folder has room for; the logs of a short grid take about 1 MB."""

NO_FOLDER = f"""none of {{}}, {{}} and {{}} has room for {ROOM >> 20} MiB and {INODES} files, and a path of at most \
{LONGEST} ASCII characters"""

TRIES = 20
"""How often a folder is emptied into which somebody still writes, every 50 ms."""


class Scratch:
    """A new folder in the system's temporary folder; those of others who were killed are removed by the way.

    Processes that are forked from its maker hold it too.

    Args:
        for_ray: whether Ray keeps its sockets and logs there, which need a short path in ASCII, and room.

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
        """Whether another program has removed the folder, or its contents."""
        return self._lock >= 0 and not os.fstat(self._lock).st_nlink

    def close(self) -> None:
        """Remove it; more than once is no harm."""
        if self._lock >= 0:
            _remove(self.path)
            os.close(self._lock)
            self._lock = -1


def _for_ray() -> list[str]:
    """Folders that Ray can use: the system's temporary folder and, if its path is too long (as on macOS) or not ASCII,
    or it is full, others.
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
        # Somebody who sweeps may have taken it for one that is no longer in use.
        if _take(lock) and os.fstat(lock).st_nlink:
            return path, lock
        os.close(lock)
        shutil.rmtree(path, ignore_errors=True)


def sweep() -> None:
    """Remove what nobody holds any more of this user's folders."""
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
