"""Whoever started Ray on this machine may be killed: a process that outlives him ends what Ray leaves, and his folders.

Ray's own processes go with their driver, but its agents take seconds to see that, and on a busy machine many. Runs as
`python -m raybench.execution.reaper DRIVER FOLDER`, as the driver's child, until its standard input ends.
"""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

from raybench.core.files import PACKAGE
from raybench.core.temp_folders import sweep

EVERY = 0.3
"""Seconds between two looks while Ray starts; once it is up there is none until the end, for a trial would pay it."""

CLOSE_TIMEOUT = 10.0
"""Seconds that a driver waits for it."""

END_TIMEOUT = 5.0
"""Seconds in which a process that was killed has gone."""

Known = dict[int, str]
"""Processes, each with when it began: numbers are given out again."""


class Reaper:
    """The driver's side of it. Start it before Ray.

    Args:
        folder: in which Ray keeps what is temporary; its processes have that in their command lines.

    Raises:
        OSError: it cannot be started.
    """

    def __init__(self, folder: Path) -> None:
        package = str(PACKAGE.parent)
        path = os.pathsep.join(filter(None, [package, os.environ.get("PYTHONPATH")]))
        self._process = subprocess.Popen(
            [sys.executable, "-P", "-m", "raybench.execution.reaper", str(os.getpid()), str(folder)],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            env={**os.environ, "PYTHONPATH": path},
            start_new_session=True,
        )

    def ray_is_up(self) -> None:
        """Have it take note of what there is now, and look no more."""
        assert self._process.stdin
        with suppress(BrokenPipeError):
            self._process.stdin.write(b"\n")
            self._process.stdin.flush()

    def close(self) -> None:
        """Have it end what is left of Ray, and wait for that, but not for ever: it has little to do."""
        assert self._process.stdin
        with suppress(BrokenPipeError):
            self._process.stdin.close()
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(CLOSE_TIMEOUT)


def processes() -> dict[int, tuple[int, str]]:
    """Every process that runs, with its parent and when it began; none where /proc does not tell."""
    running = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):  # it has just ended
            # The second field, a name, may hold anything.
            fields = stat.read_text(errors="replace").rpartition(") ")[2].split()
            if fields[0] not in "ZX":  # one that has ended and was not waited for
                running[int(stat.parent.name)] = int(fields[1]), fields[19]
    return running


def of_ray(driver: int, folder: str) -> Known:
    """The children of a driver that have Ray's folder in their command lines, and all that descend from them."""
    running = processes()
    pids = {pid for pid, (parent, _) in running.items() if parent == driver and _names(pid, folder)}
    while descendants := {pid for pid, (parent, _) in running.items() if parent in pids} - pids:
        pids |= descendants
    return {pid: running[pid][1] for pid in pids}


def still_there(known: Known, folder: str) -> set[int]:
    """What Ray still has running: what was known of, and what it has started since, as it does until it has ended.

    What a worker has started, such as a trial, is not Ray's: its guard ends it.
    """
    running = processes()
    pids = {pid for pid, start_time in known.items() if pid in running and running[pid][1] == start_time}
    pids |= {pid for pid in running if _is_ray(pid, folder) or _is_worker(pid, known)}
    return pids - {os.getpid()}  # the reaper is a child of the driver that has the folder in its command line, too


def _is_ray(pid: int, folder: str) -> bool:
    return b"/ray/" in read(pid, "cmdline") and _names(pid, folder)


def _is_worker(pid: int, known: Known) -> bool:
    """Whether it is a worker at work: these have nothing in their command lines but what they do."""
    if not read(pid, "cmdline").startswith(b"ray::"):
        return False
    environ = dict(entry.partition(b"=")[::2] for entry in read(pid, "environ").split(b"\0"))
    raylet = environ.get(b"RAY_RAYLET_PID", b"")
    return raylet.isdigit() and int(raylet) in known


def _names(pid: int, folder: str) -> bool:
    return folder.encode() in read(pid, "cmdline")


def read(pid: int, name: str) -> bytes:
    """A file of a process in /proc; empty if it cannot be read."""
    try:
        return Path(f"/proc/{pid}/{name}").read_bytes()
    except OSError:  # it has just ended, or is another user's
        return b""


def main(driver: int, folder: str) -> None:
    """Take note of what Ray starts for a driver; when that has gone, or is done, end what is left."""
    known: Known = {}
    poll = select.poll()
    poll.register(0, select.POLLIN)
    pause: float | None = EVERY * 1000
    while True:
        if poll.poll(pause):
            if not os.read(0, 1):
                break
            pause = None
        # Once the driver has gone, its number may be another's.
        ray_processes = of_ray(driver, folder)
        if os.getppid() == driver:
            known |= ray_processes
    deadline = time.monotonic() + END_TIMEOUT
    while (pids := still_there(known, folder)) and time.monotonic() < deadline:
        for pid in pids:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        # Until one has ended it writes and holds its locks.
        time.sleep(0.02)
    sweep()


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2])
