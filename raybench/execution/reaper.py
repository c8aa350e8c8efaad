"""Clean up Ray processes and temporary folders if the driver is killed.

Ray's own processes end after their driver, but its agents take seconds to detect its end, and longer on a busy machine.
Runs as `python -m raybench.execution.reaper DRIVER FOLDER`, as the driver's child, until its standard input ends.
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
"""Seconds between two checks while Ray starts; later there is none until the end, as it would slow down trials."""

CLOSE_TIMEOUT = 10.0
"""Seconds that a driver waits for the reaper."""

END_TIMEOUT = 5.0
"""Seconds until a killed process must have ended."""


class Reaper:
    """The driver's handle of the reaper process. Start it before Ray.

    Args:
        folder: Ray's temporary folder; Ray's processes have it in their command lines.

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
        """Make it record the current processes and stop checking."""
        assert self._process.stdin
        with suppress(BrokenPipeError):
            self._process.stdin.write(b"\n")
            self._process.stdin.flush()

    def close(self) -> None:
        """Make it end the remaining Ray processes; wait up to `CLOSE_TIMEOUT`."""
        assert self._process.stdin
        with suppress(BrokenPipeError):
            self._process.stdin.close()
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(CLOSE_TIMEOUT)


def of_ray(driver: int, folder: str) -> set[psutil.Process]:
    """The driver's child processes that belong to Ray, and their descendants.

    They have Ray's folder in their command lines.
    """
    processes = set()
    with suppress(psutil.Error):  # the driver has just ended
        for child in psutil.Process(driver).children():
            with suppress(psutil.Error):
                if folder in _command(child):
                    processes |= {child, *child.children(recursive=True)}
    return processes


def still_there(known: set[psutil.Process], folder: str) -> set[psutil.Process]:
    """Ray's running processes: the known ones and those started since, as Ray starts some until it has ended.

    A worker's children, such as a trial, are not included: their guard ends them.
    """
    candidates = known | {each for each in psutil.process_iter() if _is_ray(each, folder) or _is_worker(each, known)}
    # The reaper, a child of the driver too, also has the folder in its command line.
    return {process for process in candidates if _runs(process) and process.pid != os.getpid()}


def _runs(process: psutil.Process) -> bool:
    """Return whether it is running: not a zombie, and not another process with the same id."""
    try:
        return process.is_running() and process.status() not in (psutil.STATUS_ZOMBIE, psutil.STATUS_DEAD)
    except psutil.Error:
        return False


def _is_ray(process: psutil.Process, folder: str) -> bool:
    command = _command(process)
    return "/ray/" in command and folder in command


def _is_worker(process: psutil.Process, known: set[psutil.Process]) -> bool:
    """Return whether it is a busy worker; its command line contains only its task."""
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
    """Record the processes that Ray starts for a driver.

    When the driver is done or gone, the remaining ones are killed.
    """
    known: set[psutil.Process] = set()
    poll = select.poll()
    poll.register(0, select.POLLIN)
    pause: float | None = EVERY * 1000
    while True:
        if poll.poll(pause):
            if not os.read(0, 1):
                break
            pause = None
        # After the driver has ended, its process id may be reused.
        ray_processes = of_ray(driver, folder)
        if os.getppid() == driver:
            known |= ray_processes
    deadline = time.monotonic() + END_TIMEOUT
    while (processes := still_there(known, folder)) and time.monotonic() < deadline:
        for process in processes:
            with suppress(psutil.Error):
                process.kill()
        # Until it has ended, a process writes files and holds its locks.
        time.sleep(0.02)
    sweep()


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2])
