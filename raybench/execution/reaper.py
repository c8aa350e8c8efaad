"""Cleans up after a driver that was killed: a process that outlives it ends what Ray leaves and removes its folders.

Ray's own processes go with their driver, but its agents take seconds to see that, and on a busy machine many. Runs as
`python -m raybench.execution.reaper DRIVER FOLDER`, as the driver's child, until its standard input ends.
"""

from __future__ import annotations

import os
import select
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import psutil

from raybench.core.files import PACKAGE
from raybench.core.temp_folders import sweep

EVERY = 0.3
"""Seconds between two looks while Ray starts; once it is up there is none until the end, for a trial would pay it."""

CLOSE_TIMEOUT = 10.0
"""Seconds that a driver waits for it."""

END_TIMEOUT = 5.0
"""Seconds in which a process that was killed has gone."""


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


def of_ray(driver: int, folder: str) -> set[psutil.Process]:
    """The children of a driver that have Ray's folder in their command lines, and all that descend from them."""
    processes = set()
    with suppress(psutil.Error):  # the driver has just ended
        for child in psutil.Process(driver).children():
            with suppress(psutil.Error):
                if folder in _command(child):
                    processes |= {child, *child.children(recursive=True)}
    return processes


def still_there(known: set[psutil.Process], folder: str) -> set[psutil.Process]:
    """What Ray still has running: what was known of, and what it has started since, as it does until it has ended.

    What a worker has started, such as a trial, is not Ray's: its guard ends it.
    """
    candidates = known | {each for each in psutil.process_iter() if _is_ray(each, folder) or _is_worker(each, known)}
    # The reaper is a child of the driver that has the folder in its command line, too.
    return {process for process in candidates if _runs(process) and process.pid != os.getpid()}


def _runs(process: psutil.Process) -> bool:
    """Whether it is there and no zombie; another process that was given its number is not it."""
    try:
        return process.is_running() and process.status() not in (psutil.STATUS_ZOMBIE, psutil.STATUS_DEAD)
    except psutil.Error:
        return False


def _is_ray(process: psutil.Process, folder: str) -> bool:
    command = _command(process)
    return "/ray/" in command and folder in command


def _is_worker(process: psutil.Process, known: set[psutil.Process]) -> bool:
    """Whether it is a worker at work: these have nothing in their command lines but what they do."""
    if not _command(process).startswith("ray::"):
        return False
    try:
        raylet = process.environ().get("RAY_RAYLET_PID", "")
    except psutil.Error:
        return False
    return raylet in {str(each.pid) for each in known}


def _command(process: psutil.Process) -> str:
    """Its command line; empty if it cannot be read."""
    try:
        return " ".join(process.cmdline())
    except psutil.Error:  # it has just ended, or is another user's
        return ""


def main(driver: int, folder: str) -> None:
    """Take note of what Ray starts for a driver; when that has gone, or is done, end what is left."""
    known: set[psutil.Process] = set()
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
    while (processes := still_there(known, folder)) and time.monotonic() < deadline:
        for process in processes:
            with suppress(psutil.Error):
                process.kill()
        # Until one has ended it writes and holds its locks.
        time.sleep(0.02)
    sweep()


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2])
