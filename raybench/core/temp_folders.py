"""Temporary folders that are removed even if their owner is killed.

The owner removes a folder; if it was killed, the next process that makes a folder does. A folder is in use as long as a
process holds the lock on a file in it; the system releases the lock with its last holder.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import stat
import tempfile
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path

PREFIX, LOCK = "rb-", ".lock"  # short, because a socket's path has at most 107 bytes

MAX_SOCKET_FOLDER_CHARS = 23
"""Maximum length of the temporary folder's path for Ray's sockets: Ray's own part takes 80 of 103 characters."""

RAY_FOLDER = "RAY_TMPDIR"
"""Environment variable: the folder of Ray's sessions; by default, the system's temporary folder."""

SHORT_FOLDER = "/tmp"  # noqa: S108 — what is made there is private


class Scratch:
    """A new folder in the system's temporary folder.

    Creating one also removes the abandoned folders of killed processes. Processes forked from its creator hold it too.

    Args:
        for_sockets: whether its path must be short and ASCII; /tmp is used if the system's folder (as on macOS) is not.
    """

    def __init__(self, for_sockets: bool = False) -> None:
        sweep()
        folder = tempfile.gettempdir()
        if for_sockets and (len(folder) > MAX_SOCKET_FOLDER_CHARS or not folder.isascii()):
            folder = SHORT_FOLDER
        self.path, self._lock = _make(folder)

    def close(self) -> None:
        """Remove the folder; repeated calls are allowed."""
        if self._lock >= 0:
            _remove(self.path)
            os.close(self._lock)
            self._lock = -1


@contextmanager
def short_ray_folder() -> Iterator[None]:
    """Let Ray, if the user's code starts it, make its sockets in a short folder."""
    if len(tempfile.gettempdir()) <= MAX_SOCKET_FOLDER_CHARS or RAY_FOLDER in os.environ:
        yield
        return
    with closing(Scratch(for_sockets=True)) as scratch:
        os.environ[RAY_FOLDER] = str(scratch.path)
        try:
            yield
        finally:
            del os.environ[RAY_FOLDER]


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
    for path in (path for folder in {tempfile.gettempdir(), SHORT_FOLDER} for path in Path(folder).glob(f"{PREFIX}*")):
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
    """Remove a folder, its lock last: if this process is killed, or others write there, the next sweep goes on."""
    with suppress(OSError):
        for entry in path.iterdir():
            if entry.is_dir() and not entry.is_symlink():
                shutil.rmtree(entry, ignore_errors=True)
            elif entry.name != LOCK:
                entry.unlink()
        if [entry.name for entry in path.iterdir()] == [LOCK]:
            shutil.rmtree(path)


def _take(lock: int) -> bool:
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True
