"""One driver a results folder: who has it keeps it until he ends, however he ends.

Two locks, since neither is enough alone. The system's own (flock) is let go of when its holder dies, at once and
surely; but some network file systems keep it to one host, and some have none. So the holder also leaves a note of who
he is and touches it every few seconds: another host sees it there, and that it is fresh. What is left: where a file
system has no flock, two drivers that start within the same instant may both find the folder free.
"""

from __future__ import annotations

import errno
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryFile
from threading import Event, Thread

from filelock import FileLock, Timeout

from raybench.errors import ResultsLockedError, UsageError
from raybench.tracking.driver import Driver, this_driver
from raybench.trial.events import now

LOCK = ".lock"
HOLDER = ".lock.json"

BEAT = 20.0
"""Seconds between two signs of life of a holder."""

STALE = 120.0
"""Seconds without a sign of life after which a holder on another host is gone: NFS may show a file's time 60 s late."""


WITHOUT_FLOCK = (errno.ENOSYS, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOLCK)
"""How a file system says that it has no flock; the note alone has to do there."""

REMEDY = "wait for it, or name another folder with --results"


@contextmanager
def locked(results: Path, what: str = "a grid") -> Iterator[None]:
    """Hold a results folder, which is made where it is missing.

    Args:
        results: the folder.
        what: what it is held for, as whoever is refused is told.

    Raises:
        ResultsLockedError: another driver has it; the message says whose it is.
        UsageError: the folder cannot be written to.
    """
    folder = results.absolute()
    lock = FileLock(folder / LOCK)
    holder = folder / HOLDER
    over = Event()
    try:
        folder.mkdir(parents=True, exist_ok=True)
        _acquire(lock)
        try:
            _refuse_where_held(folder, holder, lock.is_locked)
            told = {"driver": this_driver().to_json(), "what": what, "since": now()}
            holder.write_text(json.dumps(told), encoding="utf-8")
        except (OSError, ResultsLockedError):
            lock.release()
            raise
    except Timeout:
        raise ResultsLockedError(f"{folder}: {_who(holder)}; {REMEDY}") from None
    except OSError as error:
        raise UsageError(f"{folder}: cannot keep results there: {error.strerror or error}") from None
    Thread(target=_beat, args=(holder, over), name="raybench-lock", daemon=True).start()
    try:
        yield
    finally:
        over.set()
        # A folder that was taken away meanwhile has nothing left to let go of.
        with suppress(OSError):
            holder.unlink(missing_ok=True)
        lock.release()


def _acquire(lock: FileLock) -> None:
    """Take the system's lock, where the file system has one.

    Raises:
        Timeout: somebody else has it.
        OSError: its file cannot be written.
    """
    try:
        lock.acquire(blocking=False)
    except NotImplementedError:
        return
    except OSError as error:
        if error.errno not in WITHOUT_FLOCK:
            raise


def _refuse_where_held(folder: Path, holder: Path, exclusive: bool) -> None:
    """Look at a note that somebody left.

    Raises:
        ResultsLockedError: it is of a driver that lives, or may.
    """
    driver = _told(holder)[0]
    # On one host flock never fails: whoever has it and finds a note of this host knows that its writer has let go.
    if driver is None or (exclusive and driver.boot and driver.boot == this_driver().boot):
        return
    silent = _age(folder, holder)
    if driver.lives is False or (driver.lives is None and silent > STALE):
        return
    heard = (
        ""
        if driver.lives
        else f", heard of {silent:.0f} s ago: without it the folder is free in {STALE - silent:.0f} s"
    )
    raise ResultsLockedError(f"{folder}: {_who(holder)}{heard}; {REMEDY}")


def _age(folder: Path, holder: Path) -> float:
    """Seconds since a holder's last sign of life, by the clock of the file system, which every host shares."""
    with TemporaryFile(dir=folder) as file:
        file.write(b"\n")
        file.flush()
        return max(0.0, os.fstat(file.fileno()).st_mtime - holder.stat().st_mtime)


def _beat(holder: Path, over: Event) -> None:
    while not over.wait(BEAT):
        with suppress(OSError):
            os.utime(holder)


def _told(holder: Path) -> tuple[Driver | None, str]:
    """What a note says: whose it is, and since when for what."""
    try:
        told = json.loads(holder.read_text(encoding="utf-8"))
        return Driver.from_json(told["driver"]), f"{told['what']} is running here since {told['since']}"
    except (OSError, ValueError, KeyError, TypeError):
        return None, ""


def _who(holder: Path) -> str:
    driver, words = _told(holder)
    return f"{words} ({driver})" if driver else "another grid is running here (it has only just begun)"
